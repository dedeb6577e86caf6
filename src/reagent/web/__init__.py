"""The local web page and its HTTP service.

app.py        the routes
requests.py   from the JSON body of a request to a checked request, and the options that the page offers
schemas.py    the JSON bodies and responses, for the OpenAPI description
responses.py  JSON responses and one-line errors
results.py    what a job computes: an explanation or citations
jobs.py       requests as jobs: one worker thread, one model, a bounded queue
sse.py        the states of a job as server-sent events
saved_jobs.py  jobs on disk, so that they survive the end of the process
storage.py    results on disk, so that links still work after a restart
connections.py  deadlines for connections without a request
security.py   checks of host, origin, token, size and duration of a request
config.py     limits and access rules of a service
assets.py     the files of the page
api_docs.py   the page /docs, which loads nothing from other sites
assets/       HTML, CSS and JavaScript of the page
"""
