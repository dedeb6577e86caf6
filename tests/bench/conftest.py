"""A small suite and its results, made once."""

from pathlib import Path

import pytest

from bench.small import write_suite
from reagent.bench.runner import run
from reagent.bench.suite import Suite, load_suite


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Suite:
    return load_suite(str(write_suite(tmp_path_factory.mktemp("suite"), [str(tiny_folder)])))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory, small: Suite) -> Path:
    """The small suite, run without disturbance."""
    out = tmp_path_factory.mktemp("results") / "small.sqlite"
    run(small, out)
    return out
