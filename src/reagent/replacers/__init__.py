"""Replacers: which tokens may replace a token.

base.py            the table of candidates that every replacer fills, and sampling from it
registry.py        all replacers by name, and those of other packages
masked_lm.py       `roberta`: the predictions of a masked language model, mapped to tokens of the explained model
masked_network.py  the masked language model itself
self_lm.py         `self`: the explained model's own predictions
infill.py          `infill`: the same, reranked by the text that follows
pos.py             `pos`: tokens of the same part of speech
uniform.py         `random`: any ordinary token
alternatives.py    other values of slots in the prompt
vocabulary.py      the explained model's tokens as text
"""

from reagent.replacers.base import Proposals, Replacer
from reagent.replacers.infill import InfillReplacer
from reagent.replacers.masked_lm import MaskedLMReplacer
from reagent.replacers.pos import PartOfSpeechReplacer
from reagent.replacers.registry import (
    REPLACERS,
    ReplacerInfo,
    choose_automatic,
    find_replacer,
    list_replacers,
    make_replacer,
    replacer_names,
)
from reagent.replacers.self_lm import SelfReplacer
from reagent.replacers.uniform import UniformReplacer

__all__ = [
    "REPLACERS",
    "InfillReplacer",
    "MaskedLMReplacer",
    "PartOfSpeechReplacer",
    "Proposals",
    "Replacer",
    "ReplacerInfo",
    "SelfReplacer",
    "UniformReplacer",
    "choose_automatic",
    "find_replacer",
    "list_replacers",
    "make_replacer",
    "replacer_names",
]
