"""Where jobs run: in this process, or on Ray workers. Results do not depend on the engine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from reagent.bench.plan import Source
from reagent.bench.records import ModelRecord
from reagent.bench.suite import ModelConfig
from reagent.bench.worker import JobResult, ModelLoadError, Worker, describe_error
from reagent.errors import InputError, ReagentError, UnknownNameError

ENGINES = ("local", "ray")
MAX_ATTEMPTS = 3  # lost workers after which a job counts as failed
Filter = tuple[str, Source, int | None]  # name in the store, dataset, number of examples


class Engine(Protocol):
    """Runs jobs of one model at a time; a context manager."""

    def inspect(self, model: ModelConfig, filters: Sequence[Filter]) -> ModelRecord: ...

    def run_jobs(self, model: ModelConfig, jobs: Iterable[Any]) -> Iterator[JobResult]:
        """The results as jobs finish, in any order."""
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *_: Any) -> None: ...


@dataclass
class LocalEngine:
    """One worker, in this process."""

    worker: Worker | None = None
    kind: type[Worker] = Worker  # which does the jobs

    def inspect(self, model: ModelConfig, filters: Sequence[Filter]) -> ModelRecord:
        return self._worker_for(model).inspect(filters)

    def run_jobs(self, model: ModelConfig, jobs: Iterable[Any]) -> Iterator[JobResult]:
        worker = self._worker_for(model)
        for job in jobs:
            yield worker.do(job)

    def _worker_for(self, model: ModelConfig) -> Worker:
        if self.worker is None or self.worker.model != model:
            self.worker = None  # free the last model before loading the next
            self.worker = self.kind(model)
        return self.worker

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.worker = None


@dataclass
class RayEngine:
    """Workers on a Ray cluster: the one at `address`, or one on this machine that ends with the run."""

    workers: int | None = None  # by default as many as there are GPUs, or cores
    address: str | None = None
    gpus: float | None = None  # for each worker; by default 1 if the cluster has any
    settings: dict[str, Any] = field(default_factory=dict)  # of ray.init
    kind: type[Worker] = Worker  # which does the jobs
    _ray: Any = field(default=None, repr=False)
    _actors: list[Any] = field(default_factory=list, repr=False)
    _model: ModelConfig | None = None

    def inspect(self, model: ModelConfig, filters: Sequence[Filter]) -> ModelRecord:
        self._start_workers(model)
        record: ModelRecord = self._wait(self._actors[0].inspect.remote(filters))
        return record

    def run_jobs(self, model: ModelConfig, jobs: Iterable[Any]) -> Iterator[JobResult]:
        self._start_workers(model)
        waiting = iter(jobs)
        busy = {actor.do.remote(job): (actor, job) for actor, job in zip(self._actors, waiting, strict=False)}
        while busy:
            (ready, *_), _ = self._ray.wait(list(busy))
            actor, job = busy.pop(ready)
            yield self._result(ready, job)
            busy |= {actor.do.remote(following): (actor, following) for following in islice(waiting, 1)}

    def _result(self, ready: Any, job: Any) -> JobResult:
        try:
            done: JobResult = self._wait(ready)
            return done
        except self._ray.exceptions.RayActorError as error:  # all attempts failed
            lost = f"the worker was lost {MAX_ATTEMPTS} times over this job: {describe_error(error)[:300]}"
            return self.kind.fail(job, lost)

    def _wait(self, promised: Any) -> Any:
        try:
            return self._ray.get(promised)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, ReagentError | ModelLoadError):
                raise cause from error
            raise

    def _start_workers(self, model: ModelConfig) -> None:
        """Start workers for this model; those of another model are stopped first."""
        if self._model == model and self._actors:
            return
        for actor in self._actors:
            self._ray.kill(actor)
        resources = self._ray.cluster_resources()
        gpus = self.gpus if self.gpus is not None else (1 if resources.get("GPU") and model.device != "cpu" else 0)
        count = self.workers or max(1, int(resources["GPU"] / gpus if gpus else resources.get("CPU", 1)))
        # A lost worker is restarted, and its job is repeated.
        made = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=MAX_ATTEMPTS - 1)(
            self.kind
        )
        self._actors = [made.remote(model) for _ in range(count)]
        self._model = model

    def __enter__(self) -> "RayEngine":
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


def make_engine(
    name: str, workers: int | None = None, address: str | None = None, kind: type[Worker] = Worker
) -> Engine:
    """An engine by its name; a missing library is reported before any work."""
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    if name == "ray":
        require_ray()
        return RayEngine(workers, address, kind=kind)
    if workers is not None or address is not None:
        raise InputError("only the engine 'ray' has workers and an address: use that engine, or leave them out")
    return LocalEngine(kind=kind)


def require_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "the engine 'ray' needs Ray: pip install 'reagent-lm[ray]', or use the engine 'local'"
        ) from error
    return ray
