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

from reagent.models.case import Case
from reagent.models.loading import load_model
from reagent.models.protocol import Model

__all__ = ["Case", "Model", "load_model"]
