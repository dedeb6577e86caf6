"""Numbers of docs/study/README.md that are in no table of its reports, from the same records. Prints JSON.

python benchmarks/study_checks.py
git show 5b165ae:docs/study/standard.sqlite > former.sqlite
python benchmarks/study_checks.py --former former.sqlite     # also the preset before tokens had turns
"""

import argparse
import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest, wilcoxon

from reagent.bench.report.reading import Number, Run, read
from reagent.bench.store import Store

STUDY = Path("docs/study")
METRICS = [
    (m, "hellinger") for m in ("soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc", "comprehensiveness", "sufficiency")
]
LDS = ("lds", "spearman")


def load(path: Path) -> Run:
    with Store.open(path) as store:
        return read(store)


def values(run: Run, label: str, dataset: str, number: Number) -> dict[str, Any]:
    rows = (row for row in run.rows if (row.label, row.dataset) == (label, dataset) and number in row.results)
    return {row.example: row.results[number] for row in rows}


def on_the_same(run: Run) -> dict[str, Any]:
    """Log ratios on the examples of LongRA that the published search has."""
    examples = values(run, "reagent (paper)", "longra", LDS)
    found: dict[str, Any] = {"examples": len(examples)}
    for number in METRICS[:2]:
        ratios = {}
        for label in run.labels:
            some = [r for e, r in values(run, label, "longra", number).items() if e in examples]
            if len(some) == len(examples):
                ratios[label] = float(np.log(np.mean([r.value for r in some]) / np.mean([r.random for r in some])))
        found[number[0]] = dict(sorted(ratios.items(), key=lambda pair: -pair[1]))
    return found


def how_sure(run: Run) -> dict[str, Any]:
    """Error of the largest effect (median), and what ended the search, by task."""
    found = {}
    for dataset in run.datasets:
        for label in ("reagent", "occlusion", "reagent (paper)"):
            rows = [row for row in run.rows if (row.label, row.dataset) == (label, dataset)]
            errors = [row.error for row in rows if row.error is not None]
            stopped = Counter(reason for row in rows for reason in row.stopped)
            found[f"{dataset}, {label}"] = {"error": float(np.median(errors)) if errors else None, "stopped": stopped}
    return found


def distractor(run: Run) -> dict[str, Any]:
    """Who avoids it where ReAGent and occlusion differ, by a sign test."""
    ours, theirs = (values(run, label, "longra", ("no_d", "found")) for label in ("reagent", "occlusion"))
    gaps = [ours[e].value - theirs[e].value for e in ours if e in theirs]
    ahead, behind = sum(g > 0 for g in gaps), sum(g < 0 for g in gaps)
    return {"ahead": ahead, "behind": behind, "p": float(binomtest(ahead, ahead + behind).pvalue)}


def together(name: str) -> dict[str, Any]:
    """All head-to-heads of a run under one Holm correction: the smallest p against each rival on LongRA."""
    files = sorted((STUDY / name / "data").glob("duels_*.csv"))
    rows = [row for file in files for row in csv.DictReader(file.open()) if row["p"]]
    order = np.argsort([float(row["p"]) for row in rows])
    steps = [(len(rows) - k) * float(rows[i]["p"]) for k, i in enumerate(order)]
    adjusted = dict(zip(order.tolist(), np.minimum(1, np.maximum.accumulate(steps)).tolist(), strict=True))
    smallest: dict[str, float] = {}
    for i, row in enumerate(rows):
        if row["dataset"] == "longra":
            smallest[row["against"]] = min(adjusted[i], smallest.get(row["against"], 1.0))
    return {"tests": len(rows), "smallest_p": smallest}


def best(run: Run) -> dict[str, int]:
    """How often each method that has all examples has the best mean, over tasks and metrics."""
    wins: Counter[str] = Counter()
    for dataset in run.datasets:
        for number in [*METRICS, LDS]:
            means = {
                label: np.mean([r.value for r in values(run, label, dataset, number).values()])
                for label in run.labels
                if label not in ("random", "reagent (paper)", "greedy")
            }
            wins[(min if number[0] == "sufficiency" else max)(means, key=lambda label: means[label])] += 1
    return dict(wins.most_common())


def turns(run: Run, former: Run, looked_at: set[str]) -> dict[str, Any]:
    """The preset before and after tokens had turns, on examples that were not looked at."""
    found = {}
    for number in [*METRICS, LDS, ("no_d", "found")]:
        old, new = (values(r, "reagent", "longra", number) for r in (former, run))
        pairs = np.array([(old[e].value, new[e].value) for e in old if e in new and e not in looked_at])
        p = float(wilcoxon(*pairs.T).pvalue) if (pairs[:, 0] != pairs[:, 1]).any() else 1.0
        found[number[0]] = {"examples": len(pairs), "before": pairs[:, 0].mean(), "after": pairs[:, 1].mean(), "p": p}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--former", type=Path)
    arguments = parser.parse_args()
    run, gemma = load(STUDY / "standard.sqlite"), load(STUDY / "gemma.sqlite")
    found = {
        "on the examples of the published search": on_the_same(run),
        "how sure": how_sure(run),
        "distractor": {"smollm2": distractor(run), "gemma": distractor(gemma)},
        "all head-to-heads corrected together": together("standard"),
        "best of 21 means": best(run),
    }
    if arguments.former:
        looked_at = {row.example for row in load(STUDY / "choices.sqlite").rows if row.dataset == "longra"}
        found["turns"] = turns(run, load(arguments.former), looked_at)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
