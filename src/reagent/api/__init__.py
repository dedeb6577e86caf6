"""The verbs of the package, one file each; `reagent.explain` and its siblings are defined here.

explain.py    explain a prompt, or a list of prompts
run.py        answer a checked request with an Explanation
cost.py       count what that costs
cite.py       find the sources of an answer about documents
check_traced.py  check a trace by new reasoning from a changed prompt
compare.py    explain a prompt by several methods
evaluate.py   measure how faithful an explanation is
record.py     a statement of record about an explanation
repeat.py     run the method of an explanation again
proxy.py      explain the answer of a large model by a small one, and check that both agree
estimate.py   count the cost of a request without a single pass
noise.py      how much the responses of a server vary
prepare.py    from a request and a model's tokens to the case that a method explains
"""
