"""A suite that takes seconds, and what its results look like as plain data."""

import json
from pathlib import Path
from typing import Any

from reagent.bench.store import Store

PROMPTS = [
    {"prompt": "My aunt moved to Japan to teach music.", "antecedent": "Japan", "distractor": "music"},
    {"prompt": "The river runs through the old town"},
    {"prompt": "A model reads what stands before", "target": " and says"},
]
METHODS = """
    { method = "random" },
    { method = "attention" },
    { method = "occlusion", preset = "deletion", label = "occlusion" },
    { method = "reagent", preset = "paper", options = { max_steps = 12 }, replacer = "random" },
"""
METRICS = 'names = ["soft_nc", "lds", "ante"]\ndraws = 2\nprobes = 8\nreplacer = "random"'


def write_suite(
    folder: Path,
    models: list[str],
    methods: str = METHODS,
    metrics: str = METRICS,
    prompts: list[dict[str, Any]] = PROMPTS,
    more: str = "",
) -> Path:
    """A suite of the tiny model and a file of prompts; every part can be replaced."""
    data = folder / "prompts.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in prompts))
    suite = folder / "small.toml"
    suite.write_text(
        f"models = {json.dumps(models)}\n{more}\nmethods = [{methods}]\n"
        f'[[datasets]]\nid = "{data}"\nmax_new_tokens = 6\nstride = 5\n[metrics]\n{metrics}\n'
    )
    return suite


def table(path: Path) -> dict[Any, Any]:
    """Everything that a report would see, without what differs between two runs: when, and how long it took."""
    with Store.open(path) as store:
        return {cell.place: _plain(cell) for cell in store.cells(None)}


def _plain(cell: Any) -> Any:
    why = None if cell.explanation is None else cell.explanation.to_dict()
    found = None if cell.evaluation is None else cell.evaluation.to_dict()
    if why is not None:
        del why["created"], why["cost"]["seconds"]
    numbers = None if found is None else [found["results"], found["targets"], found["settings"]]
    return {"key": cell.key, "status": cell.status, "error": cell.error, "explanation": why, "numbers": numbers}
