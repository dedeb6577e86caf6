"""What else was tried: other shares of replaced tokens, other estimators, draws that are not dealt.

Agreement (Pearson) of effects with many probes of the same design, and how effects learned with one share predict what
happens with another. Prints JSON.
"""

import argparse
import json
from typing import Any

import numpy as np
from agreement import Bench
from prompts import DEMO

import reagent
from reagent.methods.effects import Design, estimate
from reagent.methods.reagent_fast import deal
from reagent.models.protocol import Floats

COUNTS = (64, 128, 256)
SHARES = {"one token": 1e-9, "10 %": 0.1, "30 %": 0.3}


def probe(bench: Bench, share: float, count: int, seed: int, dealt: bool = True) -> tuple[Design, Floats]:
    n, rng = len(bench.free), np.random.default_rng([seed, 5])
    hand = max(1, round(share * n))
    if dealt:
        replaced, uniform = deal(n, hand, count, bench.table.strata(16), rng)
    else:
        replaced = np.argsort(np.argsort(rng.random((count, n)), axis=1), axis=1) < hand
        uniform = rng.random((count, n))
    design = Design(replaced, bench.table.columns(uniform), bench.table.normalised)
    return design, float(bench.case.output[0].logprob or 0) - bench.ask(replaced, design.column)


def ridge(design: Design, y: Floats, strength: float) -> Floats:
    x = design.replaced.astype(np.float64)
    return np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    bench = Bench(reagent.load_model("smollm2"), DEMO, "self")
    n = len(bench.free)
    many = {name: probe(bench, share, arguments.reference, 1000) for name, share in SHARES.items()}
    truth = {name: estimate(*pair).mean for name, pair in many.items()}
    result: dict[str, Any] = {"tokens": n, "reference": arguments.reference, "agreement": {}, "predicts_30_percent": {}}
    for name, share in SHARES.items():
        runs = [probe(bench, share, max(COUNTS), seed) for seed in range(arguments.seeds)]
        rows: dict[str, Any] = {"learned variances": {}} | {f"ridge {s:g}": {} for s in (0.1, 1.0, 3.0)}
        if name == "10 %":
            loose = [probe(bench, share, max(COUNTS), seed, dealt=False) for seed in range(arguments.seeds)]
            rows["learned variances, not dealt"] = {
                k: agreement([estimate(d.first(k, n), y[:k]).mean for d, y in loose], truth[name]) for k in COUNTS
            }
        for k in COUNTS:
            rows["learned variances"][k] = agreement(
                [estimate(d.first(k, n), y[:k]).mean for d, y in runs], truth[name]
            )
            for s in (0.1, 1.0, 3.0):
                rows[f"ridge {s:g}"][k] = agreement([ridge(d.first(k, n), y[:k], s) for d, y in runs], truth[name])
        result["agreement"][name] = rows
        design, y = many["30 %"]
        result["predicts_30_percent"][name] = {
            k: agreement([design.replaced @ estimate(d.first(k, n), a[:k]).mean for d, a in runs], y) for k in COUNTS
        }
    print(json.dumps(result, indent=1))


def agreement(found: list[Floats], reference: Floats) -> float:
    return float(np.mean([np.corrcoef(one, reference)[0, 1] for one in found]))


if __name__ == "__main__":
    main()
