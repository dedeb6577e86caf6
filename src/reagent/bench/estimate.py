"""What a suite takes before it is run: forward passes and tokens, by what is typical of each method.

A backward pass counts as two forward passes. A search that stops by itself counts as it typically does:
as published, `STEPS` steps for a run (the paper's average with RoBERTa is 108 to 364, by model).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reagent.bench.plan import Job
from reagent.metrics.rationale import SIZE
from reagent.metrics.replacement import REPLACEMENT, SHARES
from reagent.metrics.soft import SOFT

STEPS = 250
CHARACTERS = 4.5  # of a token of English, with its space
DRAWS = 48  # where a metric draws until it is precise


@dataclass(frozen=True)
class Work:
    """So much to do."""

    passes: float = 0
    tokens: float = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.passes + other.passes, self.tokens + other.tokens)


def work_of(job: Job) -> Work:
    """What one job takes, about."""
    length = len(job.example.prompt) / CHARACTERS
    outputs = 1 if job.example.target is not None else job.max_new_tokens
    targets = len(range(0, outputs, job.stride))
    explained = [cell.entry for cell in job.cells if cell.entry.label not in job.given]
    longest: dict[str, float] = {}
    for entry in explained:  # those that stop earlier on the same way are free
        info = entry.info
        whole = str({**info, "max_steps": None}) if info.get("stop") is False else entry.label
        longest[whole] = max(longest.get(whole, 0), _passes(info, length, targets))
    passes = sum(longest.values()) + _metrics(job.metrics, job.settings, targets, len(job.cells))
    return Work(passes, passes * (length + outputs))


def total(jobs: Sequence[Job]) -> Work:
    return sum((work_of(job) for job in jobs), Work())


def _passes(info: Mapping[str, Any], units: float, targets: int) -> float:
    method, preset = info["id"], info.get("preset")
    if method == "reagent" and preset == "fast":
        return float(info["probes"] or (info["look"] + info["max_probes"]) / 2)
    if method == "reagent":
        steps = info["max_steps"] if not info["stop"] else min(STEPS, info["max_steps"])
        return float(targets * info["runs"] * steps * (2 if info["stop"] else 1))
    slopes = 1 + 2 * targets
    simple: dict[str, float] = {
        "input_x_gradient": 2 + 2 * targets,
        "integrated_gradients": float(info.get("steps") or 64) * slopes,
        "gradient_shap": float(info.get("n_samples", 0)) * slopes,
        "lime": float(info.get("samples", 0)),
        "occlusion": units * (1 if info.get("by") == "deletion" else float(info.get("draws", 1))),
        "shapley": units * 2 * float(info["permutations"]),
        "greedy": targets * units * SIZE * (1 if info.get("by") == "masking" else float(info.get("draws", 1))),
    }
    return simple.get(method, 1.0)


def _metrics(names: Sequence[str], settings: Mapping[str, Any], targets: int, cells: int) -> float:
    draws = settings.get("draws") or DRAWS
    soft = draws * sum(name in SOFT for name in names)
    replaced = draws * len(SHARES) * sum(name in REPLACEMENT for name in names)
    probes = settings.get("probes", 128) if "lds" in names else 0
    return float(targets * (soft + replaced) * (cells + 1) + probes)
