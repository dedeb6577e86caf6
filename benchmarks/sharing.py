"""Would batches that mix sequences of several examples be faster? Where batches are small, and what that costs.

python benchmarks/sharing.py            # prints JSON; some minutes on two cores

1. Time per sequence by the number of sequences in a batch.
2. The batches of real jobs with every method and metric: the share of time in small batches, and an upper bound of the
   speed-up if every batch were full.
3. The filter of LongRA, which scores each example once: examples per minute one by one, and in shared batches.

Times are CPU times of one thread, so that other work on the machine does not count.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch

import reagent
from reagent.bench.plan import load_sources, plan_jobs
from reagent.bench.records import ModelRecord
from reagent.bench.suite import MethodConfig, load_suite
from reagent.bench.worker import Worker
from reagent.data import keep_predicted, load_dataset, sample
from reagent.models.huggingface import HuggingFaceModel

LENGTH = 45
SMALL = 8  # rows
METHODS = (
    MethodConfig("reagent", "reagent", options={"probes": 64}),
    MethodConfig("reagent", "published", "paper", {"max_steps": 40}),
    MethodConfig("input_x_gradient", "input_x_gradient"),
    MethodConfig("attention", "attention"),
    MethodConfig("lime", "lime", options={"samples": 64}),
    MethodConfig("occlusion", "occlusion", "deletion"),
    MethodConfig("greedy", "greedy", "masking"),
    MethodConfig("random", "random"),
)


def main() -> None:
    torch.set_num_threads(1)
    model = reagent.load_model("smollm2")
    assert isinstance(model, HuggingFaceModel)
    by_rows = {rows: per_sequence(model, rows) for rows in (1, 2, 4, 8, 16, 32, 45)}
    print(
        json.dumps(
            {
                "milliseconds_per_sequence_by_rows": by_rows,
                "jobs": {name: job_batches(model, name) for name in ("longra", "tellmewhy")},
                "filter_examples_per_minute": filtering(model),
            },
            indent=1,
        )
    )


def per_sequence(model: HuggingFaceModel, rows: int) -> float:
    """Milliseconds per sequence in a batch of `rows` sequences without a shared prefix."""
    ids = np.random.default_rng(0).choice(model.ordinary_ids, (rows, LENGTH))
    last = np.array([LENGTH - 1])

    def measure() -> float:
        begin = time.process_time()
        model.score(ids, last, ids[0, -1:])
        return (time.process_time() - begin) / rows

    measure()
    return round(1000 * median(measure() for _ in range(5)), 2)


def job_batches(model: HuggingFaceModel, dataset: str) -> dict[str, Any]:
    """The batches of one example with every method and metric, with fewer samples and draws."""
    suite = load_suite("standard")
    (data,) = (one for one in suite.datasets if one.id == dataset)
    data = replace(data, size=1, max_new_tokens=None if dataset == "longra" else 6)
    suite = replace(suite, datasets=(data,), methods=METHODS, settings={"draws": 2, "probes": 32})
    sources = load_sources(suite)
    worker = Worker(suite.models[0], model)
    filters = [(source.name(None), source, 1) for source in sources if source.is_filtered]
    record: ModelRecord = worker.inspect(filters)
    jobs = plan_jobs(suite, suite.models[0], sources, None, record)
    with recorded_batches(model) as batches:
        begin = time.process_time()
        failed = [cell.error for job in jobs for cell in worker.do(job).cells if cell.error]
        seconds = time.process_time() - begin
    inside = sum(took for _, _, took in batches)
    small = sum(took for rows, _, took in batches if rows < SMALL)
    full = median(took / tokens for rows, tokens, took in batches if rows >= 2 * SMALL)
    spared = sum(max(0.0, took - tokens * full) for rows, tokens, took in batches if rows < SMALL)
    return {
        "examples_per_minute": round(60 * len(jobs) / seconds, 2),
        "at_best_if_every_small_batch_were_full": round(60 * len(jobs) / (seconds - spared), 2),
        "share_of_time_in_the_network": round(inside / seconds, 3),
        "share_of_time_in_batches_below_8_rows": round(small / seconds, 3),
        "batches": len(batches),
        "failed": failed,
    }


@contextmanager
def recorded_batches(model: HuggingFaceModel) -> Iterator[list[tuple[int, int, float]]]:
    """Rows, tokens and seconds of every forward pass in this context."""
    batches: list[tuple[int, int, float]] = []
    starts: list[float] = []

    def before(*_: Any) -> None:
        starts.append(time.process_time())

    def after(_module: Any, given: Any, more: Any, _out: Any) -> None:
        first = given[0] if given else more.get("input_ids", more.get("inputs_embeds"))
        rows, length = first.shape[:2]
        batches.append((rows, rows * length, time.process_time() - starts.pop()))

    hooks = [
        model.network.register_forward_pre_hook(before),
        model.network.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield batches
    finally:
        for hook in hooks:
            hook.remove()


def filtering(model: HuggingFaceModel) -> dict[str, float]:
    """Examples per minute, measured on 60 examples."""
    some = sample(load_dataset("longra"), 60, 0)
    usual, rates = model.tokens_at_once, {}
    for name, tokens in (("one_by_one", 1), ("sharing_batches", usual)):
        model.tokens_at_once = tokens
        begin = time.process_time()
        keep_predicted(some, model)
        rates[name] = round(60 * len(some) / (time.process_time() - begin), 1)
    model.tokens_at_once = usual
    return rates


if __name__ == "__main__":
    main()
