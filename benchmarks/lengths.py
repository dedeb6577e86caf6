"""Does a long prompt take more passes than a short one? 40 and 400 tokens, against a reference with many probes.

    python benchmarks/lengths.py --out lengths.jsonl > docs/benchmarks/lengths.json

The prompts are those of the split `report` of repeated.py (one and two mentions), alone and after everyday sentences
that say nothing about the answer. The reference is the same preset with many more probes and another seed. Agreement
is Pearson's correlation of the scores of all units, Spearman's over the units that are among the ten first in either,
and the share of the five first units of the reference that are among the ten first. Every (prompt, length) is one line
of the file --out, and a rerun skips what is there. Prints JSON.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from documents import document
from records import Record, Records, describe, group_by
from repeated_prompts import load_prompts
from scipy.stats import spearmanr

import reagent
from reagent.data.base import Example
from reagent.explanation import Explanation
from reagent.models.base import Model

LENGTHS = (40, 400)
REFERENCE = 768  # probes
KINDS = ("once", "twice")


def lengthen(model: Model, example: Example, length: int) -> str:
    """The prompt after as many sentences as fit into the number of tokens."""
    prompt = example.prompt
    for sentences in range(1, length):
        longer = f"{document(sentences, seed=1)}\n\n{example.prompt}"
        if len(model.case(longer, example.target).input) > length:
            break
        prompt = longer
    return prompt


def measure(model: Model, example: Example, length: int) -> Record:
    prompt = lengthen(model, example, length)
    why = reagent.explain(model, prompt, target=example.target)
    reference = reagent.explain(model, prompt, target=example.target, probes=REFERENCE, seed=1)
    scores, truth = np.array(why.scores[0]), np.array(reference.scores[0])
    top, best = np.argsort(-scores, kind="stable")[:10], np.argsort(-truth, kind="stable")[:10]
    either = np.union1d(top, best)
    offset = len(prompt) - len(example.prompt)
    return {
        "tokens_of_prompt": len(why.input),
        "passes": why.cost.forward_passes,
        "tokens": why.cost.tokens,
        "seconds": why.cost.seconds,
        "pearson": round(float(np.corrcoef(scores, truth)[0, 1]), 4),
        "correlation": round(float(spearmanr(scores[either], truth[either]).statistic), 4),
        "first_five": float(np.isin(best[:5], top).mean()),
        "mentions_found": all(
            _is_among(why, top[:5], start + offset, end + offset) for start, end in example.antecedent
        ),
        "sufficient": why.sufficiency[0].passed,
    }


def _is_among(why: Explanation, units: np.ndarray, start: int, end: int) -> bool:
    return any(why.input[i].start < end and why.input[i].end > start for i in units)


def summarize(rows: list[Record]) -> Record:
    names = ("tokens_of_prompt", "passes", "tokens", "pearson", "correlation", "first_five", "mentions_found")
    table = {
        str(length): {name: describe(float(row[name]) for row in own) for name in names}
        for (length,), own in group_by(rows, "length").items()
    }
    if len(table) == len(LENGTHS):
        short, long = (table[str(length)]["passes"]["mean"] for length in LENGTHS)
        table["ratio of passes"] = round(long / short, 3)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--size", type=int, default=19, help="prompts of each kind in the split")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first prompts of each kind")
    parser.add_argument("--limit", type=int, default=3, help="prompts of each kind")
    parser.add_argument("--model", default="smollm2")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("model", "prompt", "length"))
    model = reagent.load_model(arguments.model)
    prompts = load_prompts(model, "report", arguments.size)
    for number in range(arguments.skip, arguments.skip + arguments.limit):
        for example in (prompts[kind][number] for kind in KINDS):
            for length in LENGTHS:
                record = records.add(
                    {"model": arguments.model, "prompt": example.id, "length": length},
                    lambda e=example, n=length: measure(model, e, n),
                )
                print(f"{example.id} {length}: {record['total_seconds']} s {record.get('error', '')}", file=sys.stderr)
    rows = [row for row in records.rows if "error" not in row and row["model"] == arguments.model]
    print(json.dumps(summarize(rows), indent=1))


if __name__ == "__main__":
    main()
