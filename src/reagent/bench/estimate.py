"""The cost of a suite before it is run: forward passes, tokens and time, by typical values of each method.

A backward pass counts as two forward passes. A search with a stopping condition counts with its typical length:
as published, `STEPS` steps for a run (the paper's average with RoBERTa is 108 to 364, by model).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reagent.bench.plan import Job
from reagent.bench.suite import ModelConfig
from reagent.methods.exact import MAX_UNITS
from reagent.metrics.base import EstimatesPasses
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.rationale import SIZE
from reagent.models import bundled
from reagent.models._transformers import is_available_offline
from reagent.models.load import load_model

STEPS = 250
CHARACTERS = 4.5  # per token of English text
LENGTH, ROWS = 48, 32  # of the batch that measures speed
GPU = 100e12  # operations per second: a third of the peak of an A100 in bfloat16


@dataclass(frozen=True)
class Workload:
    """Forward passes, and the tokens in them."""

    passes: float = 0
    tokens: float = 0

    def __add__(self, other: "Workload") -> "Workload":
        return Workload(self.passes + other.passes, self.tokens + other.tokens)


def estimate_job(job: Job) -> Workload:
    """The approximate cost of one job."""
    length = len(job.example.prompt) / CHARACTERS
    outputs = 1 if job.example.target is not None else job.max_new_tokens
    targets = len(range(0, outputs, job.stride))
    explained = [cell.config for cell in job.cells if cell.config.label not in job.stored_explanations]
    longest: dict[str, float] = {}
    for config in explained:  # shorter runs of the same method are free
        info = config.info
        whole = str({**info, "max_steps": None}) if info.get("stop") is False else config.label
        longest[whole] = max(longest.get(whole, 0), _passes(info, length, targets))
    passes = sum(longest.values()) + _metrics(job.metrics, job.settings, targets, len(job.cells))
    return Workload(passes, passes * (length + outputs))


def estimate_jobs(jobs: Sequence[Job]) -> Workload:
    return sum((estimate_job(job) for job in jobs), Workload())


def _passes(info: Mapping[str, Any], units: float, targets: int) -> float:
    method, preset = info["id"], info.get("preset")
    if method == "reagent" and preset in ("fast", "leave-one-out"):
        return float(info["probes"] or (info.get("look", 0) + info["max_probes"]) / 2)
    if method == "reagent":
        steps = info["max_steps"] if not info["stop"] else min(STEPS, info["max_steps"])
        return float(targets * info["runs"] * steps * (2 if info["stop"] else 1))
    slopes = 1 + 2 * targets
    draws = float(info.get("draws", 1)) if info.get("removal") == "replace" else 1.0
    simple: dict[str, float] = {
        "input_x_gradient": 2 + 2 * targets,
        "integrated_gradients": float(info.get("steps") or 64) * slopes,
        "gradient_shap": float(info.get("n_samples", 0)) * slopes,
        "attn_lrp": 1 + 2 * targets,
        "value_zeroing": 1 + units,
        "lime": float(info.get("samples", 0)),
        "occlusion": units * draws,
        "exact": 2 ** min(units, MAX_UNITS) * draws,
        "shapley": units * float(info.get("permutations", 0)),
        "greedy": targets * units * SIZE * draws,
    }
    return simple.get(method, 1.0)


def _metrics(names: Sequence[str], settings: Mapping[str, Any], targets: int, cells: int) -> float:
    if not names:
        return 0.0
    config = EvaluationConfig(metrics=names, **settings)
    metrics = [metric for metric in config.requested_metrics if isinstance(metric, EstimatesPasses)]
    return float(sum(metric.estimate_passes(config, targets, cells) for metric in metrics))


def measure_speed(model: ModelConfig) -> float | None:
    """Tokens per second on this machine; None if the model is not available locally."""
    if not (model.id in bundled.MODELS or is_available_offline(model.id, model.revision)):
        return None
    loaded = load_model(model.id, device=model.device, dtype=model.dtype, revision=model.revision)
    case = loaded.case("one two three", " four")
    free = np.flatnonzero(~case.protected[: len(case.input)])
    end = np.tile(case.ids[free[-1] + 1 :], (ROWS, 1))  # an encoder–decoder has special tokens before its output
    start = np.random.default_rng(0).choice(case.ids[free], (ROWS, LENGTH - end.shape[1]))
    sequences, last = np.concatenate([start, end], axis=1), np.array([LENGTH - 1])
    loaded.score(sequences[:4], last, case.targets[-1:])  # warm-up
    begin = time.perf_counter()
    loaded.score(sequences, last, case.targets[-1:])
    return ROWS * LENGTH / (time.perf_counter() - begin)


def hours_on_gpu(billions: float, tokens: float) -> float:
    """Hours on a large GPU: two operations for each parameter and token."""
    return 2 * billions * 1e9 * tokens / GPU / 3600
