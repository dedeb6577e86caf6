"""A model for trying things out: it repeats the first word of its prompt."""

import numpy as np

from reagent.testing import WORDS, ScriptedModel


def load_parrot(name: str) -> ScriptedModel:
    """`load_model("parrot")`, or `--model parrot`; `name` is the text after the colon, as in "parrot:loud"."""
    strength = 9.0 if name == "loud" else 3.0
    return ScriptedModel(WORDS, lambda context: strength * (context[:, :1] == np.arange(len(WORDS))))
