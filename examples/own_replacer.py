"""How do I use my own replacer or method?"""

import numpy as np

import reagent
from reagent.replacers.base import make_proposals


class Countries:  # a method has `attribute` instead of `propose`: see plugin/
    """Replaces every token by a country."""

    names = (" France", " Italy", " Spain")

    @property
    def info(self):
        return {"id": "countries", "names": self.names}

    def propose(self, model, case, rng):  # noqa: ARG002
        ids = [model.case("x", target=name).output[0].ids[0] for name in self.names]
        table = np.tile(ids, (len(case.ids), 1))  # a row for each token, a column for each candidate
        return make_proposals(case, table, weights=np.ones(table.shape))


model = reagent.load_model("smollm2")
why = reagent.explain(model, "She lives in Japan. The capital is", target=" Tokyo", replacer=Countries(), probes=64)
print("most important:", *(token.token.text.strip() for token in why.top(3)))
