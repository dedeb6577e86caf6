"""How fast do explanations converge? Agreement with a converged reference against the number of probes.

Three estimators on the same model: the published sum (30 % replaced, sampled independently), the same response with
balanced samples and centred, and the preset `fast`. Each is compared with a reference of its own kind from other seeds.
For the first two the reference is the mean of g when a token was replaced minus the mean when it was kept. For the
third it is `fast` itself. The reference probes of the first two share prefixes: all probes of a family share the first
half of the text, half of them also share half of the rest, and so on. So the model reads half as much or less, and each
probe has the same distribution as all others.

    python benchmarks/agreement.py --out docs/benchmarks/agreement.json

prints the JSON too. The results of each prompt are saved at once, and a second run continues where the first stopped.
`--cache DIR` also saves the log-probabilities, so that another estimator scores only new texts.
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
from reagent.methods import leave_one_out
from reagent.methods.effects import Design, Effects
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.methods.reagent_paper import gain
from reagent.models.base import Model
from reagent.replacers import make_replacer
from reagent.replacers.base import Proposals
from reagent.sampling import sample_balanced

COUNTS = (32, 64, 96, 128, 256)
REFERENCE = 4096
RUNS, INTERVALS = 4, 256  # runs of the preset per prompt: at least RUNS, and more if the prompt has few tokens
MIN_TAIL = 7  # tokens after the last fork of the reference probes, at least
BATCH_ROWS = 64  # of the reference probes
leave_one_out.BATCH = REFERENCE  # no partial results are needed, and larger batches share longer prefixes


class Bench:
    """One prompt with its proposals, and a cache of log-probabilities."""

    def __init__(self, model: Model, prompt: str, replacer: str, cache: Path | None = None) -> None:
        self.case: Case = model.case(prompt, max_new_tokens=1).with_logprobs(model)
        table = make_replacer(replacer).propose(model, self.case, np.random.default_rng(0))
        # The effects of this benchmark are defined over exactly these candidates.
        self.table: Proposals = replace(table, omitted_variance=None)
        self.free = np.flatnonzero(self.table.replaceable[: len(self.case.input)])
        self.model, self.file = model, cache and cache.with_name(f"{cache.name}.npz")
        self.cached: dict[bytes, float] = {}
        if self.file and self.file.exists():
            with np.load(self.file) as saved:
                self.cached = dict(zip(map(bytes, saved["texts"]), saved["values"].tolist(), strict=True))

    def design(self, replaced: Mask, uniform: Floats) -> Design:
        columns = self.table.choose(uniform, self.free)
        return Design(replaced, columns, self.table.normalised[self.free], self.table.sampling_variance[self.free])

    def drop(self, design: Design) -> Floats:
        return self.case.values[0] - self.logprob(design.replaced, design.column)

    def logprob(self, replaced: Mask, columns: Ids) -> Floats:
        """log p(target) after the given replacements."""
        return self.score(self.table.apply(replaced, columns, self.free))

    def score(self, sequences: Ids) -> Floats:
        texts = [text.tobytes() for text in sequences]
        new = {text: i for i, text in enumerate(texts) if text not in self.cached}
        if new:
            values = self.case.score_outputs(self.model, sequences[list(new.values())]).value[:, 0]
            self.cached |= dict(zip(new, values.tolist(), strict=True))
        return np.array([self.cached[text] for text in texts])

    def save(self) -> None:
        if self.file:
            texts = np.frombuffer(b"".join(self.cached), dtype=np.uint8).reshape(len(self.cached), -1)
            np.savez_compressed(self.file, texts=texts, values=np.array(list(self.cached.values())))

    def fast(self, probes: int, seed: int) -> Effects:
        """The effects of the preset `fast` with a fixed number of probes."""
        attribution = LeaveOneOut(probes=probes).attribute(
            _CachedModel(self), self.case, self.table, np.random.default_rng([seed, 1])
        )
        assert attribution.effects is not None
        assert attribution.stderr is not None
        return Effects(attribution.effects[0][self.free], attribution.stderr[0][self.free], np.zeros(len(self.free)))

    def published(self, probes: int, seed: int, balanced: bool) -> tuple[Mask, Floats]:
        """Random sets of 30 % of the tokens, and the published response g to replacing each."""
        rng, n = np.random.default_rng([seed, 2]), len(self.free)
        block = max(1, round(0.3 * n))
        if balanced:
            replaced, uniform = sample_balanced(n, block, probes, 1, rng)
        else:
            replaced = np.argsort(np.argsort(rng.random((probes, n)), axis=1), axis=1) < block
            uniform = rng.random((probes, n))
        after = self.logprob(replaced, self.table.choose(uniform, self.free))
        return replaced, self._gain(after)

    def published_reference(self, probes: int, seed: int) -> tuple[Mask, Floats]:
        """The same with balanced samples in families that share a prefix, which the model reads once."""
        rng, n = np.random.default_rng([seed, 2]), len(self.free)
        forks = _fork_positions(n)
        replaced, uniform = sample_balanced(n, max(1, round(0.3 * n)), probes // 2 ** len(forks), 1, rng)
        for position in forks:
            replaced, uniform = replaced.repeat(2, axis=0), uniform.repeat(2, axis=0)
            for twin, numbers in zip(replaced[1::2], uniform[1::2], strict=True):
                rng.shuffle(twin[position:])  # the same number of other tokens, with other candidates
                numbers[position:] = rng.random(n - position)
        sequences = self.table.apply(replaced, self.table.choose(uniform, self.free), self.free)
        cuts = self.free[forks].tolist()
        parts = np.split(sequences, range(BATCH_ROWS, probes, BATCH_ROWS))
        return replaced, self._gain(np.concatenate([self._score_family(part, cuts) for part in parts]))

    @torch.inference_mode()
    def _score_family(self, sequences: Ids, cuts: list[int]) -> Floats:
        """log p(target) of sequences; groups of 2, 4, … neighbours are equal up to the last cut, the one before, …"""
        begin, past, equal = 0, None, 2 ** len(cuts)
        for cut in [*cuts, len(self.case.input)]:
            ids = torch.from_numpy(sequences[::equal, begin:cut].copy())
            output = self.model.network(ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            begin, past, equal = cut, output.past_key_values, equal // 2
            if equal:
                past.batch_repeat_interleave(2)
        return np.asarray(output.logits[:, -1].log_softmax(-1)[:, self.case.targets[0]], dtype=np.float64)

    def _gain(self, after: Floats) -> Floats:
        return gain(np.exp(self.case.values[0]) - np.exp(after))


def _fork_positions(tokens: int) -> list[int]:
    """The positions where probes begin to differ: each halves the rest, as long as the rest is long enough.

    >>> _fork_positions(12), _fork_positions(30), _fork_positions(67)
    ([], [15, 23], [34, 51, 59])
    """
    positions, left = list[int](), tokens
    while left // 2 >= MIN_TAIL:
        positions.append(tokens - left // 2)
        left //= 2
    return positions


class _CachedModel:
    """The model with a cache of scores."""

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


def compare(effects: Floats, reference: Floats) -> dict[str, float]:
    top, best = set(np.argsort(-effects)[:5]), set(np.argsort(-reference)[:5])
    return {"pearson": float(np.corrcoef(effects, reference)[0, 1]), "top5": len(top & best) / min(5, len(effects))}


def coverage(effects: Effects, reference: Floats) -> dict[str, float]:
    """The share of 95 % intervals that contain the reference: of all tokens, and of the five with the largest effects.

    A token whose candidates are exhausted has no standard error and is not counted.
    """
    inside = abs(effects.mean - reference) <= 1.96 * effects.stderr
    largest = np.argsort(-abs(reference))
    uncertain = effects.stderr > 1e-3 * abs(reference[largest[0]])
    first = largest[:5][uncertain[largest[:5]]]
    return {
        "uncertain": float(uncertain.mean()),
        "covered": float(inside[uncertain].mean()) if uncertain.any() else np.nan,
        "covered_top5": float(inside[first].mean()) if len(first) else np.nan,
    }


def measure(bench: Bench) -> dict[str, Any]:
    """Agreement and coverage of the preset `fast`."""
    reference = bench.fast(REFERENCE, seed=1000)
    runs = max(RUNS, round(INTERVALS / len(bench.free)))
    result: dict[str, Any] = {"tokens": len(bench.free), "target": bench.case.completion, "runs": runs, "fast": {}}
    for n in COUNTS:
        fits = [bench.fast(n, seed) for seed in range(runs)]
        rows = [compare(fit.mean, reference.mean) | coverage(fit, reference.mean) for fit in fits]
        result["fast"][n] = _mean(rows) | {
            "two_seeds": float(np.mean([np.corrcoef(a.mean, b.mean)[0, 1] for a, b in pairwise(fits)])),
            "stderr": float(np.sqrt(np.mean([fit.stderr**2 for fit in fits]))),
            "spread": float(np.sqrt(np.var([fit.mean for fit in fits], axis=0, ddof=1).mean())),
        }
    return result


def measure_published(bench: Bench, seeds: int) -> dict[str, Any]:
    """Agreement of the published sum, and of the same response with balanced samples and centred."""
    truth = centred_means(*bench.published_reference(REFERENCE, 1000))
    sums = [(s, *bench.published(max(COUNTS), s, balanced=False)) for s in range(seeds)]
    balanced = [bench.published(max(COUNTS), s, balanced=True) for s in range(seeds)]
    return {
        "published": {n: _mean([compare(published_sum(r[:n], g[:n], s), truth) for s, r, g in sums]) for n in COUNTS},
        "balanced": {n: _mean([compare(centred_means(r[:n], g[:n]), truth) for r, g in balanced]) for n in COUNTS},
    }


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each value, without those that are not a number."""
    values_of = {key: [row[key] for row in rows if not np.isnan(row[key])] for key in rows[0]}
    return {key: float(np.mean(values)) for key, values in values_of.items() if values}


def plan(replacers: list[str], lengths: list[str]) -> list[tuple[str, str, int]]:
    """(replacer, length, number of the prompt), in the order of priority."""
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
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--replacers", nargs="+", default=["self", "infill", "pos", "random"])
    parser.add_argument("--lengths", nargs="+", default=list(LENGTHS))
    parser.add_argument("--estimators", nargs="+", default=["fast", "published"], help="published: also balanced")
    arguments = parser.parse_args()
    done: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    model = reagent.load_model(arguments.model)
    parts = {"fast": measure, "published": partial(measure_published, seeds=arguments.seeds)}
    for part in arguments.estimators:
        for replacer, length, i in plan(arguments.replacers, arguments.lengths):
            key = f"{replacer} {length} {i}"
            if part not in done.get(key, {}):
                bench = Bench(model, LENGTHS[length][i], replacer, arguments.cache and arguments.cache / key)
                done[key] = done.get(key, {}) | parts[part](bench)
                bench.save()
                arguments.out.write_text(json.dumps(done, indent=1) + "\n")
    print(json.dumps(done))


if __name__ == "__main__":
    main()
