"""How many draws does a metric need? The Monte-Carlo error on the demo prompt by the number of draws. Prints JSON.

For each metric: the standard deviation of a single draw, the number of draws for a standard error of 0.01, the standard
error after fixed numbers of draws, and the number that the default takes. The Hellinger measures are used, which lie in
[0, 1].
"""

import argparse
import json
from math import ceil, sqrt
from typing import Any

from prompts import DEMO

import reagent
from reagent.api.evaluate import evaluate
from reagent.metrics.monte_carlo import PRECISION

SOFT = ["soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc"]
REPLACED = ["comprehensiveness", "sufficiency"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--soft", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--replaced", type=int, nargs="+", default=[8, 32, 128])
    arguments = parser.parse_args()
    model = reagent.load_model(arguments.model)
    why = reagent.explain(model, DEMO, max_new_tokens=1)
    table: dict[str, Any] = {"prompt": DEMO, "target": why.completion, "precision": PRECISION, "metrics": {}}
    for names, counts in ((SOFT, arguments.soft), (REPLACED, arguments.replaced)):
        runs = {n: evaluate(model, why, names, draws=n) for n in counts}
        by_default = evaluate(model, why, names)
        for name in names:
            fixed = {n: run.result(name, "hellinger") for n, run in runs.items()}
            longest, default = fixed[max(fixed)], by_default.result(name, "hellinger")
            spread = longest.stderr * sqrt(longest.draws)
            random_spread = longest.random_stderr * sqrt(longest.random_draws)
            table["metrics"][name] = {
                "value": longest.value,
                "random": longest.random,
                "spread_of_a_draw": spread,
                "draws_for_precision": ceil((spread / PRECISION) ** 2),
                "random_spread_of_a_draw": random_spread,
                "stderr": {n: result.stderr for n, result in fixed.items()},
                "default": {
                    "draws": default.draws,
                    "stderr": default.stderr,
                    "random_draws": default.random_draws,
                    "random_stderr": default.random_stderr,
                },
            }
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
