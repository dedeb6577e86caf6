"""Does a prompt study find the parts of a template that matter, and those that can go?

    python benchmarks/prompt_studies.py --limit 40 --out records > docs/benchmarks/prompt_studies.json

Each template has a format instruction and an example, which the expected answers follow, and three sections that have
nothing to do with them. There are three wordings of these sections, each as a chat message and as plain text. The
inputs are the countries of countries.tsv with the split `report`; the templates were written with the split `develop`.

The intervals are checked by resampling: all inputs are the population, whose mean effect is known, and studies of some
inputs are drawn from it with replacement. Every number is kept in the folder --out, and a rerun skips what is there.
Prints JSON.
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from records import Record

import reagent
from reagent.case import Floats
from reagent.metrics.statistics import bootstrap, student
from reagent.prompt_study import MeanEffect, Study
from reagent.studies.effects import judge

TEMPLATE = """## Format
Name the capital of the country. Begin every answer with the words "Captain says".

## About us
{about}

## Example
Country: Japan
Answer: JP-Tokyo-Asia

## House rules
{rules}

## Contact
{contact}

## Question
Country: {{{{country}}}}
Answer:
"""
WORDINGS = (
    {
        "about": "We are a small team.",
        "rules": "The office is closed on Sundays.",
        "contact": "Write to us by mail.",
    },
    {
        "about": "Our team is small and friendly.",
        "rules": "Please leave coats at the door.",
        "contact": "Our mailbox is next to the stairs.",
    },
    {
        "about": "Thank you for reading this.",
        "rules": "All rooms have a window.",
        "contact": "See the notice board for news.",
    },
)
PLANTED = {"Format": "needed", "Example": "needed"} | dict.fromkeys(("About us", "House rules", "Contact"), "idle")
SIZES = (10, 20, 30)  # inputs of a resampled study
RESAMPLES = 4000
FEW_RESAMPLES = 1000  # of the bootstrap, which is slow


def load_inputs(split: str) -> list[dict[str, str]]:
    with open(Path(__file__).with_name("countries.tsv"), encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["split"] == split]
    return [
        {"country": row["country"], "answer": f"Captain says {row['code']}-{row['capital']}-{row['continent']}"}
        for row in rows
    ]


def run_studies(folder: Path, split: str, limit: int | None, modes: list[str]) -> dict[str, Study]:
    folder.mkdir(parents=True, exist_ok=True)
    model, inputs, studies = reagent.load_model("smollm2"), load_inputs(split)[:limit], {}
    for chat in [mode == "chat" for mode in modes]:
        for number, wording in enumerate(WORDINGS, 1):
            name = f"wording {number}, {'chat' if chat else 'plain'}"
            out = folder / f"{split}-{number}-{'chat' if chat else 'plain'}.sqlite"
            studies[name] = reagent.study(model, TEMPLATE.format(**wording), inputs, chat=chat, out=out)
            print(name, studies[name], file=sys.stderr)
    return studies


def describe(study: Study) -> Record:
    return {
        "inputs": len(study.inputs),
        "threshold": study.threshold,
        "worth": study.worth.mean,
        "removable": [study.parts[i].name for i in study.removable.parts],
        "removed_together": [study.removable.effect.mean, study.removable.effect.low, study.removable.effect.high],
        "tokens_saved": study.removable.tokens / study.prompt_tokens,
        "cost": {"forward_passes": study.cost.forward_passes, "tokens": study.cost.tokens},
        "parts": [
            {
                "name": part.name,
                "planted": PLANTED.get(part.name),
                "verdict": part.verdict,
                "effect": [part.effect.mean, part.effect.low, part.effect.high],
                "matters": part.matters,
            }
            for part in study.parts
        ],
    }


def resample(study: Study, size: int, rng: np.random.Generator) -> Record:
    """The share of intervals that contain the mean of all inputs, and what studies of so few inputs conclude."""
    covered: dict[str, list[float]] = {"student": [], "bootstrap": []}
    verdicts: dict[str, dict[str, int]] = {}
    for part in study.parts:
        values = np.array([effect for effect in part.effects if effect is not None])
        draws = rng.choice(values, (RESAMPLES, size))
        truth = values.mean()
        intervals = [student(draw) for draw in draws]
        covered["student"].append(_contained(intervals, truth))
        few = [bootstrap(draw, lambda x: x.mean(1), seed, 400) for seed, draw in enumerate(draws[:FEW_RESAMPLES])]
        covered["bootstrap"].append(_contained(few, truth))
        names = [judge(MeanEffect(*interval, size), study.threshold) for interval in intervals]
        verdicts[part.name] = {name: names.count(name) for name in sorted(set(names))}
    return {"coverage": covered, "verdicts": verdicts}


def _contained(intervals: list[Any], truth: float) -> float:
    return float(np.mean([low <= truth <= high for _, low, high in intervals]))


def summarize(studies: dict[str, Study], resampled: dict[str, dict[int, Record]]) -> Record:
    found = [
        (part.verdict, PLANTED[part.name], part.name in [study.parts[i].name for i in study.removable.parts])
        for study in studies.values()
        for part in study.parts
        if part.name in PLANTED
    ]
    coverage = {
        size: {
            kind: _spread(np.array([one[size]["coverage"][kind] for one in resampled.values()]).ravel())
            for kind in ("student", "bootstrap")
        }
        for size in SIZES
    }
    return {
        "needed": {
            "planted": sum(p == "needed" for _, p, _ in found),
            "found": found.count(("needed", "needed", False)),
        },
        "idle": {
            "planted": sum(p == "idle" for _, p, _ in found),
            "certified_and_removable": found.count(("idle", "idle", True)),
            "verdicts": {
                v: sum((v, "idle") == one[:2] for one in found) for v in {v for v, p, _ in found if p == "idle"}
            },
        },
        "coverage": coverage,
        "false_idle": {size: _false_idle(studies, resampled, size) for size in SIZES},
    }


def _false_idle(studies: dict[str, Study], resampled: dict[str, dict[int, Record]], size: int) -> Record:
    """How often a part is called idle: the most of the parts that are not, and the mean of those that are."""
    rates = [
        (
            abs(part.effect.mean or 0) < study.threshold,
            resampled[name][size]["verdicts"][part.name].get("idle", 0) / RESAMPLES,
        )
        for name, study in studies.items()
        for part in study.parts
    ]
    beyond = [rate for is_small, rate in rates if not is_small]
    return {
        "beyond": max(beyond, default=0.0),
        "within": float(np.mean([rate for is_small, rate in rates if is_small])),
    }


def _spread(values: Floats) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "least": float(values.min()),
        "most": float(values.max()),
        "parts": len(values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("prompt_studies"))
    parser.add_argument("--split", default="report", choices=("develop", "report"))
    parser.add_argument("--limit", type=int, help="only the first inputs")
    parser.add_argument("--modes", nargs="+", default=["plain", "chat"], choices=("plain", "chat"))
    arguments = parser.parse_args()
    studies = run_studies(arguments.out, arguments.split, arguments.limit, arguments.modes)
    rng = np.random.default_rng(0)
    resampled = {name: {size: resample(study, size, rng) for size in SIZES} for name, study in studies.items()}
    result = {
        "summary": summarize(studies, resampled),
        "studies": {name: describe(study) | {"resampled": resampled[name]} for name, study in studies.items()},
    }
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
