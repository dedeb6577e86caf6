"""How do I use my own replacer or method?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import reagent
from reagent.replacers.base import make_proposals


@dataclass(frozen=True)
class Countries:  # a method needs `info` and `attribute` instead: see plugin/
    """Replaces every token by a country."""

    names: tuple[str, ...] = (" France", " Italy", " Spain")

    @property
    def info(self) -> dict[str, Any]:
        return {"id": "countries", "names": self.names}

    def propose(self, model, case, rng):
        ids = [model.case("x", target=name).output[0].ids[0] for name in self.names]
        return make_proposals(case, np.tile(ids, (len(case.ids), 1)), np.ones((len(case.ids), len(ids))))


model = reagent.load_model("smollm2")
why = reagent.explain(model, "She lives in Japan. The capital is", target=" Tokyo", replacer=Countries(), probes=32)
print("most important:", *(token.token.text for token in why.top(2)), "replaced by", why.replacer["names"])
