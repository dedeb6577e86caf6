"""Runs Inseq's ReAGent in its own environment, with our proposals; started by inseq_comparison.py.

Inseq replaces a token by others of the same part of speech. Here it samples from our proposals instead, so that both
implementations estimate the same quantity. Everything else is Inseq's own code. The stopping test is computed, but its
result is ignored, so that exactly the given number of steps is timed. Prints JSON.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import inseq
import inseq.attr.feat.ops.reagent as inseq_reagent
import torch
from inseq.attr.feat.ops.reagent_core import DeltaProbImportanceScoreEvaluator, TopKStoppingConditionEvaluator

job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
table = torch.tensor(job["proposals"])  # [positions, candidates]
trajectory: list[list[list[float]]] = []
clock: list[float] = []


class OurProposals:
    """Replaces Inseq's part-of-speech sampler."""

    def __init__(self, **_: object) -> None: ...

    def __call__(self, input_ids: torch.Tensor) -> torch.Tensor:
        chosen = torch.randint(table.shape[1], input_ids.shape)
        return table[: input_ids.shape[1]].expand(len(input_ids), -1, -1).gather(-1, chosen[..., None])[..., 0]


update = DeltaProbImportanceScoreEvaluator.update_importance_score
test = TopKStoppingConditionEvaluator.__call__


def recording_update(self: object, *arguments: object, **more: object) -> torch.Tensor:
    scores = update(self, *arguments, **more)
    clock.append(time.perf_counter())
    trajectory.append(scores.tolist())
    return scores


def never_stop(self: object, *arguments: object, **more: object) -> torch.Tensor:
    return torch.zeros_like(test(self, *arguments, **more))


inseq_reagent.POSTagTokenSampler = OurProposals
DeltaProbImportanceScoreEvaluator.update_importance_score = recording_update
TopKStoppingConditionEvaluator.__call__ = never_stop

torch.manual_seed(0)
model = inseq.load_model(
    job["model"], "reagent", max_probe_steps=job["steps"], num_probes=job["chains"], replacing_ratio=0.3
)
model.attribute(job["prompt"], job["prompt"] + job["target"], show_progress=False)
print(
    json.dumps(
        {
            "inseq": version("inseq"),
            "steps": len(clock),
            "chains": job["chains"],
            "seconds_per_step": (clock[-1] - clock[0]) / (len(clock) - 1),
            "trajectory": trajectory,
        }
    )
)
