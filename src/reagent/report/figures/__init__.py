"""The figures of a report.

base.py          the canvas, colours and fonts; rendering as PNG and SVG
bars.py          bar charts of log ratios to random
cost.py          faithfulness against forward passes
convergence.py   faithfulness against the budget of ReAGent
examples.py      single examples: importance distributions, heat maps, shaded text
"""
