"""From a suite to jobs: one for each model, dataset, example and seed, with one cell for each method.

A cell has two keys. `explained` covers everything that its explanation depends on, `key` also everything that
its metrics depend on. If only `key` has changed, the stored explanation is evaluated again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from reagent.bench.records import ModelRecord, Place
from reagent.bench.suite import DatasetConfig, MethodConfig, ModelConfig, Suite
from reagent.data import Dataset, Example, load_dataset, sample
from reagent.data.base import shuffle
from reagent.errors import InputError, ReagentError
from reagent.explanation import Explanation
from reagent.replacers import make_replacer

SCHEMA = 1  # increases when the same settings give other explanations …
MEASURES = 2  # … and this when they give other values of metrics


@dataclass(frozen=True)
class PlannedCell:
    """One cell to compute."""

    config: MethodConfig
    key: str
    explained: str


@dataclass(frozen=True)
class Job:
    """The cells that one worker computes together and that are written in one transaction."""

    suite: str
    model: ModelConfig
    info: Mapping[str, Any]  # provenance of the loaded model
    dataset: str
    level: str
    max_new_tokens: int
    stride: int
    example: Example
    seed: int
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    cells: tuple[PlannedCell, ...]
    stored_explanations: Mapping[str, Explanation]  # by label; these are only evaluated

    @property
    def own_seed(self) -> int:
        """A seed for each example, so that the errors of examples are independent."""
        text = f"{self.seed}\n{self.dataset}\n{self.example.id}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])

    def place(self, cell: PlannedCell) -> Place:
        return self.model.id, self.dataset, self.example.id, cell.config.label, self.seed


@dataclass(frozen=True)
class Source:
    """A dataset of a suite, loaded."""

    data: DatasetConfig
    dataset: Dataset
    seed: int
    filters: bool = True  # whether a model gets only examples that it answers

    @property
    def is_filtered(self) -> bool:
        """Whether the examples depend on the model."""
        return self.filters and any(one.plain is not None or one.target is None for one in self.dataset.examples)

    def size(self, limit: int | None) -> int | None:
        own = self.dataset.usual_size if self.data.size is None else self.data.size
        sizes = [size for size in (own, limit) if size is not None]
        return min(sizes) if sizes else None

    def name(self, limit: int | None) -> str:
        """The name under which the store keeps the filtered examples."""
        return f"{self.dataset.id}@{self.dataset.revision} {self.size(limit)} of seed {self.seed}"

    def possible_ids(self) -> list[str]:
        """The ids of the examples that any run of the suite may use."""
        chosen = self.dataset if self.is_filtered else sample(self.dataset, self.size(None), self.seed)
        return [example.id for example in chosen.examples]

    def examples(self, limit: int | None, record: ModelRecord | None) -> Sequence[Example]:
        """The examples to use; of a filtered dataset before the model is inspected, an upper bound."""
        if self.is_filtered and record is not None:
            targets = dict(record.examples[self.name(limit)])
            return [replace(one, target=targets[one.id]) for one in self.dataset.examples if one.id in targets]
        return sample(self.dataset, self.size(limit), self.seed).examples


def load_sources(suite: Suite, estimate_only: bool = False) -> list[Source]:
    """The datasets of a suite, with the suite's own settings.

    With `estimate_only`, a dataset that cannot be fetched is replaced by its bundled sample, repeated.
    """
    sources = []
    for data in suite.datasets:
        try:
            dataset = load_dataset(data.id, data.source)
        except ReagentError:
            if not estimate_only or data.source is None:
                raise
            dataset = _repeat_examples(load_dataset(data.id), data.size)
        changes = {name: value for name in ("max_new_tokens", "stride") if (value := getattr(data, name)) is not None}
        sources.append(Source(data, replace(dataset, **changes), suite.sample_seed, suite.kind != "prompts"))
    ids = [source.dataset.id for source in sources]
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"suite {suite.name!r} has two datasets that are called {name!r}: rename a file")
    return sources


def _repeat_examples(bundled: Dataset, size: int | None) -> Dataset:
    """The same examples under other ids, until there are `size`."""
    count = max(size or 0, len(bundled))
    copies = ((copy, example) for copy in range(count) for example in bundled.examples)
    examples = (replace(example, id=f"{example.id} {copy}") for copy, example in copies)
    return replace(bundled, examples=tuple(islice(examples, count)))


def suite_filter(suite: Suite, sources: Sequence[Source]) -> Callable[[Place], bool]:
    """A function that tests whether a place belongs to the current suite."""
    models = {model.id for model in suite.models}
    examples = {source.dataset.id: set(source.possible_ids()) for source in sources}
    labels = {source.dataset.id: {config.label for config in suite.methods_for(source.data.id)} for source in sources}

    def belongs(place: Place) -> bool:
        model, dataset, example, label, seed = place
        listed = dataset in examples and model in models and seed in suite.seeds
        return listed and example in examples[dataset] and label in labels[dataset]

    return belongs


def plan_jobs(
    suite: Suite, model: ModelConfig, sources: Iterable[Source], limit: int | None, record: ModelRecord | None
) -> list[Job]:
    """All jobs of one model; before it is inspected, an upper bound with empty keys."""
    info = dict(record.info) if record is not None else {}
    options = suite.settings.get("replacer_options", {})
    replacer = make_replacer(str(suite.settings.get("replacer", "auto")), **options).info
    jobs = []
    for source in sources:
        examples, configs = source.examples(limit, record), suite.methods_for(source.data.id)
        rank = {example.id: i for i, example in enumerate(shuffle(examples, source.seed))}
        for example in examples:
            used = [c for c in configs if rank[example.id] < c.sizes.get(source.data.id, len(rank))]
            for seed in suite.seeds:
                dataset = source.dataset
                job = Job(
                    suite.name, model, info, dataset.id, dataset.level, dataset.max_new_tokens, dataset.stride,
                    example, seed, suite.metrics, suite.settings, (), {},
                )  # fmt: skip
                cells = tuple(_plan_cell(job, config, dataset.revision, replacer) for config in used)
                jobs += [replace(job, cells=cells)] if cells else []
    return jobs


def take_shard(jobs: Sequence[Job], shard: tuple[int, int]) -> list[Job]:
    """Every n-th job, from the i-th on."""
    part, parts = shard
    return list(jobs[part - 1 :: parts])


def _plan_cell(job: Job, config: MethodConfig, revision: str, replacer: Mapping[str, Any]) -> PlannedCell:
    if not job.info:
        return PlannedCell(config, "", "")
    explained = digest(
        schema=SCHEMA,
        model=job.info,
        method=config.info,
        dataset=[job.dataset, revision],
        example=[job.example.id, job.example.prompt, job.example.target],
        max_new_tokens=None if job.example.target is not None else job.max_new_tokens,
        stride=job.stride,
        seed=job.seed,
    )
    if not job.metrics:
        return PlannedCell(config, explained, explained)
    key = digest(
        measures=MEASURES,
        explained=explained,
        metrics=sorted(job.metrics),
        settings={name: value for name, value in job.settings.items() if not name.startswith("replacer")},
        replacer=replacer,
        annotation=[job.example.antecedent, job.example.distractor],
    )
    return PlannedCell(config, key, explained)


def digest(**parts: Any) -> str:
    """
    >>> digest(a=1, b=(2,)) == digest(b=[2], a=1) != digest(a=1, b=[3])
    True
    """
    text = json.dumps(parts, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
