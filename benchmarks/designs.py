"""Alternatives that were tried: other shares of replaced tokens, other estimators, other sampling designs.

Measures the agreement (Pearson) of effects with a reference of many balanced probes of 10 %, and how well effects
estimated at one share predict the drops at another. Prints JSON.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from agreement import Bench
from prompts import MEDIUM

import reagent
from reagent.case import Floats, Mask
from reagent.explanation import Z_95
from reagent.methods.effects import Design, Effects, estimate
from reagent.sampling import BalancedSampler, sample_balanced

COUNTS = (64, 128, 256)
SHARES = {"one token": 1e-9, "10 %": 0.1, "30 %": 0.3}
MakeDesign = Callable[[Bench, int, np.random.Generator], Design]


def balanced(share: float) -> MakeDesign:
    def make(bench: Bench, count: int, rng: np.random.Generator) -> Design:
        return bench.design(*_sample_rounds(bench, share, count, rng))

    return make


def independent(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Tokens and candidates are sampled independently for each probe."""
    n = len(bench.free)
    ranks = np.argsort(np.argsort(rng.random((count, n)), axis=1), axis=1)
    return bench.design(ranks < _block_size(bench, 0.1), rng.random((count, n)))


def antithetic(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Every second round splits the blocks of the round before, so that pairs of tokens are not repeated at once."""
    n, size = len(bench.free), _block_size(bench, 0.1)
    blocks = -(-n // size)
    replaced, _ = _sample_rounds(bench, 0.1, count, rng)
    for start in range(blocks, count, 2 * blocks):
        order = np.concatenate([np.flatnonzero(row) for row in replaced[start - blocks : start]])
        for k in range(min(blocks, count - start)):
            replaced[start + k] = False
            replaced[start + k, order[k::blocks]] = True
    return _with_candidates(bench, replaced, rng)


def mixed(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Probes of 5 %, 10 % and 20 %, alternating."""
    parts = [_sample_rounds(bench, share, -(-count // 3), rng) for share in (0.05, 0.1, 0.2)]
    replaced, uniform = (np.stack(part, axis=1).reshape(-1, len(bench.free)) for part in zip(*parts, strict=True))
    return bench.design(replaced[:count], uniform[:count])


def every_block_twice(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Each block twice, with other candidates."""
    replaced, _ = _sample_rounds(bench, 0.1, -(-count // 2), rng)
    return _with_candidates(bench, np.repeat(replaced, 2, axis=0)[:count], rng)


def adaptive(bench: Bench, count: int, rng: np.random.Generator) -> tuple[Design, Floats]:
    """After 64 probes, three of four probes replace only tokens whose place among the top five is uncertain."""
    n, size = len(bench.free), _block_size(bench, 0.1)
    replaced, uniform = _sample_rounds(bench, 0.1, count, rng)
    done = min(64, count)
    design = bench.design(replaced[:done], uniform[:done])
    y = bench.drop(design)
    while done < count:
        more = min(32, count - done)
        uncertain = _uncertain_top(estimate(design, y))
        few, numbers = sample_balanced(
            len(uncertain),
            max(1, min(size, len(uncertain) // 3)),
            more,
            bench.table.strata(16)[bench.free][uncertain],
            rng,
        )
        for k in range(more):
            if k % 4:
                replaced[done + k] = False
                replaced[done + k, uncertain] = few[k]
                uniform[done + k, uncertain] = numbers[k]
        new = bench.design(replaced[done : done + more], uniform[done : done + more])
        y = np.concatenate([y, bench.drop(new)])
        done += more
        design = bench.design(replaced[:done], uniform[:done])
    assert replaced.shape == (count, n)
    return design, y


def _uncertain_top(effects: Effects) -> Floats:
    """Tokens that are neither significantly below the fifth largest effect nor significantly above the sixth."""
    fifth, sixth = np.sort(effects.mean)[-5], np.sort(effects.mean)[-6]
    below = effects.mean + Z_95 * effects.stderr < fifth
    above = effects.mean - Z_95 * effects.stderr > sixth
    uncertain = np.flatnonzero(~below & ~above)
    return uncertain if len(uncertain) > 1 else np.argsort(-effects.mean)[:5]


def _block_size(bench: Bench, share: float) -> int:
    return max(1, round(share * len(bench.free)))


def _with_candidates(bench: Bench, replaced: Mask, rng: np.random.Generator) -> Design:
    sampler = BalancedSampler(len(bench.free), 1, bench.table.strata(16)[bench.free], rng)
    return bench.design(*sampler.probes_of(np.flatnonzero(row) for row in replaced))


def _sample_rounds(bench: Bench, share: float, count: int, rng: np.random.Generator) -> tuple[Mask, Floats]:
    return sample_balanced(len(bench.free), _block_size(bench, share), count, bench.table.strata(16)[bench.free], rng)


def ridge(strength: float) -> Callable[[Design, Floats], Floats]:
    def fit(design: Design, y: Floats) -> Floats:
        x = design.replaced.astype(np.float64)
        return np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y))

    return fit


def learned_variances(design: Design, y: Floats) -> Floats:
    return estimate(design, y).mean


ESTIMATES = {"learned variances": learned_variances} | {f"ridge {s:g}": ridge(s) for s in (0.1, 1.0, 3.0)}
DESIGNS: dict[str, MakeDesign] = {
    "10 %, independent samples": independent,
    "10 %, antithetic rounds": antithetic,
    "5, 10 and 20 % mixed": mixed,
    "10 %, every block twice": every_block_twice,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, default=2048)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=2)
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    tables = [measure(Bench(model, prompt, "self"), arguments) for prompt in MEDIUM[: arguments.prompts]]
    result = {"reference": arguments.reference, "prompts": arguments.prompts, **_mean(tables)}
    print(json.dumps(result, indent=1))


def measure(bench: Bench, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agreement by design and estimator, and how well effects predict the drop when 30 % are replaced."""
    n, seeds = len(bench.free), range(arguments.seeds)
    many = balanced(0.1)(bench, arguments.reference, np.random.default_rng([1000, 5]))
    truth = learned_variances(many, bench.drop(many))
    other = balanced(0.3)(bench, 512, np.random.default_rng([1001, 5]))
    drops = bench.drop(other)

    def probed(make: MakeDesign) -> list[tuple[Design, Floats]]:
        designs = [make(bench, max(COUNTS), np.random.default_rng([seed, 5])) for seed in seeds]
        return [(design, bench.drop(design)) for design in designs]

    fast = {k: [bench.fast(k, seed).mean for seed in seeds] for k in COUNTS}
    result: dict[str, Any] = {
        "agreement": {"`fast` (the default)": {k: agreement(fits, truth) for k, fits in fast.items()}},
        "predicts_30_percent": {
            "`fast`": {k: agreement([other.replaced @ fit for fit in fits], drops) for k, fits in fast.items()}
        },
    }
    for name, share in SHARES.items():
        runs = probed(balanced(share))
        for label, fit in ESTIMATES.items():
            result["agreement"][f"{name}, {label}"] = {
                k: agreement([fit(d.restrict(k, n), y[:k]) for d, y in runs], truth) for k in COUNTS
            }
        result["predicts_30_percent"][name] = {
            k: agreement([other.replaced @ learned_variances(d.restrict(k, n), y[:k]) for d, y in runs], drops)
            for k in COUNTS
        }
    for name, make in DESIGNS.items():
        runs = probed(make)
        result["agreement"][name] = {
            k: agreement([learned_variances(d.restrict(k, n), y[:k]) for d, y in runs], truth) for k in COUNTS
        }
    runs = [adaptive(bench, max(COUNTS), np.random.default_rng([seed, 5])) for seed in seeds]
    result["agreement"]["10 %, later probes only for uncertain top-five tokens"] = {
        k: agreement([learned_variances(d.restrict(k, n), y[:k]) for d, y in runs], truth) for k in COUNTS
    }
    return result


def agreement(runs: list[Floats], reference: Floats) -> dict[str, float]:
    """Correlation, and the share of the five largest effects that are found; mean over runs."""
    best = set(np.argsort(-reference)[:5])
    return {
        "pearson": float(np.mean([np.corrcoef(effects, reference)[0, 1] for effects in runs])),
        "top5": float(np.mean([len(best & set(np.argsort(-effects)[:5])) / 5 for effects in runs])),
    }


def _mean(tables: list[Any]) -> Any:
    if isinstance(tables[0], dict):
        return {key: _mean([table[key] for table in tables]) for key in tables[0]}
    return float(np.mean(tables))


if __name__ == "__main__":
    main()
