"""Whole studies: from a suite to results, in this process or on Ray.

suite.py      models × datasets × methods × metrics, from TOML
suites/       the suites of the package
plan.py       a suite as jobs, and the keys of their cells
runner.py     runs the jobs that are missing in a file
worker.py     holds a model and runs jobs
engines.py    workers in this process, or on Ray
records.py    Cell: the result at one place of a suite
store.py      the file of results
database.py   its SQLite schema, lock and errors
codec.py      explanations and evaluations as compressed bytes
estimate.py   passes, tokens and time before a run
export.py     explanations as JSON lines; merging shards
"""
