"""Where does the time of one example by every method and metric go, and how long does it take in dtype mixed?

python benchmarks/study_costs.py --examples longra:0 longra:1 longra:0:searches tellmewhy:0 --records study_costs.jsonl

Each example of the suite `standard` is explained by every method and measured by every metric, in float32 and in
`mixed`, in turn, each in a process of its own. Texts continue for at most six tokens. `paper` and `greedy`, which
search, explain only examples with `:searches`, and nothing else explains those. Finished parts are in the file of
records, and a rerun skips them. Times are CPU times of one thread, so that other work on the machine does not count.
Prints JSON.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from prompts import DEMO
from records import Records

import reagent
from reagent.api.evaluate import evaluate_together
from reagent.bench import worker
from reagent.bench.plan import Job, load_sources, plan_jobs
from reagent.bench.suite import load_suite
from reagent.bench.worker import Worker

DTYPES = ("float32", "mixed")
FAMILIES = {
    "soft metrics": ["soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc"],
    "comprehensiveness and sufficiency": ["comprehensiveness", "sufficiency"],
    "lds": ["lds"],
}
SEARCHES = ("reagent (paper)", "greedy")
NEW_TOKENS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", nargs="+", default=["longra:0"], metavar="DATASET:NUMBER[:searches]")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--only", choices=DTYPES, help="measure one example in this process and print its record")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure_example(arguments.examples[0], arguments.only)))
        return
    records = Records(arguments.records, ("dtype", "example"))
    for example in arguments.examples:
        for dtype in DTYPES:
            measure = partial(measure_in_process, example, dtype, arguments.records)
            records.add({"dtype": dtype, "example": example}, measure, retry=True)
    print(json.dumps(summarize(records.rows) | {"rounding": measure_rounding()}, indent=1))


def measure_in_process(example: str, dtype: str, records: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--examples", example, "--only", dtype, "--records", str(records)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_rounding() -> dict[str, float]:
    """Differences of log-probabilities from float32 in nats, root mean square, on the prompt of the README.

    In each of 96 texts, 30 % of the tokens are replaced at random.
    """
    found: dict[str, Any] = {}
    for dtype in ("float32", "mixed", "bfloat16"):
        model: Any = reagent.load_model("smollm2", dtype=dtype)
        case, rng = model.case(DEMO, " Tokyo"), np.random.default_rng(0)
        texts = np.tile(case.ids, (96, 1))
        replaced = rng.random(texts.shape) < 0.3
        texts[replaced] = rng.choice(model.ordinary_ids, replaced.sum())
        found[dtype] = model.score(texts, case.positions, case.targets).logprob
    exact = found.pop("float32")
    spread = {"spread": round(float(exact.std()), 2)}
    return spread | {dtype: round(float(np.sqrt(((x - exact) ** 2).mean())), 3) for dtype, x in found.items()}


# --- one example, in its own process ---


def measure_example(example: str, dtype: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    model: Any = reagent.load_model("smollm2", dtype=dtype)
    model.score(np.ones((2, 40), dtype=np.int64), np.array([39]), np.array([1]))  # the first pass takes longer
    job = worker._with_generated_target(model, find_job(model, example))
    texts = recorded_texts(model)
    parts, explanations = {}, {}
    for cell in job.cells:
        with measured(model) as cost:
            explanations[cell.config.label] = worker._explain(model, job, cell.config, {})[0]
        parts[cell.config.label] = cost
    config = worker._evaluation_config(model, job)
    assert config is not None
    values = {}
    for family, names in FAMILIES.items() if not example.endswith("searches") else ():
        model.clear_cache()
        with measured(model) as cost:
            evaluations = evaluate_together(model, list(explanations.values()), replace(config, metrics=names))
        parts[family] = cost
        for label, evaluation in zip(explanations, evaluations, strict=True):
            for one in evaluation.results:
                values[f"{label}/{one.metric}/{one.measure}"] = [round(one.value, 5), round(one.stderr, 5)]
    return {"parts": parts, "values": values, "sharing": describe_sharing(texts)}


def find_job(model: Any, example: str) -> Job:
    """The job of one example, with all methods but the searches, or with these only."""
    dataset, place, *searches = example.split(":")
    number = int(place)
    suite = load_suite("standard")
    shorter = None if dataset == "longra" else NEW_TOKENS
    data = (replace(one, size=number + 1, max_new_tokens=shorter) for one in suite.datasets if one.id == dataset)
    methods = (replace(config, sizes={}, datasets=()) for config in suite.methods)
    used = tuple(config for config in methods if (config.label in SEARCHES) == bool(searches))
    suite = replace(suite, datasets=tuple(data), methods=used)
    sources = load_sources(suite)
    filtered = [(source.name(None), source, number + 1) for source in sources if source.is_filtered]
    record = Worker(suite.models[0], model).inspect(filtered)
    return plan_jobs(suite, suite.models[0], sources, None, record)[number]


def recorded_texts(model: Any) -> list[list[bytes]]:
    """The texts of each call that scores token ids, in a list that grows."""
    calls: list[list[bytes]] = []

    def record(original: Callable[..., Any], sequences: Any, positions: Any, *rest: Any) -> Any:
        ends = np.broadcast_to(np.atleast_2d(positions).max(-1), len(sequences))
        calls.append([np.asarray(row[:end]).tobytes() for row, end in zip(sequences, ends, strict=True)])
        return original(sequences, positions, *rest)

    for name in ("score", "score_ragged", "after_tokens"):
        setattr(model, name, partial(record, getattr(model, name)))
    return calls


def describe_sharing(calls: list[list[bytes]]) -> dict[str, int]:
    """How much could be shared: equal texts of the whole example, and equal beginnings of texts of one call."""
    texts = [text for call in calls for text in call]
    beginnings = [{text[:end] for text in call for end in range(8, len(text) + 8, 8)} for call in calls]
    return {
        "texts": len(texts),
        "different_texts": len(set(texts)),
        "tokens": sum(map(len, texts)) // 8,
        "different_beginnings": sum(map(len, beginnings)),
    }


@contextmanager
def measured(model: Any) -> Iterator[dict[str, float]]:
    """CPU seconds, passes and tokens of this context."""
    cost: dict[str, float] = {}
    begin, before = time.process_time(), replace(model.meter)
    yield cost
    cost["seconds"] = round(time.process_time() - begin, 2)
    cost["passes"] = model.meter.forward_passes - before.forward_passes
    cost["tokens"] = model.meter.tokens - before.tokens


# --- summary ---


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = {(row["example"], row["dtype"]): row for row in rows if "parts" in row}
    examples = [example for example, dtype in found if dtype == "mixed" and (example, "float32") in found]
    kinds = {"searches": [example for example in examples if example.endswith("searches")]}
    kinds["longra"] = [e for e in examples if e.startswith("longra") and e not in kinds["searches"]]
    kinds["longer texts"] = [e for e in examples if not e.startswith("longra")]
    summary = {name: _summarize_kind(found, chosen) for name, chosen in kinds.items() if chosen}
    return summary | {"failed": [row for row in rows if "error" in row]}


def _summarize_kind(found: dict[tuple[str, str], dict[str, Any]], examples: list[str]) -> dict[str, Any]:
    plain, mixed = ([found[example, dtype] for example in examples] for dtype in DTYPES)
    parts = {
        name: {
            "passes": round(mean(row["parts"][name]["passes"] for row in plain)),
            "tokens": round(mean(row["parts"][name]["tokens"] for row in plain)),
            **{d: round(mean(found[e, d]["parts"][name]["seconds"] for e in examples), 2) for d in DTYPES},
        }
        for name in plain[0]["parts"]
    }
    totals = {dtype: sum(part[dtype] for part in parts.values()) for dtype in DTYPES}
    return {
        "examples": examples,
        "parts": parts,
        "examples_per_hour": {dtype: round(3600 / seconds, 1) for dtype, seconds in totals.items()},
        "faster": round(totals["float32"] / totals["mixed"], 2),
        "sharing": {name: sum(row["sharing"][name] for row in plain) for name in plain[0]["sharing"]},
        "values": _compare_values(plain, mixed),
    }


def _compare_values(plain: list[dict[str, Any]], mixed: list[dict[str, Any]]) -> dict[str, Any]:
    """By metric and measure: how far values are apart, in standard errors of both, and the ratio of these errors."""
    gaps: dict[str, list[tuple[float, float, float]]] = {}
    for before, after in zip(plain, mixed, strict=True):
        for name, (value, error) in before["values"].items():
            other, other_error = after["values"][name]
            measure = name.partition("/")[2]
            gaps.setdefault(measure, []).append((other - value, error, other_error))
    return {measure: _describe(np.array(rows)) for measure, rows in gaps.items()}


def _describe(rows: np.ndarray) -> dict[str, float]:
    gap, error = rows[:, 0], np.hypot(rows[:, 1], rows[:, 2])
    return {
        "mean_difference": round(float(gap.mean()), 4),
        "mean_absolute_difference": round(float(abs(gap).mean()), 4),
        "median_in_errors": round(median(abs(gap[error > 0]) / error[error > 0]), 3),
        "within_two_errors": round(float((abs(gap) <= 2 * error + 1e-4).mean()), 3),
        "error_float32": round(float(rows[:, 1].mean()), 4),
        "error_mixed": round(float(rows[:, 2].mean()), 4),
        "count": len(rows),
    }


if __name__ == "__main__":
    main()
