"""Where the work is done: in this process, or by workers on Ray. Both do the same work with the same draws."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from reagent.bench.plan import Job, Source
from reagent.bench.records import Known
from reagent.bench.suite import Model
from reagent.bench.worker import Done, ModelLoadError, Worker, cell_of, one_line
from reagent.errors import InputError, ReagentError, UnknownNameError

ENGINES = ("local", "ray")
LIVES = 3  # so often a worker may be lost over one job before the job counts as failed
Filter = tuple[str, Source, int | None]  # under which name to remember it, the dataset, and how many examples


class Engine(Protocol):
    """Does jobs of one model at a time; a context manager."""

    def known(self, model: Model, filters: Sequence[Filter]) -> Known: ...

    def done(self, model: Model, jobs: Iterable[Job]) -> Iterator[Done]:
        """The jobs as they are finished, in any order."""
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *_: Any) -> None: ...


@dataclass
class Local:
    """One worker, in this process."""

    worker: Worker | None = None

    def known(self, model: Model, filters: Sequence[Filter]) -> Known:
        return self._of(model).known(filters)

    def done(self, model: Model, jobs: Iterable[Job]) -> Iterator[Done]:
        worker = self._of(model)
        for job in jobs:
            yield worker.do(job)

    def _of(self, model: Model) -> Worker:
        if self.worker is None or self.worker.model != model:
            self.worker = None  # the last model goes before the next one comes
            self.worker = Worker(model)
        return self.worker

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, *_: Any) -> None:
        self.worker = None


@dataclass
class OnRay:
    """Workers on a Ray cluster: the one at `address`, or one on this machine that ends with the run."""

    workers: int | None = None  # by default as many as there are GPUs, or cores
    address: str | None = None
    gpus: float | None = None  # for each worker; by default 1 where the cluster has any
    settings: dict[str, Any] = field(default_factory=dict)  # of ray.init
    _ray: Any = field(default=None, repr=False)
    _actors: list[Any] = field(default_factory=list, repr=False)
    _model: Model | None = None

    def known(self, model: Model, filters: Sequence[Filter]) -> Known:
        self._staff(model)
        found: Known = self._wait(self._actors[0].known.remote(filters))
        return found

    def done(self, model: Model, jobs: Iterable[Job]) -> Iterator[Done]:
        self._staff(model)
        waiting = iter(jobs)
        busy = {actor.do.remote(job): (actor, job) for actor, job in zip(self._actors, waiting, strict=False)}
        while busy:
            (ready, *_), _ = self._ray.wait(list(busy))
            actor, job = busy.pop(ready)
            yield self._result(ready, job)
            busy |= {actor.do.remote(following): (actor, following) for following in islice(waiting, 1)}

    def _result(self, ready: Any, job: Job) -> Done:
        try:
            done: Done = self._wait(ready)
            return done
        except self._ray.exceptions.RayActorError as error:  # lost again and again: this job is too much for it
            lost = f"the worker was lost {LIVES} times over this job: {one_line(error)[:300]}"
            return Done(tuple(cell_of(job, cell, None, None, lost) for cell in job.cells), {})

    def _wait(self, promised: Any) -> Any:
        try:
            return self._ray.get(promised)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, ReagentError | ModelLoadError):
                raise cause from error
            raise

    def _staff(self, model: Model) -> None:
        """Workers that hold this model; those of another are let go first."""
        if self._model == model and self._actors:
            return
        for actor in self._actors:
            self._ray.kill(actor)
        resources = self._ray.cluster_resources()
        gpus = self.gpus if self.gpus is not None else (1 if resources.get("GPU") and model.device != "cpu" else 0)
        count = self.workers or max(1, int(resources["GPU"] / gpus if gpus else resources.get("CPU", 1)))
        # A lost worker is started again, and what it was doing is done again.
        made = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=LIVES - 1)(Worker)
        self._actors = [made.remote(model) for _ in range(count)]
        self._model = model

    def __enter__(self) -> "OnRay":
        self._ray = require_ray()
        quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False} if self.address is None else {}
        try:
            self._ray.init(address=self.address, configure_logging=False, **quiet | self.settings)
        except ConnectionError as error:
            raise InputError(f"there is no Ray cluster at {self.address!r}: {' '.join(str(error).split())}") from error
        return self

    def __exit__(self, *_: Any) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._ray.shutdown()


def make_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """An engine by its name; one that cannot work here says so before any work."""
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    if name == "ray":
        require_ray()
        return OnRay(workers, address)
    if workers is not None or address is not None:
        raise InputError("only the engine 'ray' has workers and an address: give --engine ray, or leave them out")
    return Local()


def require_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("the engine 'ray' needs Ray: pip install 'reagent-lm[ray]', or use --engine local") from error
    return ray
