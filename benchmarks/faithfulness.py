"""Faithfulness by every metric: the fast preset beside leave-one-out, occlusion, LIME, Shapley sampling and random.

    python benchmarks/faithfulness.py --out faithfulness.jsonl > docs/benchmarks/faithfulness.json

Methods explain the prompts of the split `blind` (repeated_prompts.py) with 128 passes where that can be chosen. All
explanations of a prompt are measured together, on equal draws: soft_ns, soft_nc and their variants with equal shares;
comprehensiveness and sufficiency by deletion and by replacement; lds at shares of 10, 30 and 50 %, by both. Every
prompt is one line of the file --out, and a rerun skips what is there. Prints JSON.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from records import Record, Records, describe, errors, group_by
from repeated_prompts import SPLITS, load_prompts

import reagent
from reagent.api.evaluate import evaluate_together
from reagent.data.base import Example
from reagent.explanation import Explanation
from reagent.metrics.config import EvaluationConfig
from reagent.models.base import Model

PASSES = 128
FAST = "reagent fast"
METHODS: dict[str, dict[str, Any]] = {
    FAST: {"probes": PASSES},
    "reagent leave-one-out": {"preset": "leave-one-out", "probes": PASSES, "replacer": "self"},
    "occlusion (delete)": {"method": "occlusion", "removal": "delete"},
    "lime (delete)": {"method": "lime", "removal": "delete", "samples": PASSES},
    "lime (replace)": {"method": "lime", "removal": "replace", "samples": PASSES, "replacer": "self"},
    "shapley sampling (delete)": {"method": "shapley", "removal": "delete", "permutations": 4},
    "random": {"method": "random"},
}
CONFIG = EvaluationConfig(ratio=(0.1, 0.3, 0.5), removal=("delete", "replace"), draws=16, probes=48, replacer="self")


def measure(model: Model, example: Example) -> Record:
    """The value of every metric for every method, and the cost of the explanations."""
    explanations = {name: explain(model, example, options) for name, options in METHODS.items()}
    evaluations = evaluate_together(model, list(explanations.values()), CONFIG)
    return {
        "values": {
            name: {f"{result.metric}, {result.measure}": result.value for result in evaluation.results}
            for name, evaluation in zip(explanations, evaluations, strict=True)
        },
        "higher_is_better": {f"{r.metric}, {r.measure}": r.higher_is_better for r in evaluations[0].results},
        "forward_passes": {name: why.cost.forward_passes for name, why in explanations.items()},
    }


def explain(model: Model, example: Example, options: dict[str, Any]) -> Explanation:
    return reagent.explain(model, example.prompt, target=example.target, **options)


def summarize(rows: list[Record]) -> Record:
    """For each metric and method the mean, and the mean difference from the fast preset."""
    good = [row for row in rows if "error" not in row]
    table: Record = {}
    for metric, higher in good[0]["higher_is_better"].items() if good else ():
        values = {name: [row["values"][name][metric] for row in good] for name in METHODS}
        table[metric] = {
            "higher_is_better": higher,
            "methods": {name: describe(some) for name, some in values.items()},
            "minus_fast": {
                name: describe(_difference(a, b) for a, b in zip(some, values[FAST], strict=True))
                for name, some in values.items()
                if name != FAST
            },
        }
    passes = {name: describe(row["forward_passes"][name] for row in good) for name in METHODS}
    kinds = {kind: len(some) for (kind,), some in group_by(good, "kind").items()}
    return {"prompts": kinds, "forward_passes": passes, "metrics": table, "errors": errors(rows, "kind")}


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="blind")
    parser.add_argument("--size", type=int, default=16, help="prompts of each kind")
    parser.add_argument("--limit", type=int, default=4, help="only this number of prompts of each kind")
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("split", "kind", "prompt"))
    if not arguments.summary:
        model = reagent.load_model("smollm2")
        for kind, examples in load_prompts(model, arguments.split, arguments.size).items():
            for example in examples[: arguments.limit]:
                key = {"split": arguments.split, "kind": kind, "prompt": example.id}
                record = records.add(key, lambda e=example: measure(model, e))
                print(f"{example.id}: {record.get('error') or record['total_seconds']}", file=sys.stderr, flush=True)
    print(json.dumps(summarize(records.rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
