"""A model whose answer " yes" gains known numbers of nats for words of the prompt, and a template of such words."""

from collections.abc import Mapping

import numpy as np

from reagent.case import Floats, Ids
from reagent.testing import ScriptedModel

TEMPLATE = """<rules>
strict
</rules>
<tone>
kind
</tone>
<legal>
law
</legal>
<format>
short
</format>
<again>
brief
</again>
<noise>
loud
</noise>
Say {{word}} :"""
WORDS = [
    *("a", "b", "c", "d", "Say", ":", "strict", "kind", "law", "short", "brief", "loud", "yes"),
    *(f"<{slash}{tag}>" for tag in ("rules", "tone", "legal", "format", "again", "noise") for slash in ("", "/")),
]
INPUTS = [{"word": word, "answer": "yes"} for word in "abcd"]
GAINS: Mapping[str, float] = {"strict": 3.0, "loud": -2.0, "kind": 0.01}  # each alone
EITHER = {"short", "brief"}  # worth 4 nats, and either is enough
BY_WORD = {"a": 0.0, "b": 0.1, "c": 0.2, "d": 0.3}  # "strict" gains this much more


def planted_model() -> ScriptedModel:
    yes = WORDS.index("yes")

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, yes] = [-30 + _gain({WORDS[i] for i in row}) for row in context.tolist()]
        return table  # so unlikely that the log-probability changes by the gain

    return ScriptedModel(WORDS, logits)


def _gain(words: set[str]) -> float:
    own = sum(GAINS.get(word, 0.0) for word in words)
    varies = sum(BY_WORD.get(word, 0.0) for word in words) if "strict" in words else 0.0
    return own + varies + 4.0 * bool(words & EITHER)
