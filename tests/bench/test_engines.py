"""Ray: the same table as in one process, also when a worker is lost on the way."""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.small import table
from reagent.bench.engines import LocalEngine, RayEngine, make_engine
from reagent.bench.plan import Job
from reagent.bench.runner import RunSelection, run
from reagent.bench.store import Store
from reagent.bench.suite import ModelConfig, Suite
from reagent.bench.worker import JobResult
from reagent.errors import InputError
from reagent.studies.request import StudyRequest
from reagent.studies.run import run as run_study
from reagent.studies.worker import StudyWorker

pytestmark = pytest.mark.xdist_group("ray")  # one worker starts it

HERE = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}}}


class Losing(RayEngine):
    """Kills a worker's process, as a lost machine would, after the first job."""

    lost = 0

    def run_jobs(self, model: ModelConfig, jobs: Iterable[Job]) -> Iterator[JobResult]:
        for done in super().run_jobs(model, jobs):
            if not self.lost:
                self.lost = self._process()
                os.kill(self.lost, signal.SIGKILL)
            yield done

    def _process(self) -> int:
        return int(self._ray.get(self._actors[0].__ray_call__.remote(lambda _: os.getpid())))


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """A real Ray with two workers; it stays for all tests of this file."""
    pytest.importorskip("ray")

    class Lasting(Losing):
        def __enter__(self) -> "Lasting":
            return self if self._ray is not None else super().__enter__()  # type: ignore[return-value]

        def __exit__(self, *_: Any) -> None:
            pass

    lasting = Lasting(workers=2, settings=HERE)
    yield lasting
    RayEngine.__exit__(lasting)


@pytest.mark.slow
def test_ray_and_local_give_the_same_table_though_a_worker_is_lost(
    engine: Any, small: Suite, results: Path, tmp_path: Path
) -> None:
    out = tmp_path / "ray.sqlite"
    assert run(small, out, engine).done == 12
    assert engine.lost
    one, other = table(out), table(results)
    assert one.keys() == other.keys()
    for place, cell in one.items():
        assert cell["key"] == other[place]["key"]
        for mine, theirs in zip(cell["explanation"]["scores"], other[place]["explanation"]["scores"], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        for mine, theirs in zip(cell["numbers"][0], other[place]["numbers"][0], strict=True):
            assert mine["value"] == pytest.approx(theirs["value"], abs=1e-4)
            assert mine["random"] == pytest.approx(theirs["random"], abs=1e-4)
    assert run(small, out, engine).done == 0


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_stops_no_other_on_ray(engine: Any, small: Suite, tmp_path: Path) -> None:
    engine.workers = 1
    suite = replace(small, models=(ModelConfig(str(tmp_path / "none")), *small.models), methods=small.methods[:1])
    progress = run(suite, tmp_path / "f.sqlite", engine, RunSelection(limit=1))
    assert (progress.done, progress.failed) == (2, 1)
    with Store.open(tmp_path / "f.sqlite") as store:
        assert "none" in next(store.cells("failed")).error


@pytest.mark.slow
def test_a_prompt_study_on_ray_is_the_same(engine: Any, tiny_folder: Path, tmp_path: Path) -> None:
    engine.kind, engine.workers = StudyWorker, 1
    inputs = [{"country": country, "answer": "Oslo"} for country in ("Japan", "Peru", "Cuba")]
    request = StudyRequest.build("Name the city.\n\nOf {{country}}:", inputs)
    model = ModelConfig(str(tiny_folder), dtype="float32")  # not the one of other tests, which have other workers
    study, local = run_study(request, model, tmp_path / "s.sqlite", engine), run_study(request, model)
    for one, other in zip(study.parts, local.parts, strict=True):
        assert one.effects == pytest.approx(other.effects, abs=1e-4)
    missing = ModelConfig(str(tmp_path / "none"))
    with pytest.raises(InputError, match="cannot be loaded"):
        run_study(request, missing, tmp_path / "t.sqlite", engine)


def test_engines_by_name() -> None:
    assert isinstance(make_engine("local"), LocalEngine)
    with pytest.raises(InputError, match="unknown engine 'spark'"):
        make_engine("spark")
    with pytest.raises(InputError, match="only the engine 'ray'"):
        make_engine("local", workers=2)
