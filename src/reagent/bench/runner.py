"""`run`: do what is missing in a file of results, and nothing twice."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from reagent._version import __version__
from reagent.bench.engines import Engine, Filter, Local
from reagent.bench.estimate import total, work_of
from reagent.bench.plan import Job, Source, jobs_of, load_sources, shard_of, wanted
from reagent.bench.records import Cell, Known
from reagent.bench.store import Store
from reagent.bench.suite import Model, Suite
from reagent.bench.worker import Done, ModelLoadError, cell_of
from reagent.errors import FileError, InputError, UnknownNameError

LIBRARIES = ("torch", "transformers", "numpy", "scipy")  # whose versions the results may depend on


@dataclass
class RunProgress:
    """How far a run is."""

    total: int = 0  # cells to do
    done: int = 0
    failed: int = 0
    work: float = 0  # by estimate, in tokens …
    worked: float = 0  # … and how much of it is done
    notes: list[str] = field(default_factory=list)  # what a person should know besides
    begin: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float | None:
        """By what the work so far took; unknown before any is done."""
        spent = time.monotonic() - self.begin
        return None if not self.worked else spent * max(0.0, self.work - self.worked) / self.worked


@dataclass(frozen=True)
class RunSelection:
    """Which part of a suite to do."""

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

    def among(self, sources: Sequence[Source]) -> list[Source]:
        """Those of the datasets that are wished for."""
        known = [source.data.id for source in sources]
        for name in self.datasets:
            if name not in known:
                raise UnknownNameError("dataset", name, known)
        return [source for source in sources if not self.datasets or source.data.id in self.datasets]


def run(
    suite: Suite,
    out: str | Path,
    engine: Engine | None = None,
    wish: RunSelection = RunSelection(),  # noqa: B008  (frozen)
    look: Callable[[RunProgress], None] = lambda _: None,
) -> RunProgress:
    """Do what is missing of `suite` in the file `out`, which is made where there is none."""
    sources = load_sources(suite)
    chosen = wish.among(sources)
    with Store.open(out, write=True) as store:
        _begin(store, suite, sources)
        tally = RunProgress()
        with engine or Local() as workers:
            runs = [_OfModel(store, suite, model, chosen, wish, tally, look) for model in suite.models]
            for one in runs:
                one.count()
            for one in runs:
                one.run(workers)
    return tally


def planned(suite: Suite, wish: RunSelection, out: str | Path | None = None) -> dict[str, list[Job]]:
    """The jobs of each model that a run would do, as far as that is known without loading one."""
    sources = wish.among(load_sources(suite, rehearsal=True))
    store = Store.open(out) if out is not None and Path(out).exists() else None
    try:
        return {
            model.id: _OfModel(store, suite, model, sources, wish, RunProgress(), lambda _: None).missing()
            for model in suite.models
        }
    finally:
        if store is not None:
            store.close()


def _begin(store: Store, suite: Suite, sources: Sequence[Source]) -> None:
    """Note what the file is about; a file of another suite is left alone."""
    facts = store.facts()
    if facts.get("suite", suite.name) != suite.name:
        raise FileError(
            f"{str(store.path)!r} holds results of the suite {facts['suite']!r}, not of {suite.name!r}: "
            "give another file"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    datasets = {
        source.whole.id: {
            name: getattr(source.whole, name) for name in ("source", "revision", "licence", "level", "stride")
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
    store.keep(wanted(suite, sources))


@dataclass
class _OfModel:
    """What is to be done for one model of a suite."""

    store: Store | None
    suite: Suite
    model: Model
    sources: Sequence[Source]
    wish: RunSelection
    tally: RunProgress
    look: Callable[[RunProgress], None]
    counted: tuple[int, float] = (0, 0.0)

    def run(self, engine: Engine) -> None:
        """Every missing job; a model that cannot be loaded fails in all of its cells."""
        assert self.store is not None
        left = {_name(job): job for job in self.missing()}
        if not left:
            return
        try:
            if not self._is_known:
                self.store.meet(self.model.id, engine.known(self.model, self._filters))
                left = {_name(job): job for job in self.missing()}
                self.count()
                self._note_what_is_left_out()
            for done in engine.done(self.model, (self._with_given(job) for job in list(left.values()))):
                self._keep(left.pop(_name(done.cells[0])), done)
        except ModelLoadError as error:
            for job in left.values():
                cells = tuple(cell_of(job, cell, None, None, str(error)) for cell in job.cells)
                self._keep(job, Done(cells, {}))

    def _note_what_is_left_out(self) -> None:
        for source in self.sources:
            wanted_size = min(source.size(self.wish.limit) or len(source.whole), len(source.whole))
            found = len(source.examples(self.wish.limit, self._known))
            if found < wanted_size:
                all_of_it = f"{len(source.whole)} examples of {source.whole.id}"
                self.tally.notes.append(f"{self.model.id} has an answer to {found} of {all_of_it}: no more are used")

    def missing(self) -> list[Job]:
        """Jobs with those of their cells that are not there."""
        states = {} if self.store is None else self.store.states()
        enough = ("done",) if self.wish.retry_failed else ("done", "failed")
        left = []
        for job in self.jobs():
            cells = [c for c in job.cells if states.get(job.place(c)) not in [(c.key, state) for state in enough]]
            if cells:
                left.append(replace(job, cells=tuple(cells)))
        return left

    def jobs(self) -> list[Job]:
        """All jobs of this part of the suite; of a model that is not known yet, as many as there may be."""
        known = self._known if self._is_known else None
        return shard_of(jobs_of(self.suite, self.model, self.sources, self.wish.limit, known), self.wish.shard)

    def count(self) -> None:
        """Add what is to be done to the tally, or correct what was added before."""
        jobs = self.missing()
        cells, work = sum(len(job.cells) for job in jobs), total(jobs).tokens
        self.tally.total += cells - self.counted[0]
        self.tally.work += work - self.counted[1]
        self.counted = cells, work

    @property
    def _known(self) -> Known | None:
        return None if self.store is None else self.store.known().get(self.model.id)

    @property
    def _filters(self) -> list[Filter]:
        """What has to be asked of the model before it is known which examples it gets."""
        done = () if self._known is None else self._known.examples
        limit = self.wish.limit
        filters = [(source.name(limit), source, source.size(limit)) for source in self.sources if source.filtered]
        return [one for one in filters if one[0] not in done]

    @property
    def _is_known(self) -> bool:
        return self._known is not None and not self._filters

    def _with_given(self, job: Job) -> Job:
        """With the explanations that are there already, made for other metrics."""
        assert self.store is not None
        found = {cell.entry.label: self.store.explanation(cell.explained) for cell in job.cells}
        return replace(job, given={label: why for label, why in found.items() if why is not None})

    def _keep(self, job: Job, done: Done) -> None:
        assert self.store is not None
        self.store.put(done.cells, done.cost)
        self.tally.done += len(done.cells)
        self.tally.failed += sum(cell.status == "failed" for cell in done.cells)
        self.tally.worked += work_of(job).tokens
        self.look(self.tally)


def _name(of: Job | Cell) -> tuple[str, str, int]:
    return of.dataset, of.example if isinstance(of, Cell) else of.example.id, of.seed
