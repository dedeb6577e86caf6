"""Language models: the protocol that they follow, and its implementations.

base.py           the protocol of a model, and the protocols of optional capabilities
load.py           `load_model`: from a name, path, URL or pair of objects to a model
local.py          what all models on this machine have in common
huggingface.py    causal language models on this machine, through `transformers`
seq2seq.py        encoder–decoder models on this machine, through `transformers`
encoder_decoder.py    an encoder–decoder as one function, from source and output to logits
encoder_decoder_check.py  what it can do, tried on a short random source and output
source_and_target.py  source and target of an encoder–decoder as tokens
source_cache.py   encoded sources, each computed once
joint_attention.py    attention of an encoder–decoder over source and output
network.py        a network as one function from tokens or embeddings to logits
mixed_precision.py    matrix products in bfloat16, for faster scores
internals.py      distributions, masked scores, values, gradients and attention of a network
decoder_layers.py     the decoder layers of a network by their parts, in two known forms
information_flow.py   what each layer passes on from each token to each position
relevance.py      layer-wise relevance propagation as modified gradients
prefix_cache.py   the prefix that many sequences share, computed once
self_check.py     what a network can do, tried on a short random text when it is loaded
ragged.py         scores of sequences of different lengths, for every model
padding.py        batches of sequences of different lengths, with little padding
tokenization.py   texts to tokens and back
chat.py           chat messages and chat templates
chat_spans.py     where a chat template writes each message
_transformers.py  loading from folders, the hub's cache and the hub
bundled.py        the models that come from the Python package index
cache.py          the cache folder
dry_run.py        a model that only counts requests
text/             models that only answer with text
gguf/             GGUF files as folders that `transformers` loads
http/             models behind an HTTP API that returns only probabilities
"""

from reagent.case import Case
from reagent.models.base import Model
from reagent.models.load import load_model

__all__ = ["Case", "Model", "load_model"]
