"""The archives of a release, and an environment in which the wheel is installed."""

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from environments import clean_variables, create_environment

ROOT = Path(__file__).parents[2]
Run = Callable[..., str]


def build(target: str, source: Path, into: Path) -> Path:
    """The archive that hatchling builds from a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (archive,) = into.glob("*.tar.gz" if target == "sdist" else "*.whl")
    return archive


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive alone."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the wheel, and with a scripted model from the example plugin."""
    return create_environment(tmp_path_factory.mktemp("fresh"), [wheel, ROOT / "examples" / "plugin"])


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Runs a command of that environment, in an empty folder with an empty cache; returns its standard output."""

    def run(command: str, *arguments: str) -> str:
        answer = subprocess.run(
            [str(environment / command), *arguments],
            cwd=tmp_path,
            env=clean_variables(REAGENT_CACHE=str(tmp_path / "cache")),
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run
