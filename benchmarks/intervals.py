"""Do the 95 % intervals of the fast preset contain the true effects?

    python benchmarks/intervals.py --split report --skip 4 --out intervals.jsonl > docs/benchmarks/intervals.json

With deletion, the true effect of a unit or a group is measured by one pass. With replacement it is the mean over many
replacements. An effect that was measured exactly has the standard error 0 and always counts as contained, so the
effects that were only estimated are counted separately. Every (prompt, removal, seed) is one line of the file --out,
and a rerun skips what is there. Prints JSON.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ranking_quality import own_proposals
from records import Record, Records
from repeated_prompts import SPLITS, load_prompts

import reagent
from reagent.case import Floats, Mask
from reagent.data.base import Example
from reagent.models.base import Model
from reagent.removal import Remover, make_remover

DRAWS = 24  # replacements of each set, for the true effect
LARGEST = 5
Z = 1.96
TOLERANCE = 0.002  # nats: the drops are rounded


def measure(model: Model, example: Example, removal: str, seed: int) -> Record:
    """The effects, standard errors and true effects of all units and groups of one prompt."""
    options: dict[str, Any] = {"replacer": "self"} if removal == "replace" else {}
    why = reagent.explain(model, example.prompt, target=example.target, removal=removal, seed=seed, **options)
    case = model.case(example.prompt, example.target).with_logprobs(model)
    remover = make_remover(removal, model, case, own_proposals(model, case))
    free = remover.free.tolist()
    groups = [group for group in why.groups[0] if group.stderr is not None]
    sets = np.zeros((len(free) + len(groups), len(free)), dtype=np.bool_)
    sets[np.arange(len(free)), np.arange(len(free))] = True
    for row, group in zip(sets[len(free) :], groups, strict=True):
        row[[free.index(unit) for unit in group.units]] = True
    true, error = true_effects(remover, case.values, sets)
    return {
        "effects": [*np.array(why.effects[0])[free], *(group.effect for group in groups)],
        "stderr": [*np.array(why.stderr[0])[free], *(group.stderr for group in groups)],
        "true": true.tolist(),
        "true_stderr": error.tolist(),
        "units": len(free),
        "probes": why.cost.probes,
    }


def true_effects(remover: Remover, values: Floats, sets: Mask) -> tuple[Floats, Floats]:
    """The mean drop of each set and its standard error."""
    if not remover.is_random:
        return (values - remover.score(sets).value)[:, 0], np.zeros(len(sets))
    rng, drops = np.random.default_rng(12345), []
    for row in sets:
        repeated = np.tile(row, (DRAWS, 1))
        drops.append((values - remover.score(repeated, rng.random(repeated.shape)).value)[:, 0])
    return np.mean(drops, axis=1), np.std(drops, axis=1, ddof=1) / np.sqrt(DRAWS)


def summarize(rows: list[Record]) -> Record:
    """The share of intervals that contain the true effect, for each kind of removal."""
    summary: Record = {}
    for removal in ("delete", "replace"):
        parts: dict[str, list[bool]] = {"all units": [], "estimated units": [], "largest units": [], "groups": []}
        errors: list[float] = []
        some = [row for row in rows if row["removal"] == removal]
        for row in some:
            effects, stderr, true = (np.array(row[name]) for name in ("effects", "stderr", "true"))
            width = Z * np.hypot(stderr, np.array(row["true_stderr"])) + TOLERANCE
            inside, n = np.abs(effects - true) <= width, row["units"]
            parts["all units"] += inside[:n].tolist()
            parts["estimated units"] += inside[:n][stderr[:n] > 0].tolist()
            parts["largest units"] += inside[np.argsort(-effects[:n], kind="stable")[:LARGEST]].tolist()
            parts["groups"] += inside[n:].tolist()
            errors += np.abs(effects - true)[:n].tolist()
        if some:
            summary[removal] = {name: {"share": _mean(part), "intervals": len(part)} for name, part in parts.items()}
            summary[removal] |= {"explanations": len(some), "mean_error": round(float(np.mean(errors)), 4)}
    return summary


def _mean(part: list[bool]) -> float | None:
    return round(float(np.mean(part)), 4) if part else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--size", type=int, default=19, help="prompts of each kind")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first prompts of each kind")
    parser.add_argument("--limit", type=int, default=5, help="prompts of each kind, for deletion")
    parser.add_argument("--replaced", type=int, default=2, help="prompts of each kind, for replacement")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("model", "split", "prompt", "removal", "seed"))
    if not arguments.summary:
        model = reagent.load_model(arguments.model)
        prompts = load_prompts(model, arguments.split, arguments.size)
        for removal, limit in (("delete", arguments.limit), ("replace", arguments.replaced)):
            for example in (e for some in prompts.values() for e in some[arguments.skip :][:limit]):
                for seed in range(arguments.seeds):
                    key = {
                        "model": arguments.model,
                        "split": arguments.split,
                        "prompt": example.id,
                        "removal": removal,
                        "seed": seed,
                    }
                    record = records.add(key, lambda e=example, r=removal, s=seed: measure(model, e, r, s))
                    print(f"{example.id} {removal} {seed}: {record['total_seconds']} s", file=sys.stderr)
    wanted = (arguments.model, arguments.split)
    rows = [row for row in records.rows if "error" not in row and (row["model"], row["split"]) == wanted]
    print(json.dumps(summarize(rows), indent=1))


if __name__ == "__main__":
    main()
