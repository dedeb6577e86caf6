"""Is the cause found? A country in the first sentence, a distractor in parentheses, the capital as the answer.

Uses the cases in which the model predicts the capital first, with and without the distractor. Compares the preset
`fast` with 64 probes and `paper` with the same number of forward passes. Prints JSON.
"""

import argparse
import json
import re
from typing import Any

import numpy as np
from prompts import CAPITALS, TEMPLATES

import reagent
from reagent.explanation import Explanation
from reagent.models.base import Model


def known_cases(model: Model) -> list[tuple[str, str, str]]:
    """(prompt, country, target) of the cases that the model answers correctly."""
    cases = []
    for template in TEMPLATES:
        for country, capital in CAPITALS.items():
            prompt = template.format(country=country)
            shorter = re.sub(r" \(.*?\)\.", "", prompt)
            if all(_rank(model, text, " " + capital) == 0 for text in (prompt, shorter)):
                cases.append((prompt, country, " " + capital))
    return cases


def _rank(model: Model, prompt: str, target: str) -> int:
    case = model.case(prompt, target)
    return int(model.score(case.ids[None], case.positions[:1], case.targets[:1]).rank[0, 0])


def finds_country(why: Explanation, country: str, top: int = 3) -> bool:
    """Whether the country is among the most important tokens."""
    start = why.prompt.index(country)
    return any(c.token.start < start + len(country) and c.token.end > start for c in why.top(top))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--most", type=int, default=40)
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    cases = known_cases(model)
    chosen = sorted(np.random.default_rng(0).permutation(len(cases))[: arguments.most])
    steps = -(-arguments.probes // 6)  # a step takes two passes, and there are three runs
    presets: dict[str, dict[str, Any]] = {
        "fast": {"probes": arguments.probes},
        "paper": {"preset": "paper", "max_steps": steps},
        "paper, all steps": {"preset": "paper", "max_steps": steps, "keep": 1, "top_k": 1},  # hardly ever stops early
    }
    results: dict[str, list[tuple[bool, int]]] = {name: [] for name in presets}
    for i in chosen:
        prompt, country, target = cases[i]
        # Only the first token of the capital is explained.
        first = model.case(prompt, target).output[0].text
        for name, options in presets.items():
            why = reagent.explain(model, prompt, target=first, **options)
            results[name].append((finds_country(why, country), why.cost.forward_passes))
    summary: dict[str, Any] = {"cases_kept": len(cases), "cases_explained": len(chosen)}
    for name, rows in results.items():
        hits, passes = zip(*rows, strict=True)
        summary[name] = {"country_in_top_3": float(np.mean(hits)), "mean_forward_passes": float(np.mean(passes))}
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
