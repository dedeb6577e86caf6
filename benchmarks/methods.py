"""Every method on one prompt: the three most important tokens, passes and seconds. Prints JSON."""

import json

from prompts import DEMO

import reagent
from reagent.methods import METHODS

SLOW = {"reagent:paper": {"max_steps": 200}, "greedy:exhaustive": None}  # fewer steps, or omitted
SHOWN = [
    "reagent:fast",
    "reagent:paper",
    *(f"{name}:{preset}" for name, entry in METHODS.items() if name != "reagent" for preset in entry.presets),
]


def main() -> None:
    model = reagent.load_model("smollm2")
    rows = {}
    for name in SHOWN:
        options = SLOW.get(name, {})
        if options is None:
            continue
        method, _, preset = name.partition(":")
        why = reagent.explain(model, DEMO, max_new_tokens=1, method=method, preset=preset, **options)
        label = method if len(METHODS[method].presets) == 1 else f"{method} ({preset})"
        rows[label] = {
            "top": [row.token.text for row in why.top(3)],
            "passes": why.cost.forward_passes,
            "seconds": why.cost.seconds,
            "effect_unit": why.effect_unit,
            "errors": why.stderr is not None,
            "stopped": why.cost.stopped[0],
        }
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
