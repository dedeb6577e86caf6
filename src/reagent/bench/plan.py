"""From a suite to jobs: one for each model, dataset, example and seed, with one cell for each method.

A cell has two keys. `explained` covers everything that its explanation depends on, `key` also what its metrics
depend on: where only the latter has changed, the explanation in the store is evaluated again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from reagent.bench.records import Known, Place
from reagent.bench.suite import Data, MethodConfig, Model, Suite
from reagent.data import Dataset, Example, load_dataset, sample
from reagent.data.base import shuffle
from reagent.errors import InputError, ReagentError
from reagent.explanation import Explanation
from reagent.replacers import make_replacer

SCHEMA = 1  # goes up when the same settings would give other numbers


@dataclass(frozen=True)
class Planned:
    """One cell to come."""

    entry: MethodConfig
    key: str
    explained: str


@dataclass(frozen=True)
class Job:
    """What is done at once, by one worker, and written at once."""

    suite: str
    model: Model
    info: Mapping[str, Any]  # what the model is known to be
    dataset: str
    level: str
    max_new_tokens: int
    stride: int
    example: Example
    seed: int
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    cells: tuple[Planned, ...]
    given: Mapping[str, Explanation]  # by label: explained before, to be evaluated only

    @property
    def own_seed(self) -> int:
        """Examples have draws of their own, so that their errors are independent."""
        text = f"{self.seed}\n{self.dataset}\n{self.example.id}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])

    def place(self, cell: Planned) -> Place:
        return self.model.id, self.dataset, self.example.id, cell.entry.label, self.seed


@dataclass(frozen=True)
class Source:
    """A dataset of a suite, loaded."""

    data: Data
    whole: Dataset
    seed: int
    chosen: bool = True  # whether a model gets only examples that it has an answer to

    @property
    def filtered(self) -> bool:
        """Whether it depends on the model which examples are used."""
        return self.chosen and any(one.plain is not None or one.target is None for one in self.whole.examples)

    def size(self, limit: int | None) -> int | None:
        sizes = [size for size in (self.data.size, limit) if size is not None]
        return min(sizes) if sizes else None

    def name(self, limit: int | None) -> str:
        """Under which a store remembers what the filter kept."""
        return f"{self.whole.id}@{self.whole.revision} {self.size(limit)} of seed {self.seed}"

    def possible(self) -> list[str]:
        """The ids of the examples that any run of the suite may use."""
        chosen = self.whole if self.filtered else sample(self.whole, self.data.size, self.seed)
        return [example.id for example in chosen.examples]

    def examples(self, limit: int | None, known: Known | None) -> Sequence[Example]:
        """Those to use: of a filtered dataset what the filter kept, and before that is known as many as it may be."""
        if self.filtered and known is not None:
            targets = dict(known.examples[self.name(limit)])
            return [replace(one, target=targets[one.id]) for one in self.whole.examples if one.id in targets]
        return sample(self.whole, self.size(limit), self.seed).examples


def load_sources(suite: Suite, rehearsal: bool = False) -> list[Source]:
    """The datasets of a suite, with the suite's own settings.

    A `rehearsal` makes do with what is bundled, again and again, where a dataset cannot be fetched.
    """
    sources = []
    for data in suite.datasets:
        try:
            whole = load_dataset(data.id, data.source)
        except ReagentError:
            if not rehearsal or data.source is None:
                raise
            whole = _as_many(load_dataset(data.id), data.size)
        changes = {name: value for name in ("max_new_tokens", "stride") if (value := getattr(data, name)) is not None}
        sources.append(Source(data, replace(whole, **changes), suite.sample_seed, suite.kind != "prompts"))
    ids = [source.whole.id for source in sources]
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"suite {suite.name!r} has two datasets that are called {name!r}: rename a file")
    return sources


def _as_many(bundled: Dataset, size: int | None) -> Dataset:
    """The same examples under other ids, until there are `size`."""
    count = max(size or 0, len(bundled))
    turns = ((turn, one) for turn in range(count) for one in bundled.examples)
    examples = (replace(one, id=f"{one.id} {turn}") for turn, one in turns)
    return replace(bundled, examples=tuple(islice(examples, count)))


def wanted(suite: Suite, sources: Sequence[Source]) -> Callable[[Place], bool]:
    """Streams whether a place belongs to the suite as it is now."""
    models = {model.id for model in suite.models}
    examples = {source.whole.id: set(source.possible()) for source in sources}
    labels = {source.whole.id: {entry.label for entry in suite.entries(source.data.id)} for source in sources}

    def belongs(place: Place) -> bool:
        model, dataset, example, label, seed = place
        known = dataset in examples and model in models and seed in suite.seeds
        return known and example in examples[dataset] and label in labels[dataset]

    return belongs


def jobs_of(suite: Suite, model: Model, sources: Iterable[Source], limit: int | None, known: Known | None) -> list[Job]:
    """All jobs of one model; without knowing it, as many as there may be, and with empty keys."""
    info = dict(known.info) if known is not None else {}
    options = suite.settings.get("replacer_options", {})
    replacer = make_replacer(str(suite.settings.get("replacer", "auto")), **options).info
    found = []
    for source in sources:
        examples, all_entries = source.examples(limit, known), suite.entries(source.data.id)
        lot = {example.id: i for i, example in enumerate(shuffle(examples, source.seed))}
        for example in examples:
            entries = [e for e in all_entries if lot[example.id] < e.sizes.get(source.data.id, len(lot))]
            for seed in suite.seeds:
                whole = source.whole
                job = Job(
                    suite.name, model, info, whole.id, whole.level, whole.max_new_tokens, whole.stride, example, seed,
                    suite.metrics, suite.settings, (), {},
                )  # fmt: skip
                cells = tuple(_planned(job, entry, whole.revision, replacer) for entry in entries)
                found += [replace(job, cells=cells)] if cells else []
    return found


def shard_of(jobs: Sequence[Job], shard: tuple[int, int]) -> list[Job]:
    """Every n-th job, from the i-th on."""
    part, parts = shard
    return list(jobs[part - 1 :: parts])


def _planned(job: Job, entry: MethodConfig, revision: str, replacer: Mapping[str, Any]) -> Planned:
    if not job.info:
        return Planned(entry, "", "")
    explained = digest(
        schema=SCHEMA,
        model=job.info,
        method=entry.info,
        dataset=[job.dataset, revision],
        example=[job.example.id, job.example.prompt, job.example.target],
        max_new_tokens=None if job.example.target is not None else job.max_new_tokens,
        stride=job.stride,
        seed=job.seed,
    )
    if not job.metrics:
        return Planned(entry, explained, explained)
    key = digest(
        explained=explained,
        metrics=sorted(job.metrics),
        settings={name: value for name, value in job.settings.items() if not name.startswith("replacer")},
        replacer=replacer,
        annotation=[job.example.antecedent, job.example.distractor],
    )
    return Planned(entry, key, explained)


def digest(**parts: Any) -> str:
    """
    >>> digest(a=1, b=(2,)) == digest(b=[2], a=1) != digest(a=1, b=[3])
    True
    """
    text = json.dumps(parts, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
