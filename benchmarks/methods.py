"""Every method on one prompt: the three most important tokens, passes and seconds. Prints JSON.

The presets `fast` and `leave-one-out`, the default before, are run several times in turn, and the median is shown.
"""

import argparse
import json
from statistics import median

from prompts import DEMO

import reagent
from reagent.methods import METHODS

SLOW = {"reagent:paper": {"max_steps": 200}, "greedy:exhaustive": None}  # fewer steps, or omitted
IN_TURN, TIMES = ("reagent:fast", "reagent:leave-one-out"), 5
SHOWN = [
    *IN_TURN,
    "reagent:paper",
    *(f"{name}:{preset}" for name, entry in METHODS.items() if name != "reagent" for preset in entry.presets),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=SHOWN, metavar="METHOD:PRESET", help="only these")
    shown = parser.parse_args().methods
    model = reagent.load_model("smollm2")

    def explain(name: str) -> reagent.Explanation:
        method, _, preset = name.partition(":")
        options = SLOW.get(name) or {}
        return reagent.explain(model, DEMO, max_new_tokens=1, method=method, preset=preset, **options)

    in_turn = [{name: explain(name).cost.seconds for name in IN_TURN} for _ in range(TIMES)]
    rows = {}
    for name in shown:
        if SLOW.get(name, {}) is None:
            continue
        why = explain(name)
        method, _, preset = name.partition(":")
        label = method if len(METHODS[method].presets) == 1 else f"{method} ({preset})"
        rows[label] = {
            "top": [row.token.text for row in why.top(3)],
            "passes": why.cost.forward_passes,
            "seconds": median(run[name] for run in in_turn) if name in IN_TURN else why.cost.seconds,
            "effect_unit": why.effect_unit,
            "errors": why.stderr is not None,
            "stopped": why.cost.stopped[0],
        }
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
