"""How fast do explanations converge? Agreement with a converged reference against the number of probes.

Three estimators on the same model: the published sum (30 % replaced, drawn independently), the same response dealt
and centred, and the preset `fast`. Each is compared with a reference of its own kind from other seeds: the mean of g
when a token was replaced minus when it was kept for the first two, and `fast` itself for the third. The probes of the
reference of the first two come in families: all of one share their first half, halves of it the half of what is left,
and so on, so that half as much is read or less; each by itself is drawn as all others are.

    python benchmarks/agreement.py --out docs/benchmarks/agreement.json

prints the JSON too. Every prompt is saved when it is done, and running it again goes on; `--answers DIR` also keeps
what the model answered, so that another estimate needs it only for texts that it has not seen.
"""

import argparse
import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from prompts import LENGTHS

import reagent
from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.methods import reagent_fast
from reagent.methods.effects import Design, Effects
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.reagent_paper import gain
from reagent.models.base import Model
from reagent.replacers import make_replacer
from reagent.replacers.base import Proposals
from reagent.sampling import sample_balanced

COUNTS = (32, 64, 96, 128, 256)
REFERENCE = 4096
RUNS, INTERVALS = 4, 256  # of the preset, with a seed each: at least so many, and more where tokens are few
LAST = 7  # tokens that are at least left where probes of the reference part ways
ROWS = 64  # of them at once
reagent_fast.BATCH = REFERENCE  # nobody watches: the more probes at once, the more they share


class Bench:
    """One prompt with its proposals. What was asked once is remembered."""

    def __init__(self, model: Model, prompt: str, replacer: str, answers: Path | None = None) -> None:
        self.case: Case = model.case(prompt, max_new_tokens=1).with_logprobs(model)
        table = make_replacer(replacer).propose(model, self.case, np.random.default_rng(0))
        self.table: Proposals = replace(table, missing=None)  # here the question is about just these candidates
        self.free = np.flatnonzero(self.table.replaceable[: len(self.case.input)])
        self.model, self.file = model, answers and answers.with_name(f"{answers.name}.npz")
        self.known: dict[bytes, float] = {}
        if self.file and self.file.exists():
            with np.load(self.file) as kept:
                self.known = dict(zip(map(bytes, kept["texts"]), kept["values"].tolist(), strict=True))

    def design(self, replaced: Mask, uniform: Floats) -> Design:
        columns = self.table.choose(uniform, self.free)
        return Design(replaced, columns, self.table.normalised[self.free], self.table.sampling_variance[self.free])

    def drop(self, design: Design) -> Floats:
        return self.case.values[0] - self.ask(design.replaced, design.column)

    def ask(self, replaced: Mask, columns: Ids) -> Floats:
        """log p(target) with the given replacements."""
        return self.score(self.table.apply(replaced, columns, self.free))

    def score(self, sequences: Ids) -> Floats:
        texts = [text.tobytes() for text in sequences]
        new = {text: i for i, text in enumerate(texts) if text not in self.known}
        if new:
            values = self.case.score_outputs(self.model, sequences[list(new.values())]).value[:, 0]
            self.known |= dict(zip(new, values.tolist(), strict=True))
        return np.array([self.known[text] for text in texts])

    def save(self) -> None:
        if self.file:
            texts = np.frombuffer(b"".join(self.known), dtype=np.uint8).reshape(len(self.known), -1)
            np.savez_compressed(self.file, texts=texts, values=np.array(list(self.known.values())))

    def fast(self, probes: int, seed: int) -> Effects:
        """The preset itself, with exactly so many probes."""
        found = ReagentFast(probes=probes).attribute(
            _Remembering(self), self.case, self.table, np.random.default_rng([seed, 1])
        )
        assert found.effects is not None
        assert found.stderr is not None
        return Effects(found.effects[0][self.free], found.stderr[0][self.free], np.zeros(len(self.free)))

    def published(self, probes: int, seed: int, dealt: bool) -> tuple[Mask, Floats]:
        """Replaced sets of 30 %, and the published response g of each."""
        rng, n = np.random.default_rng([seed, 2]), len(self.free)
        hand = max(1, round(0.3 * n))
        if dealt:
            replaced, uniform = sample_balanced(n, hand, probes, 1, rng)
        else:
            replaced = np.argsort(np.argsort(rng.random((probes, n)), axis=1), axis=1) < hand
            uniform = rng.random((probes, n))
        after = self.ask(replaced, self.table.choose(uniform, self.free))
        return replaced, self._gain(after)

    def converged(self, probes: int, seed: int) -> tuple[Mask, Floats]:
        """The same, dealt, in families that begin alike: the beginning of a family is read once."""
        rng, n = np.random.default_rng([seed, 2]), len(self.free)
        forks = _forks(n)
        replaced, uniform = sample_balanced(n, max(1, round(0.3 * n)), probes // 2 ** len(forks), 1, rng)
        for place in forks:
            replaced, uniform = replaced.repeat(2, axis=0), uniform.repeat(2, axis=0)
            for twin, numbers in zip(replaced[1::2], uniform[1::2], strict=True):
                rng.shuffle(twin[place:])  # as many others, and other candidates
                numbers[place:] = rng.random(n - place)
        sequences = self.table.apply(replaced, self.table.choose(uniform, self.free), self.free)
        cuts = self.free[forks].tolist()
        parts = np.split(sequences, range(ROWS, probes, ROWS))
        return replaced, self._gain(np.concatenate([self._score_family(part, cuts) for part in parts]))

    @torch.inference_mode()
    def _score_family(self, sequences: Ids, cuts: list[int]) -> Floats:
        """log p(target) of sequences of which 2, 4, … in a row are alike up to the cuts, the last cut first."""
        begin, past, alike = 0, None, 2 ** len(cuts)
        for cut in [*cuts, len(self.case.input)]:
            ids = torch.from_numpy(sequences[::alike, begin:cut].copy())
            answer = self.model.network(ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            begin, past, alike = cut, answer.past_key_values, alike // 2
            if alike:
                past.batch_repeat_interleave(2)
        return np.asarray(answer.logits[:, -1].log_softmax(-1)[:, self.case.targets[0]], dtype=np.float64)

    def _gain(self, after: Floats) -> Floats:
        return gain(np.exp(self.case.values[0]) - np.exp(after))


def _forks(tokens: int) -> list[int]:
    """Where probes part ways: at half of what is left, as long as enough is left.

    >>> _forks(12), _forks(30), _forks(67)
    ([], [15, 23], [34, 51, 59])
    """
    places, left = list[int](), tokens
    while left // 2 >= LAST:
        places.append(tokens - left // 2)
        left //= 2
    return places


class _Remembering:
    """The model as the method sees it, through what is remembered."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bench.model, name)

    def score(self, sequences: Ids, *_: Ids) -> TargetScores:
        values = self.bench.score(sequences)[:, None]
        return TargetScores(values, np.zeros(values.shape, dtype=np.int64))


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
    """How many 95 % intervals hold the reference: of all tokens, and of the five with the largest effects.

    Where all candidates were tried nothing is open, and there is no interval to judge.
    """
    inside = abs(found.mean - reference) <= 1.96 * found.stderr
    largest = np.argsort(-abs(reference))
    still = found.stderr > 1e-3 * abs(reference[largest[0]])
    first = largest[:5][still[largest[:5]]]
    return {
        "open": float(still.mean()),
        "covered": float(inside[still].mean()) if still.any() else np.nan,
        "covered_top5": float(inside[first].mean()) if len(first) else np.nan,
    }


def measure(bench: Bench) -> dict[str, Any]:
    """The preset `fast`."""
    reference = bench.fast(REFERENCE, seed=1000)
    runs = max(RUNS, round(INTERVALS / len(bench.free)))
    result: dict[str, Any] = {"tokens": len(bench.free), "target": bench.case.completion, "runs": runs, "fast": {}}
    for n in COUNTS:
        fits = [bench.fast(n, seed) for seed in range(runs)]
        rows = [compare(fit.mean, reference.mean) | covered(fit, reference.mean) for fit in fits]
        result["fast"][n] = _mean(rows) | {
            "two_seeds": float(np.mean([np.corrcoef(a.mean, b.mean)[0, 1] for a, b in pairwise(fits)])),
            "claimed": float(np.sqrt(np.mean([fit.stderr**2 for fit in fits]))),
            "spread": float(np.sqrt(np.var([fit.mean for fit in fits], axis=0, ddof=1).mean())),
        }
    return result


def measure_published(bench: Bench, seeds: int) -> dict[str, Any]:
    """The published sum, and the same response dealt and centred."""
    truth = centred_means(*bench.converged(REFERENCE, 1000))
    sums = [(s, *bench.published(max(COUNTS), s, dealt=False)) for s in range(seeds)]
    dealt = [bench.published(max(COUNTS), s, dealt=True) for s in range(seeds)]
    return {
        "published": {n: _mean([compare(published_sum(r[:n], g[:n], s), truth) for s, r, g in sums]) for n in COUNTS},
        "dealt": {n: _mean([compare(centred_means(r[:n], g[:n]), truth) for r, g in dealt]) for n in COUNTS},
    }


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of what there is of each."""
    known = {key: [row[key] for row in rows if not np.isnan(row[key])] for key in rows[0]}
    return {key: float(np.mean(values)) for key, values in known.items() if values}


def plan(replacers: list[str], lengths: list[str]) -> list[tuple[str, str, int]]:
    """(replacer, length, number of the prompt), most wanted first."""
    return [
        (replacer, length, i)
        for some in (("medium", "short"), ("forty",), ("long",))
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
    parts = {"fast": measure, "published": partial(measure_published, seeds=arguments.seeds)}
    for part in arguments.estimators:
        for replacer, length, i in plan(arguments.replacers, arguments.lengths):
            key = f"{replacer} {length} {i}"
            if part not in done.get(key, {}):
                bench = Bench(model, LENGTHS[length][i], replacer, arguments.answers and arguments.answers / key)
                done[key] = done.get(key, {}) | parts[part](bench)
                bench.save()
                arguments.out.write_text(json.dumps(done, indent=1) + "\n")
    print(json.dumps(done))


if __name__ == "__main__":
    main()
