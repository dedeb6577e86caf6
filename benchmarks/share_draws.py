"""The spread of a draw of comprehensiveness and sufficiency: the same replacements for all shares, or own ones.

The drop in nats on the prompt of the README, with the scores of the default method. Prints JSON.
"""

import json
from typing import Any

import numpy as np
from prompts import DEMO

import reagent
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.context import make_context
from reagent.metrics.replacement import SHARES, count_units

DRAWS = 64


def main() -> None:
    model: Any = reagent.load_model("smollm2")
    why = reagent.explain(model, DEMO, max_new_tokens=1)
    context = make_context(model, [why], EvaluationConfig())
    remover = context.remover("replace", context.case.for_target(0))
    units, rng = len(remover.free), np.random.default_rng(0)
    rank = np.argsort(np.argsort(-np.array(why.scores[0])[remover.free], kind="stable"))
    found: dict[str, Any] = {"prompt": DEMO, "draws": DRAWS}
    for metric in ("comprehensiveness", "sufficiency"):
        same = rng.random((DRAWS, units))
        found[metric] = {}
        for name in ("same", "own"):
            drops = np.zeros((DRAWS, len(SHARES)))
            for i, share in enumerate(SHARES):
                top = rank < count_units(share, units)
                removed = np.tile(top if metric == "comprehensiveness" else ~top, (DRAWS, 1))
                uniform = same if name == "same" else rng.random((DRAWS, units))
                drops[:, i] = context.case.values[0] - remover.score(removed, uniform).value[:, 0]
            values = drops.mean(1)
            found[metric][name] = {
                "value": round(float(values.mean()), 3),
                "spread_of_a_draw": round(float(values.std(ddof=1)), 3),
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
