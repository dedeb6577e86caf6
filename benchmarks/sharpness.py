"""The sharpness artefact: one ranking at several temperatures, under Soft-NC and under π-Soft-NC. Prints JSON.

    python benchmarks/sharpness.py --png docs/images/sharpness.png

The effects of ReAGent on the demo prompt become scores by softmax(effects / T). The ranking is the same at every T;
only the sharpness differs. For comparison, the same scores are assigned to the tokens in a random order.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from prompts import DEMO

import reagent
from reagent.api.evaluate import evaluate_together
from reagent.explanation import Explanation
from reagent.metrics.config import EvaluationConfig

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
METRICS = ("soft_nc", "pi_soft_nc", "soft_ns", "pi_soft_ns")
TITLES = {"soft_nc": "Soft-NC", "pi_soft_nc": "π-Soft-NC", "soft_ns": "Soft-NS", "pi_soft_ns": "π-Soft-NS"}
SAME, SHUFFLED = "ReAGent's ranking", "a random ranking"


def at_temperature(why: Explanation, temperature: float, order: list[int]) -> Explanation:
    """The same explanation with the scores softmax(effects / T); token i gets the score of token order[i]."""
    assert why.effects is not None
    effects = np.array(why.effects[0])[order]
    scores = np.exp((effects - effects.max()) / temperature)
    return replace(why, scores=(tuple((scores / scores.sum()).tolist()),), effects=None, stderr=None)


def measure(model: Any, draws: int, seed: int) -> dict[str, Any]:
    why = reagent.explain(model, DEMO, max_new_tokens=1)
    tokens = len(why.input)
    orders = {SAME: list(range(tokens)), SHUFFLED: np.random.default_rng(seed).permutation(tokens).tolist()}
    cases = [(kind, t) for kind in orders for t in TEMPERATURES]
    explanations = [at_temperature(why, t, orders[kind]) for kind, t in cases]
    evaluations = evaluate_together(model, explanations, EvaluationConfig(metrics=METRICS, draws=draws, seed=seed))
    curves: dict[str, Any] = {kind: {metric: [] for metric in METRICS} for kind in orders}
    for (kind, t), evaluation, explanation in zip(cases, evaluations, explanations, strict=True):
        for metric in METRICS:
            result = evaluation.result(metric)
            point = {"temperature": t, "largest_score": max(explanation.scores[0])}
            curves[kind][metric].append(point | {"value": result.value, "stderr": result.stderr})
    ranges = {metric: float(np.ptp([point["value"] for point in curves[SAME][metric]])) for metric in METRICS}
    return {
        "prompt": DEMO,
        "target": why.completion,
        "draws": draws,
        "range_over_temperatures": ranges,
        "curves": curves,
    }


def plot(result: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    for axes, pair in zip(figure.subplots(1, 2), (METRICS[:2], METRICS[2:]), strict=True):
        for metric, colour in zip(pair, ("#c2410c", "#1d4ed8"), strict=True):
            for kind, style in ((SAME, "-"), (SHUFFLED, "--")):
                points = result["curves"][kind][metric]
                axes.errorbar(
                    [point["temperature"] for point in points],
                    [point["value"] for point in points],
                    [1.96 * point["stderr"] for point in points],
                    color=colour,
                    linestyle=style,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    label=f"{TITLES[metric]}, {kind}",
                )
        axes.set_xscale("log", base=2)
        axes.set_xticks(TEMPERATURES, [f"{t:g}" for t in TEMPERATURES])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("temperature of the softmax (left: sharp, right: flat)")
        axes.set_title(
            "important tokens are removed" if pair == METRICS[:2] else "only important tokens are kept", fontsize=10
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7.5, loc="center left" if pair == METRICS[:2] else "center right")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("higher is better (± 1.96 standard errors)")
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--draws", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--png", type=Path, default=Path("docs/images/sharpness.png"))
    arguments = parser.parse_args()
    result = measure(reagent.load_model(arguments.model), arguments.draws, arguments.seed)
    plot(result, arguments.png)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
