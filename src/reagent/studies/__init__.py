"""Prompt studies: a template over many inputs.

request.py    everything that is asked, checked once
inputs.py     the inputs: rows of a file, or mappings
worker.py     scores the prompts of an input, on any engine of the benchmark
measuring.py  measures sets of parts, and keeps every number in a file of results
effects.py    mean effects, their intervals, and what follows from them
search.py     which idle parts can go together, and which say the same
summarize.py  `summarize`: the words of many explanations
run.py        `study`: from a request to a Study
"""
