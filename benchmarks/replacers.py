"""Compares replacers: cost, whether the cause is found, how natural the texts are, and how well effects predict.

The prompts ask for a capital (see antecedents.py). Effects are estimated with each replacer. They then predict the drop
of the target under replacements by every other replacer: correlation over new random blocks of 10 % of the tokens.
Naturalness is measured by the model itself: the mean loss in nats of the tokens that were not replaced. Prints JSON.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
from agreement import Bench
from antecedents import known_cases

import reagent
from reagent.sampling import sample_balanced

REPLACERS = ("self", "infill", "pos", "random")


def nats_lost(bench: Bench, replaced: Any, columns: Any) -> float:
    """The mean loss in log-probability of the tokens that were not replaced."""
    case, model = bench.case, bench.model
    where = np.arange(1, len(case.input))
    sequences = bench.table.apply(replaced, columns, bench.free)
    before = model.score(case.ids[None], where, case.ids[where]).logprob[0]
    losses = []
    for row in sequences:
        same = where[row[where] == case.ids[where]]
        losses.append(float(np.mean(before[same - 1] - model.score(row[None], same, row[same]).logprob[0])))
    return float(np.mean(losses))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--most", type=int, default=12)
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    cases = known_cases(model)
    chosen = sorted(np.random.default_rng(1).permutation(len(cases))[: arguments.most])
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in REPLACERS}
    for i in chosen:
        prompt, country, _ = cases[i]
        benches = {}
        for name in REPLACERS:
            begin, passes, tokens = time.perf_counter(), model.meter.forward_passes, model.meter.tokens
            benches[name] = Bench(model, prompt, name)
            rows[name].append(
                {
                    "passes_for_proposals": model.meter.forward_passes - passes - 1,
                    "tokens_for_proposals": model.meter.tokens - tokens,
                    "seconds_for_proposals": time.perf_counter() - begin,
                }
            )
        held_out = {}
        for name, bench in benches.items():
            n = len(bench.free)
            replaced, uniform = sample_balanced(
                n, max(1, round(0.1 * n)), 48, bench.table.strata(16)[bench.free], np.random.default_rng(77)
            )
            design = bench.design(replaced, uniform)
            held_out[name] = (replaced, bench.drop(design))
            rows[name][-1]["nats_lost_per_word"] = nats_lost(bench, replaced[:12], design.column[:12])
        for name, bench in benches.items():
            effects = bench.fast(arguments.probes, seed=0).mean
            start = prompt.index(country)
            spans = [(bench.case.input[j].start, bench.case.input[j].end) for j in bench.free]
            cause = [k for k, (a, b) in enumerate(spans) if a < start + len(country) and b > start]
            positive = np.maximum(effects, 0)
            rows[name][-1]["country_in_top_3"] = float(bool(set(np.argsort(-effects)[:3]) & set(cause)))
            rows[name][-1]["score_of_country"] = float(positive[cause].sum() / positive.sum())
            for other, (replaced, drop) in held_out.items():
                rows[name][-1][f"predicts {other}"] = float(np.corrcoef(replaced @ effects, drop)[0, 1])
    result = {name: {key: float(np.mean([row[key] for row in of])) for key in of[0]} for name, of in rows.items()}
    print(json.dumps({"cases": len(chosen), "probes": arguments.probes, "replacers": result}, indent=1))


if __name__ == "__main__":
    main()
