"""What answers "how likely is this token?".

protocol.py   the question, and what else a model may be able to do
loading.py    a name, folder, file or pair of objects → a model
hub.py        folders, the hub's cache and the hub, through `transformers`
prefix.py     what many sequences have in common, read once
tokens.py, reading.py   where tokens stand in the text; texts to tokens and back
cache.py      the cache folder
local.py      `transformers` causal LMs
embedded.py   the model that comes with the package index, fetched on first use
gguf.py       GGUF files as folders that `transformers` loads
http/         models behind an API of which only probabilities are visible
scripted.py   a plain function as a model, for tests
"""

from reagent.case import Case
from reagent.models.base import Model
from reagent.models.load import load_model

__all__ = ["Case", "Model", "load_model"]
