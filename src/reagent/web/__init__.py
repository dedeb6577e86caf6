"""The page and its service: it parses, calls the library and chooses a view, nothing else.

app.py        the routes
questions.py  from the body of a request to what is asked, and what may be asked
jobs.py       explanations as jobs: one worker, one model, a bounded queue
events.py     a job as server-sent events
shelf.py      explanations on the disk, so that a link survives a restart
security.py   who may ask: host, origin, token, size and time of a request
answers.py    every answer as plain JSON, every error as one line
reference.py  the page /docs, without anything from outside
settings.py   limits, and who may come in
assets/       the page itself
"""
