"""Models that only answer with text: no log-probabilities, no tokens.

model.py        the model itself: the response is how much the new answer is like the original one
sources.py      where answers come from: a Python function, a server, or any other model
scorers.py      responses of answers: similarity, labels, patterns, embeddings
likelihood.py   responses from the likelihood of the original answer under a proxy
similarity.py   word F1 and chrF of two texts
"""

from reagent.models.text.model import TextModel, TextOptions
from reagent.models.text.scorers import AnswerScorer
from reagent.models.text.sources import AnswerSource, Request

__all__ = ["AnswerScorer", "AnswerSource", "Request", "TextModel", "TextOptions"]
