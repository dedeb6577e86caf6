"""From a suite to results: plan, run (here or on Ray), store, report.

suite.py, suites/   what to do, from TOML
plan.py       a suite as jobs, and the keys of their cells
choosing.py   which examples a model gets
work.py       a worker, which holds a model and does jobs
engines.py    workers in this process, or on Ray
running.py    what is missing is done
records.py    Cell: what was found at one place of a suite
store.py, database.py, packing.py   the file of results
estimate.py, calibrating.py   what a suite takes, before it is run
exporting.py  explanations as JSON lines; shards in one file
report/       tables, figures and a page
"""
