"""How fast do explanations converge? Agreement with a converged reference against the number of probes.

Three estimators on the same model: the published sum (30 % replaced, drawn independently), the same response dealt
and centred, and the preset `fast`. Each is compared with a reference of its own kind from other seeds: the mean of g
when a token was replaced minus when it was kept for the first two, and `fast` itself for the third.

    python benchmarks/agreement.py --out docs/benchmarks/agreement.json

prints the JSON too. Every prompt is saved when it is done, and running it again goes on; `--answers DIR` also keeps
what the model answered, so that another estimate from the same probes needs no model.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from prompts import LENGTHS

import reagent
from reagent.methods.effects import Design, Effects, estimate
from reagent.methods.reagent import gain
from reagent.methods.reagent_fast import Fast, deal
from reagent.models.case import Case, Floats, Ids, Mask
from reagent.models.protocol import Model
from reagent.replacers import make_replacer
from reagent.replacers.proposals import Proposals

COUNTS = (32, 64, 96, 128, 256)
MORE = (512,)  # the published sum gets a longer run
REFERENCE = 4096


class Bench:
    """One prompt with its proposals."""

    def __init__(self, model: Model, prompt: str, replacer: str, answers: Path | None = None) -> None:
        self.model = model
        self.answers = answers  # where answers are kept: a name to which each question adds its own
        self.case: Case = model.case(prompt, max_new_tokens=1).with_logprobs(model)
        self.table: Proposals = make_replacer(replacer).propose(model, self.case, np.random.default_rng(0))
        self.free = np.flatnonzero(self.table.replaceable[: len(self.case.input)])

    def ask(self, replaced: Mask, columns: Ids) -> Floats:
        """log p(target) with the given replacements; a short prompt has few different ones, and each is asked once."""
        different, which = np.unique(self.table.sequences(replaced, columns, self.free), axis=0, return_inverse=True)
        return self.case.answers(self.model, different).value[which, 0]

    def design(self, replaced: Mask, uniform: Floats) -> Design:
        return Design(replaced, self.table.columns(uniform, self.free), self.table.normalised[self.free])

    def drop(self, design: Design) -> Floats:
        return self.case.values[0] - self.ask(design.replaced, design.column)

    def fast(self, probes: int, seed: int) -> tuple[Design, Floats]:
        hand = max(1, round(Fast().ratio * len(self.free)))
        rng = np.random.default_rng([seed, 1])
        replaced, uniform = deal(len(self.free), hand, probes, self.table.strata(16), rng)
        design = self.design(replaced, uniform)
        return design, self.kept(f"{probes} of seed {seed}", lambda: self.drop(design))

    def kept(self, name: str, ask: Callable[[], Floats]) -> Floats:
        """What was answered before, if answers are kept."""
        file = self.answers and self.answers.with_name(f"{self.answers.name} {name}.npy")
        if file and file.exists():
            return np.asarray(np.load(file))
        y = ask()
        if file:
            np.save(file, y)
        return y

    def published(self, probes: int, seed: int, dealt: bool) -> tuple[Mask, Floats]:
        """Replaced sets of 30 %, and the published response g of each."""
        rng, n = np.random.default_rng([seed, 2]), len(self.free)
        hand = max(1, round(0.3 * n))
        if dealt:
            replaced, uniform = deal(n, hand, probes, 1, rng)
        else:
            replaced = np.argsort(np.argsort(rng.random((probes, n)), axis=1), axis=1) < hand
            uniform = rng.random((probes, n))
        name = f"published {probes} of seed {seed}{' dealt' if dealt else ''}"
        after = self.kept(name, lambda: self.ask(replaced, self.table.columns(uniform, self.free)))
        return replaced, gain(np.exp(self.case.values[0]) - np.exp(after))


def centred_means(replaced: Mask, g: Floats) -> Floats:
    kept = ~replaced
    return (replaced * g[:, None]).sum(0) / np.maximum(replaced.sum(0), 1) - (kept * g[:, None]).sum(0) / np.maximum(
        kept.sum(0), 1
    )


def published_sum(replaced: Mask, g: Floats, seed: int) -> Floats:
    return np.random.default_rng([seed, 3]).random(replaced.shape[1]) + np.where(replaced, g[:, None], -g[:, None]).sum(
        0
    )


def compare(found: Floats, reference: Floats) -> dict[str, float]:
    top, best = set(np.argsort(-found)[:5]), set(np.argsort(-reference)[:5])
    return {"pearson": float(np.corrcoef(found, reference)[0, 1]), "top5": len(top & best) / min(5, len(found))}


def covered(found: Effects, reference: Floats) -> dict[str, float]:
    """How many 95 % intervals hold the reference: of all tokens, and of the five with the largest effects."""
    inside = abs(found.mean - reference) < 1.96 * found.stderr
    return {"covered": float(inside.mean()), "covered_top5": float(inside[np.argsort(-abs(reference))[:5]].mean())}


def coverage(design: Design, y: Floats, reference: Floats) -> dict[int, dict[str, float]]:
    """Intervals from disjoint parts of the reference's probes, each as if it were a run of its own."""
    result = {}
    for n in (64, 128, 256):
        parts = [slice(start, start + n) for start in range(0, len(y) - n + 1, max(n, 128))]
        fits = [estimate(Design(design.replaced[p], design.column[p], design.weights), y[p]) for p in parts]
        result[n] = _mean([covered(fit, reference) for fit in fits]) | {"runs": len(parts)}
    return result


def measure(bench: Bench, seeds: int) -> dict[str, Any]:
    """The preset `fast`."""
    design, y = bench.fast(REFERENCE, seed=1000)
    reference = estimate(design, y)
    result: dict[str, Any] = {"tokens": len(bench.free), "target": bench.case.completion, "fast": {}}
    result["coverage"] = coverage(design, y, reference.mean)
    runs = [bench.fast(max(COUNTS), seed) for seed in range(seeds)]
    for n in COUNTS:
        fits = [estimate(d.first(n, len(bench.free)), y[:n]) for d, y in runs]
        rows = [compare(fit.mean, reference.mean) | covered(fit, reference.mean) for fit in fits]
        entry = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        if len(fits) > 1:
            entry["two_seeds"] = float(np.corrcoef(fits[0].mean, fits[1].mean)[0, 1])
        result["fast"][n] = entry
    return result


def measure_published(bench: Bench, seeds: int) -> dict[str, Any]:
    """The published sum, and the same response dealt and centred."""
    replaced, g = bench.published(REFERENCE, 1000, dealt=True)
    truth = centred_means(replaced, g)
    sums = [(s, *bench.published(max(COUNTS + MORE), s, dealt=False)) for s in range(seeds)]
    dealt = [bench.published(max(COUNTS + MORE), s, dealt=True) for s in range(seeds)]
    return {
        "published": {
            n: _mean([compare(published_sum(r[:n], g[:n], s), truth) for s, r, g in sums]) for n in COUNTS + MORE
        },
        "dealt": {n: _mean([compare(centred_means(r[:n], g[:n]), truth) for r, g in dealt]) for n in COUNTS + MORE},
    }


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def plan(replacers: list[str], lengths: list[str]) -> list[tuple[str, str, int]]:
    """(replacer, length, number of the prompt), most wanted first."""
    return [
        (replacer, length, i)
        for some in (("medium", "short"), ("long",))
        for i in range(max(map(len, LENGTHS.values())))
        for length in some
        for replacer in replacers
        if length in lengths and i < len(LENGTHS[length])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("agreement.json"))
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--replacers", nargs="+", default=["self", "infill", "pos", "random"])
    parser.add_argument("--lengths", nargs="+", default=list(LENGTHS))
    parser.add_argument("--estimators", nargs="+", default=["fast", "published"], help="published: also dealt")
    arguments = parser.parse_args()
    done: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    model = reagent.load_model(arguments.model)
    parts = {"fast": measure, "published": measure_published}
    for part in arguments.estimators:
        for replacer, length, i in plan(arguments.replacers, arguments.lengths):
            key = f"{replacer} {length} {i}"
            if part not in done.get(key, {}):
                bench = Bench(model, LENGTHS[length][i], replacer, arguments.answers and arguments.answers / key)
                done[key] = done.get(key, {}) | parts[part](bench, arguments.seeds)
                arguments.out.write_text(json.dumps(done, indent=1) + "\n")
    print(json.dumps(done))


if __name__ == "__main__":
    main()
