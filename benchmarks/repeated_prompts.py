"""Prompts that state a fact once, twice or three times, in the same words or in others, in disjoint splits.

`choose` and `report` are from LongRA, `develop` and `blind` are own facts (fact_prompts.py).
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache

from fact_prompts import FACT_SPLITS, choose_facts, load_facts

from reagent.atomic_io import atomic_write
from reagent.data.base import Dataset, Example
from reagent.data.filters import keep_predicted
from reagent.data.longra import Template, load_longra, load_templates
from reagent.data.longra_repeated import load_longra_repeated
from reagent.models.base import Model
from reagent.models.cache import cache_folder

RELATIONS = ("capital-common-countries", "capital-world", "currency", "gram6-nationality-adjective")
KINDS = {
    "once": ("once",),
    "twice": ("2-exact",),
    "three": ("3-exact",),
    "paraphrase": ("2-paraphrase", "3-paraphrase"),
}
LONGRA_SPLITS = ("choose", "report")
SPLITS = (*LONGRA_SPLITS, *FACT_SPLITS)
# Templates of each relation that the split `report` uses; `choose` uses the others.
REPORT_TEMPLATES = {1, 3}
SEED = 0


def load_prompts(model: Model, split: str, size: int) -> dict[str, list[Example]]:
    """For each kind, up to `size` prompts whose answer the model predicts; no answer or template is in both splits.

    The choice does not depend on anything else, and is stored in the cache folder.
    """
    name = f"{split}-{size}-{model.info['id']}-{_revision()}".replace("/", "_")
    path = cache_folder() / "benchmarks" / "prompts" / f"{name}.json"
    if not path.is_file():
        chosen = {kind: _choose(model, kind, split, size) for kind in KINDS}
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps({kind: [asdict(e) for e in examples] for kind, examples in chosen.items()}))
    stored = json.loads(path.read_text())
    return {kind: [_example(fields) for fields in examples] for kind, examples in stored.items()}


def _choose(model: Model, kind: str, split: str, size: int) -> list[Example]:
    if split in FACT_SPLITS:
        return choose_facts(model, kind, split, size)
    dataset = load_longra() if kind == "once" else load_longra_repeated()
    of_kind = tuple(
        example
        for example in dataset.examples
        if _relation(example) in RELATIONS
        and (kind == "once" or example.group in KINDS[kind])
        and split_of(example) == split
    )
    return list(keep_predicted(replace(dataset, examples=of_kind), model, size, SEED).examples)


def split_of(example: Example) -> str | None:
    """The split of an example; None if its answer belongs to one and its template to the other."""
    assert example.target is not None
    by_answer = LONGRA_SPLITS[hashlib.sha256(example.target.strip().encode()).digest()[0] % 2]
    by_template = "report" if template_of(example) in REPORT_TEMPLATES else "choose"
    return by_answer if by_answer == by_template else None


@lru_cache
def _templates() -> dict[str, list[Template]]:
    return load_templates()


def template_of(example: Example) -> int:
    """The number of the template: the text after the distractor is that of one template only."""
    fitting = [
        template.number
        for template in _templates()[_relation(example)]
        if example.prompt.endswith(template.text.rpartition(")")[2].removeprefix("."))
    ]
    (number,) = fitting
    return number


def _relation(example: Example) -> str:
    return example.id.split("/")[0]


def _revision() -> str:
    digest = hashlib.sha256()
    for dataset in _datasets():
        digest.update(dataset.revision.encode())
    digest.update(repr((RELATIONS, KINDS, REPORT_TEMPLATES, SEED, load_facts())).encode())
    return digest.hexdigest()[:12]


def _datasets() -> Iterator[Dataset]:
    yield load_longra()
    yield load_longra_repeated()


def _example(fields: dict[str, object]) -> Example:
    spans = {name: tuple(map(tuple, fields[name])) for name in ("antecedent", "distractor")}  # type: ignore[call-overload]
    return Example(**(fields | spans))  # type: ignore[arg-type]
