"""An example of a package that extends reagent.

method.py     Recency: the closer a token is to the answer, the higher its score
replacer.py   Neighbours: replaces a token by the other tokens of the same text
metric.py     TopDrop: how much less likely the answer is without the most important unit
model.py      a model that repeats the first word of its prompt
dataset.py    three greetings
"""
