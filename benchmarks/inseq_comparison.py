"""Seconds for 1 and 20 output tokens: our presets and Inseq's ReAGent, in one run on the same machine.

    python3 -m venv /somewhere/inseq && /somewhere/inseq/bin/pip install inseq
    python benchmarks/inseq_comparison.py --inseq-python /somewhere/inseq/bin/python

Inseq runs for a limited number of steps on one target. Its agreement after k probes follows r = 1 / sqrt(1 + c / k),
because the signal of the published sum grows with k and its noise with the square root of k. The constant c is fitted.
The number of steps for an agreement of 0.9, and for our agreement, is extrapolated from it. Our agreement is measured
against many probes of another seed. The preset `paper` is timed with its stopping test and three runs, each of at most
--paper-steps steps. Prints JSON.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from agreement import Bench, centred_means
from prompts import JAPAN

import reagent
from reagent.explanation import Explanation
from reagent.models import bundled

AGREEMENT = 0.9
TARGETS = 20
PROBES = (32, 48, 64)
CHECKPOINTS = (25, 50, 100, 150, 200, 300)


def run_inseq(python: str, bench: Bench, steps: int, chains: int = 3) -> dict[str, Any]:
    table = bench.table
    width = int((table.weights > 0).sum(-1).min())
    proposals = [ids[weights > 0][:width].tolist() for ids, weights in zip(table.ids, table.weights, strict=True)]
    job = {"model": str(bundled.fetch("smollm2")), "prompt": bench.case.prompt, "target": bench.case.completion}
    job |= {"proposals": proposals, "steps": steps, "chains": chains}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        script = Path(__file__).with_name("inseq_side.py")
        process = subprocess.run([python, script, path], capture_output=True, text=True, check=True)
    return dict(json.loads(process.stdout.splitlines()[-1]))


def extrapolate(trajectory: list[Any], truth: np.ndarray) -> dict[str, Any]:
    """The agreement of the scores, summed over chains, at the checkpoints, and the fitted c."""
    chains = len(trajectory[0])
    measured = {
        k: float(np.corrcoef(np.sum(trajectory[k - 1], axis=0), truth)[0, 1])
        for k in CHECKPOINTS
        if k <= len(trajectory)
    }
    grid = np.geomspace(10, 1e6, 2000)
    misfit = [sum((r - 1 / np.sqrt(1 + c / (k * chains))) ** 2 for k, r in measured.items()) for c in grid]
    c = float(grid[int(np.argmin(misfit))])
    return {"agreement_after_steps": measured, "c": c, "chains": chains}


def probes_for(agreement: float, theirs: dict[str, Any]) -> float:
    """The number of probes that the published sum needs for an agreement, extrapolated."""
    return float(theirs["c"] / (1 / agreement**2 - 1))


def agreement(why: Explanation, reference: Explanation) -> dict[str, float]:
    """The agreement of the effects with the reference: mean and minimum over output tokens."""
    assert why.effects is not None
    assert reference.effects is not None
    values = [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(why.effects, reference.effects, strict=False)]
    return {"agreement": float(np.mean(values)), "lowest_agreement": min(values)}


def timed(call: Any) -> tuple[float, Explanation]:
    begin = time.perf_counter()
    why = call()
    return time.perf_counter() - begin, why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inseq-python", required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--reference", type=int, default=2048)
    parser.add_argument("--paper-steps", type=int, default=100, help="maximum for each run of the preset paper")
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    bench = Bench(model, JAPAN, "self")
    inseq = run_inseq(arguments.inseq_python, bench, arguments.steps)
    truth = centred_means(*bench.published(arguments.reference, seed=1000, balanced=True))
    theirs = extrapolate(inseq.pop("trajectory"), truth)
    ours: dict[str, Any] = {}
    converged = reagent.explain(model, JAPAN, max_new_tokens=TARGETS, probes=arguments.reference, seed=1000)
    for targets in (1, TARGETS):

        def explain(n: int = targets, **options: Any) -> Explanation:
            return reagent.explain(model, JAPAN, max_new_tokens=n, **options)

        for probes in PROBES:
            seconds, why = timed(lambda n=probes: explain(probes=n))
            row = {"seconds": seconds, "passes": why.cost.forward_passes} | agreement(why, converged)
            for name, level in (("at_0.9", AGREEMENT), ("at_equal_agreement", row["agreement"])):
                steps = probes_for(level, theirs) / theirs["chains"]
                row[f"inseq_seconds_{name}_extrapolated"] = targets * steps * inseq["seconds_per_step"]
                row[f"times_faster_{name}"] = row[f"inseq_seconds_{name}_extrapolated"] / seconds
            ours[f"fast, {probes} probes, {targets} targets"] = row
        seconds, why = timed(lambda: explain(preset="paper", max_steps=arguments.paper_steps))
        ended = dict(Counter(why.cost.stopped))
        ours[f"paper, {targets} targets"] = {"seconds": seconds, "passes": why.cost.forward_passes, "ended": ended}
    seconds, why = timed(lambda: explain(1, preset="paper", runs=1, max_steps=64, top_k=1, keep=1))
    ours["paper, seconds per step"] = seconds / max(1, why.cost.probes)
    result = {
        "prompt_tokens": len(bench.case.input),
        "paper_steps_at_most": arguments.paper_steps,
        "reference_probes": arguments.reference,
        "inseq": inseq | theirs,
        "ours": ours,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
