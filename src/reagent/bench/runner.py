"""`run`: compute the missing cells of a file of results."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from reagent._version import __version__
from reagent.bench.engines import Engine, Filter, LocalEngine
from reagent.bench.estimate import estimate_job, estimate_jobs
from reagent.bench.plan import Job, Source, load_sources, plan_jobs, suite_filter, take_shard
from reagent.bench.records import Cell, ModelRecord
from reagent.bench.store import Store
from reagent.bench.suite import ModelConfig, Suite
from reagent.bench.worker import JobResult, ModelLoadError, Worker
from reagent.errors import FileError, InputError, UnknownNameError

LIBRARIES = ("torch", "transformers", "numpy", "scipy")  # recorded, since results may depend on their versions


@dataclass
class RunProgress:
    """The progress of a run."""

    total: int = 0  # cells to compute
    done: int = 0
    failed: int = 0
    stored: int = 0  # cells of earlier runs, which are not computed again
    stored_explanations: int = 0  # explanations of earlier runs, for cells with new metrics
    work: float = 0  # estimated tokens of all jobs …
    worked: float = 0  # … and of the finished ones
    notes: list[str] = field(default_factory=list)  # messages for the user
    noun: str = "cells"  # what is counted
    begin: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float | None:
        """Extrapolated from the finished jobs; None before the first."""
        spent = time.monotonic() - self.begin
        return None if not self.worked else spent * max(0.0, self.work - self.worked) / self.worked


@dataclass(frozen=True)
class RunSelection:
    """The part of a suite to run."""

    limit: int | None = None  # examples of each dataset
    shard: tuple[int, int] = (1, 1)  # part i of n
    retry_failed: bool = False
    datasets: tuple[str, ...] = ()  # only these; none: all

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InputError(f"the limit must be at least 1 example of each dataset, got {self.limit}")
        part, parts = self.shard
        if not 1 <= part <= parts:
            raise InputError(f"a shard is i/n with i from 1 to n, as 1/2 and 2/2, got {part}/{parts}")

    def choose(self, sources: Sequence[Source]) -> list[Source]:
        """The selected datasets."""
        names = [source.data.id for source in sources]
        for name in self.datasets:
            if name not in names:
                raise UnknownNameError("dataset", name, names)
        return [source for source in sources if not self.datasets or source.data.id in self.datasets]


def run(
    suite: Suite,
    out: str | Path,
    engine: Engine | None = None,
    selection: RunSelection = RunSelection(),  # noqa: B008  (frozen)
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> RunProgress:
    """Compute the cells of `suite` that the file `out` does not have yet; a missing file is created."""
    sources = load_sources(suite)
    chosen = selection.choose(sources)
    with Store.open(out, write=True) as store:
        _write_facts(store, suite, sources)
        progress = RunProgress()
        with engine or LocalEngine() as workers:
            runs = [_ModelRun(store, suite, model, chosen, selection, progress, on_progress) for model in suite.models]
            for one in runs:
                one.update_total()
            for one in runs:
                one.run(workers)
    return progress


def missing_jobs(suite: Suite, selection: RunSelection, out: str | Path | None = None) -> dict[str, list[Job]]:
    """The jobs of each model that a run would do; an upper bound, since no model is loaded."""
    sources = selection.choose(load_sources(suite, estimate_only=True))
    store = Store.open(out) if out is not None and Path(out).exists() else None
    try:
        return {
            model.id: _ModelRun(store, suite, model, sources, selection, RunProgress(), lambda _: None).missing()
            for model in suite.models
        }
    finally:
        if store is not None:
            store.close()


def _write_facts(store: Store, suite: Suite, sources: Sequence[Source]) -> None:
    """Record suite, datasets and versions; a file of another suite is an error."""
    facts = store.facts()
    if facts.get("suite", suite.name) != suite.name:
        raise FileError(
            f"{str(store.path)!r} holds results of the suite {facts['suite']!r}, not of {suite.name!r}: "
            "give another file"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    datasets = {
        source.dataset.id: {
            name: getattr(source.dataset, name) for name in ("source", "revision", "licence", "level", "stride")
        }
        for source in sources
    }
    labels = [entry.label for entry in suite.methods]
    store.begin(
        {
            "suite": suite.name,
            "kind": suite.kind,
            "summary": suite.summary,
            "text": suite.text,
            "labels": labels,
            "metrics": list(suite.metrics),
            "settings": dict(suite.settings),
            "datasets": datasets,
            "version": __version__,
            "python": platform.python_version(),
            "libraries": {name: version(name) for name in LIBRARIES},
            "machine": f"{platform.system()} {platform.machine()}",
            "created": facts.get("created", now),
            "changed": now,
        }
    )
    store.keep(suite_filter(suite, sources))


@dataclass
class _ModelRun:
    """The jobs of one model of a suite."""

    store: Store | None
    suite: Suite
    model: ModelConfig
    sources: Sequence[Source]
    selection: RunSelection
    progress: RunProgress
    on_progress: Callable[[RunProgress], None]
    counted: tuple[int, float, int] = (0, 0.0, 0)

    def run(self, engine: Engine) -> None:
        """Run every missing job; if the model cannot be loaded, all its cells fail."""
        assert self.store is not None
        left = {_name(job): job for job in self.missing()}
        if not left:
            return
        try:
            if not self._is_inspected:
                self.store.put_model(self.model.id, engine.inspect(self.model, self._filters))
                left = {_name(job): job for job in self.missing()}
                self.update_total()
                self._note_dropped_examples()
            for done in engine.run_jobs(
                self.model, (self._with_stored_explanations(job) for job in list(left.values()))
            ):
                self._write(left.pop(_name(done.cells[0])), done)
        except ModelLoadError as error:
            for job in left.values():
                self._write(job, Worker.fail(job, str(error)))

    def _note_dropped_examples(self) -> None:
        for source in self.sources:
            wanted_size = min(source.size(self.selection.limit) or len(source.dataset), len(source.dataset))
            answered = len(source.examples(self.selection.limit, self._record))
            if answered < wanted_size:
                all_examples = f"{len(source.dataset)} examples of {source.dataset.id}"
                self.progress.notes.append(f"{self.model.id} answers {answered} of {all_examples}: only these are used")

    def missing(self) -> list[Job]:
        """The jobs, each with its missing cells."""
        states = {} if self.store is None else self.store.states()
        enough = ("done",) if self.selection.retry_failed else ("done", "failed")
        left = []
        for job in self.jobs():
            cells = [c for c in job.cells if states.get(job.place(c)) not in [(c.key, state) for state in enough]]
            if cells:
                left.append(replace(job, cells=tuple(cells)))
        return left

    def jobs(self) -> list[Job]:
        """All jobs of this shard; an upper bound before the model is inspected."""
        record = self._record if self._is_inspected else None
        return take_shard(
            plan_jobs(self.suite, self.model, self.sources, self.selection.limit, record), self.selection.shard
        )

    def update_total(self) -> None:
        """Add the missing and the stored cells to the totals, or correct the totals."""
        assert self.store is not None
        jobs = self.missing()
        missing = {job.place(cell) for job in jobs for cell in job.cells}
        work = estimate_jobs(jobs).tokens
        stored = sum(place[0] == self.model.id and place not in missing for place in self.store.states())
        self.progress.total += len(missing) - self.counted[0]
        self.progress.work += work - self.counted[1]
        self.progress.stored += stored - self.counted[2]
        self.counted = len(missing), work, stored
        self.store.begin({"planned": self.progress.total + self.progress.stored})

    @property
    def _record(self) -> ModelRecord | None:
        return None if self.store is None else self.store.models().get(self.model.id)

    @property
    def _filters(self) -> list[Filter]:
        """The datasets whose examples this model must still filter."""
        done = () if self._record is None else self._record.examples
        limit = self.selection.limit
        filters = [(source.name(limit), source, source.size(limit)) for source in self.sources if source.is_filtered]
        return [one for one in filters if one[0] not in done]

    @property
    def _is_inspected(self) -> bool:
        return self._record is not None and not self._filters

    def _with_stored_explanations(self, job: Job) -> Job:
        """With the stored explanations, which were made for other metrics."""
        assert self.store is not None
        stored = {cell.config.label: self.store.explanation(cell.explained) for cell in job.cells}
        available = {label: why for label, why in stored.items() if why is not None}
        self.progress.stored_explanations += len(available)
        return replace(job, stored_explanations=available)

    def _write(self, job: Job, done: JobResult) -> None:
        assert self.store is not None
        self.store.put(done.cells, done.cost)
        self.progress.done += len(done.cells)
        self.progress.failed += sum(cell.status == "failed" for cell in done.cells)
        self.progress.worked += estimate_job(job).tokens
        self.on_progress(self.progress)


def _name(of: Job | Cell) -> tuple[str, str, int]:
    return of.dataset, of.example if isinstance(of, Cell) else of.example.id, of.seed
