"""The tables of a report.

base.py          formatting of numbers, bold for the best of a column
results.py       full results, averages, LDS, comparison with the paper
pairwise.py      pairwise tests of the first entry against the others
leaderboard.py   how often each method is the best; results on the same examples
sharpness.py     spread of the scores next to the metrics
rationales.py    agreement with human annotations; length of rationales
ablations.py     ReAGent by replacer and by hyperparameters
cost.py          forward passes, seconds and precision
"""
