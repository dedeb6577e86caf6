"""Which replacer? What each costs, whether the cause is found, how natural its texts are, and what it predicts.

On questions for a capital (see antecedents.py), effects are learned with each replacer and then asked to predict what
replacements by every other replacer do to the answer: correlation with the drop, over hands of 10 % never used before.
Naturalness is what the model itself makes of the words that were not replaced: nats lost for each of them. Prints JSON.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
from agreement import Bench
from antecedents import kept

import reagent
from reagent.sampling import sample_balanced

REPLACERS = ("self", "infill", "pos", "random")


def unnatural(bench: Bench, replaced: Any, columns: Any) -> float:
    """Nats that each token which was not replaced loses, on average."""
    case, model = bench.case, bench.model
    where = np.arange(1, len(case.input))
    sequences = bench.table.apply(replaced, columns, bench.free)
    before = model.score(case.ids[None], where, case.ids[where]).logprob[0]
    lost = []
    for row in sequences:
        same = where[row[where] == case.ids[where]]
        lost.append(float(np.mean(before[same - 1] - model.score(row[None], same, row[same]).logprob[0])))
    return float(np.mean(lost))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--most", type=int, default=12)
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    cases = kept(model)
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
            rows[name][-1]["nats_lost_per_word"] = unnatural(bench, replaced[:12], design.column[:12])
        for name, bench in benches.items():
            found = bench.fast(arguments.probes, seed=0).mean
            start = prompt.index(country)
            spans = [(bench.case.input[j].start, bench.case.input[j].end) for j in bench.free]
            cause = [k for k, (a, b) in enumerate(spans) if a < start + len(country) and b > start]
            rows[name][-1]["country_in_top_3"] = float(bool(set(np.argsort(-found)[:3]) & set(cause)))
            rows[name][-1]["score_of_country"] = float(np.maximum(found, 0)[cause].sum() / np.maximum(found, 0).sum())
            for other, (replaced, drop) in held_out.items():
                rows[name][-1][f"predicts {other}"] = float(np.corrcoef(replaced @ found, drop)[0, 1])
    result = {name: {key: float(np.mean([row[key] for row in of])) for key in of[0]} for name, of in rows.items()}
    print(json.dumps({"cases": len(chosen), "probes": arguments.probes, "replacers": result}, indent=1))


if __name__ == "__main__":
    main()
