"""What else was tried: other shares of replaced tokens, other estimators, other ways to sample.

Agreement (Pearson) of effects with many dealt probes of 10 %, and how effects learned with one share predict what
happens with another. Prints JSON.
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
Deal = Callable[[Bench, int, np.random.Generator], Design]


def dealt(share: float) -> Deal:
    def make(bench: Bench, count: int, rng: np.random.Generator) -> Design:
        return bench.design(*_decks(bench, share, count, rng))

    return make


def independent(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Drawn, not dealt: tokens and candidates alike."""
    n = len(bench.free)
    ranks = np.argsort(np.argsort(rng.random((count, n)), axis=1), axis=1)
    return bench.design(ranks < _hand(bench, 0.1), rng.random((count, n)))


def antithetic(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Every second deck splits up the hands of the deck before it, so that no two tokens meet twice in a row."""
    n, hand = len(bench.free), _hand(bench, 0.1)
    hands = -(-n // hand)
    replaced, _ = _decks(bench, 0.1, count, rng)
    for start in range(hands, count, 2 * hands):
        order = np.concatenate([np.flatnonzero(row) for row in replaced[start - hands : start]])
        for k in range(min(hands, count - start)):
            replaced[start + k] = False
            replaced[start + k, order[k::hands]] = True
    return _with_candidates(bench, replaced, rng)


def mixed(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Probes of 5 %, 10 % and 20 % in turn."""
    parts = [_decks(bench, share, -(-count // 3), rng) for share in (0.05, 0.1, 0.2)]
    replaced, uniform = (np.stack(part, axis=1).reshape(-1, len(bench.free)) for part in zip(*parts, strict=True))
    return bench.design(replaced[:count], uniform[:count])


def same_hand_twice(bench: Bench, count: int, rng: np.random.Generator) -> Design:
    """Each hand twice, with other candidates."""
    replaced, _ = _decks(bench, 0.1, -(-count // 2), rng)
    return _with_candidates(bench, np.repeat(replaced, 2, axis=0)[:count], rng)


def adaptive(bench: Bench, count: int, rng: np.random.Generator) -> tuple[Design, Floats]:
    """From 64 probes on, three of four probes replace only tokens whose place among the top five is open."""
    n, hand = len(bench.free), _hand(bench, 0.1)
    replaced, uniform = _decks(bench, 0.1, count, rng)
    done = min(64, count)
    design = bench.design(replaced[:done], uniform[:done])
    y = bench.drop(design)
    while done < count:
        more = min(32, count - done)
        wanted = _open(estimate(design, y))
        few, numbers = sample_balanced(
            len(wanted), max(1, min(hand, len(wanted) // 3)), more, bench.table.strata(16)[bench.free][wanted], rng
        )
        for k in range(more):
            if k % 4:
                replaced[done + k] = False
                replaced[done + k, wanted] = few[k]
                uniform[done + k, wanted] = numbers[k]
        new = bench.design(replaced[done : done + more], uniform[done : done + more])
        y = np.concatenate([y, bench.drop(new)])
        done += more
        design = bench.design(replaced[:done], uniform[:done])
    assert replaced.shape == (count, n)
    return design, y


def _open(found: Effects) -> Floats:
    """Tokens that may belong to the top five: not clearly below the fifth, nor clearly above the sixth."""
    fifth, sixth = np.sort(found.mean)[-5], np.sort(found.mean)[-6]
    below = found.mean + Z_95 * found.stderr < fifth
    above = found.mean - Z_95 * found.stderr > sixth
    wanted = np.flatnonzero(~below & ~above)
    return wanted if len(wanted) > 1 else np.argsort(-found.mean)[:5]


def _hand(bench: Bench, share: float) -> int:
    return max(1, round(share * len(bench.free)))


def _with_candidates(bench: Bench, replaced: Mask, rng: np.random.Generator) -> Design:
    dealer = BalancedSampler(len(bench.free), 1, bench.table.strata(16)[bench.free], rng)
    return bench.design(*dealer.probes_of(np.flatnonzero(row) for row in replaced))


def _decks(bench: Bench, share: float, count: int, rng: np.random.Generator) -> tuple[Mask, Floats]:
    return sample_balanced(len(bench.free), _hand(bench, share), count, bench.table.strata(16)[bench.free], rng)


def ridge(strength: float) -> Callable[[Design, Floats], Floats]:
    def fit(design: Design, y: Floats) -> Floats:
        x = design.replaced.astype(np.float64)
        return np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y))

    return fit


def learned(design: Design, y: Floats) -> Floats:
    return estimate(design, y).mean


ESTIMATES = {"learned variances": learned} | {f"ridge {s:g}": ridge(s) for s in (0.1, 1.0, 3.0)}
DEALS: dict[str, Deal] = {
    "10 %, drawn, not dealt": independent,
    "10 %, antithetic decks": antithetic,
    "5, 10 and 20 % mixed": mixed,
    "10 %, every hand twice": same_hand_twice,
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
    """Agreement by design and estimate, and how well effects predict what happens when 30 % are replaced."""
    n, seeds = len(bench.free), range(arguments.seeds)
    many = dealt(0.1)(bench, arguments.reference, np.random.default_rng([1000, 5]))
    truth = learned(many, bench.drop(many))
    other = dealt(0.3)(bench, 512, np.random.default_rng([1001, 5]))
    drops = bench.drop(other)

    def probed(make: Deal) -> list[tuple[Design, Floats]]:
        designs = [make(bench, max(COUNTS), np.random.default_rng([seed, 5])) for seed in seeds]
        return [(design, bench.drop(design)) for design in designs]

    by_turns = {k: [bench.fast(k, seed).mean for seed in seeds] for k in COUNTS}
    result: dict[str, Any] = {
        "agreement": {"by turns: the default": {k: agreement(found, truth) for k, found in by_turns.items()}},
        "predicts_30_percent": {
            "by turns": {k: agreement([other.replaced @ one for one in found], drops) for k, found in by_turns.items()}
        },
    }
    for name, share in SHARES.items():
        runs = probed(dealt(share))
        for label, fit in ESTIMATES.items():
            result["agreement"][f"{name}, {label}"] = {
                k: agreement([fit(d.restrict(k, n), y[:k]) for d, y in runs], truth) for k in COUNTS
            }
        result["predicts_30_percent"][name] = {
            k: agreement([other.replaced @ learned(d.restrict(k, n), y[:k]) for d, y in runs], drops) for k in COUNTS
        }
    for name, make in DEALS.items():
        runs = probed(make)
        result["agreement"][name] = {
            k: agreement([learned(d.restrict(k, n), y[:k]) for d, y in runs], truth) for k in COUNTS
        }
    spent = [adaptive(bench, max(COUNTS), np.random.default_rng([seed, 5])) for seed in seeds]
    result["agreement"]["10 %, later probes where the top is open"] = {
        k: agreement([learned(d.restrict(k, n), y[:k]) for d, y in spent], truth) for k in COUNTS
    }
    return result


def agreement(found: list[Floats], reference: Floats) -> dict[str, float]:
    """Correlation, and share of the five largest that are found."""
    best = set(np.argsort(-reference)[:5])
    return {
        "pearson": float(np.mean([np.corrcoef(one, reference)[0, 1] for one in found])),
        "top5": float(np.mean([len(best & set(np.argsort(-one)[:5])) / 5 for one in found])),
    }


def _mean(tables: list[Any]) -> Any:
    if isinstance(tables[0], dict):
        return {key: _mean([table[key] for table in tables]) for key in tables[0]}
    return float(np.mean(tables))


if __name__ == "__main__":
    main()
