"""Do integrated gradients add up? The completeness gap, and whether it matters.

By completeness, the effects sum to the target's log-probability given the text minus that given the baseline. Compares
fixed quadrature rules over the whole path (as in Captum) with adaptive steps (ours), on the embedded model and on tiny
models of every family. On the embedded model it also checks whether the cause of the answer is found.

    python benchmarks/completeness.py --most 12        # prints JSON; a quarter of an hour on two cores
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from antecedents import known_cases

import reagent
from reagent.case import Case, Floats
from reagent.methods.captum_adapter import EmbeddedCase
from reagent.methods.gradients import IntegratedGradients
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel

METHODS = {
    "gausslegendre, 50 steps": IntegratedGradients(steps=50),
    "gausslegendre, 128 steps": IntegratedGradients(steps=128),
    "riemann_middle, 50 steps": IntegratedGradients(steps=50, method="riemann_middle"),
    "riemann_middle, 128 steps": IntegratedGradients(steps=128, method="riemann_middle"),
    "default": IntegratedGradients(),
    "default, at most 512 steps": IntegratedGradients(max_steps=512),
}


def integrals(model: Model, case: Case, names: list[str]) -> dict[str, Any]:
    text = EmbeddedCase.of(model, case, "integrated_gradients", None)
    return {name: METHODS[name].integrate(text) for name in names}


def tiny_models() -> dict[str, Any]:
    """The largest gap of three targets, for each family of models."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    import tiny

    gaps: dict[str, Any] = {}
    for family in tiny.FAMILIES:
        model = HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))
        case = model.case("The river runs through the old town", max_new_tokens=3).with_logprobs(model)
        results = integrals(model, case, list(METHODS))
        gaps[family] = {
            name: {
                "gap": round(float(one.gap.max()), 4),
                "steps": one.steps[0],
                "reached": float(f"{one.reached[0]:.2g}"),
            }
            for name, one in results.items()
        }
    return gaps


def rank(effects: Floats, case: Case, country: str) -> int:
    """The number of tokens with a larger effect than the country."""
    start = case.prompt.index(country)
    inside = [i for i, t in enumerate(case.input) if t.start < start + len(country) and t.end > start]
    return min(int((effects > effects[i]).sum()) for i in inside)


def embedded_model(count: int) -> dict[str, Any]:
    model = reagent.load_model("smollm2")
    cases = known_cases(model)
    chosen = sorted(np.random.default_rng(0).permutation(len(cases))[:count])
    names = [name for name in METHODS if "512" not in name]
    rows: dict[str, list[tuple[float, float, float, bool]]] = {name: [] for name in names}
    for i in chosen:
        prompt, country, target = cases[i]
        first = model.case(prompt, target).output[0].text
        case = model.case(prompt, first).with_logprobs(model)
        for name, one in integrals(model, case, names).items():
            top = rank(one.rows[0, : len(case.input)], case, country) < 3
            rows[name].append((float(one.gap[0]), one.reached[0], float(np.abs(one.rows).sum()), top))
    return {
        "cases": len(chosen),
        **{
            name: {
                "median_gap": round(float(np.median(gap)), 3),
                "largest_gap": round(max(gap), 3),
                "median_reached": float(f"{np.median(reached):.2g}"),
                "sum_of_absolute_effects": round(float(np.mean(size)), 1),
                "country_in_top_3": round(float(np.mean(top)), 3),
            }
            for name, (gap, reached, size, top) in ((name, tuple(zip(*of, strict=True))) for name, of in rows.items())
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=12, help="prompts for the embedded model; 0 for none")
    count = parser.parse_args().most
    result: dict[str, Any] = {"tiny": tiny_models()}
    if count:
        result["smollm2"] = embedded_model(count)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
