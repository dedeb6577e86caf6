"""The answer as a whole: passes against the question about every output token, and agreement with exact effects.

    python benchmarks/whole_answer.py --out whole_answer.jsonl > docs/benchmarks/whole_answer.json

The prompts are those of prompts.py (short, medium, long, two of the capitals), with answers of ten tokens. The default
explains the answer as a whole and changes only the prompt; `attribute_target=True` explains every output token by its
whole context, which was the default before. The exact effect of a token of the prompt on the answer is measured by
deleting it alone (occlusion). Every (prompt, run) is one line of the file --out, and a rerun skips what is there.
Prints JSON.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from prompts import LONG, MEDIUM, SHORT, TEMPLATES
from records import Record, Records, describe, group_by
from scipy.stats import pearsonr, spearmanr

import reagent
from reagent.explanation import Explanation
from reagent.models.base import Model

ANSWER = 10  # tokens
COUNTRIES = [TEMPLATES[0].format(country="Italy"), TEMPLATES[1].format(country="Spain")]
PROMPTS = [*SHORT[:3], *MEDIUM[1:], *LONG, *COUNTRIES]
RUNS = {
    "whole answer": {},
    "every output token": {"attribute_target": True},
    "64 probes": {"probes": 64},
    "128 probes": {"probes": 128},
}


def measure(model: Model, prompt: str, options: dict[str, object], exact: Explanation) -> Record:
    why = reagent.explain(model, prompt, max_new_tokens=ANSWER, **options)
    row, truth = why.whole()[0], exact.whole()[0]
    assert row.effects is not None
    assert truth.effects is not None
    free = [i for i, token in enumerate(why.input) if not token.protected]
    effects, exact_effects = np.array(row.effects)[free], np.array(truth.effects)[free]
    top = np.argsort(-exact_effects)[:3]
    record = {
        "passes": why.cost.forward_passes,
        "tokens": why.cost.tokens,
        "seconds": why.cost.seconds,
        "spearman": round(float(spearmanr(effects, exact_effects).statistic), 4),
        "pearson": round(float(pearsonr(effects, exact_effects).statistic), 4),
        "top3": float(np.isin(np.argsort(-effects)[:3], top).mean()),
    }
    if row.stderr is not None and why.answer is not None:
        errors = np.array(row.stderr)[free]
        record["covered"] = float((np.abs(effects - exact_effects) <= 1.96 * errors + 1e-3).mean())
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--limit", type=int, help="only this number of prompts")
    parser.add_argument("--model", default="smollm2")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("prompt", "run"))
    model = reagent.load_model(arguments.model)
    for prompt in PROMPTS[: arguments.limit]:
        exact = reagent.explain(model, prompt, max_new_tokens=ANSWER, method="occlusion", removal="delete")
        for name, options in RUNS.items():
            record = records.add(
                {"prompt": prompt, "run": name},
                lambda p=prompt, o=options, e=exact: measure(model, p, o, e),
            )
            print(f"{prompt[:30]}… {name}: {record['total_seconds']} s {record.get('error', '')}", file=sys.stderr)
    rows = [row for row in records.rows if "error" not in row]
    names = ("passes", "tokens", "spearman", "pearson", "top3", "covered")
    summary: Record = {
        run: {name: describe(row[name] for row in own if name in row) for name in names if name in own[0]}
        for (run,), own in group_by(rows, "run").items()
    }
    passes = {run: row["passes"]["mean"] for run, row in summary.items()}
    summary["ratio of passes"] = round(passes["every output token"] / passes["whole answer"], 3)
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
