"""`reagent doctor` finds what is there and says what to do about the rest."""

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import reagent
from reagent import diagnosis

ROOT = Path(__file__).parents[2]


@pytest.fixture
def examine(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs `reagent doctor --json -` with an own cache; returns the exit code and each check by its name."""
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / "cache"))

    def call(section: str):
        answer = run("doctor", "--json", "-")
        assert answer.err == ""
        found = json.loads(answer.out)
        assert found["ok"] == (answer.code == 0)
        return answer.code, {check["name"]: check for check in found[section]}

    return call


def test_a_working_installation_has_every_package(examine) -> None:
    code, packages = examine("packages")
    assert code == 0
    assert packages["torch"] | {"advice": ""} == {
        "name": "torch", "status": "ok", "found": metadata.version("torch"), "advice": "", "bytes": None,
    }  # fmt: skip
    _, system = examine("system")
    assert system["reagent"]["found"].startswith(reagent.__version__)
    _, devices = examine("devices")
    assert devices["cpu"]["bytes"] > 1e8


def test_the_text_has_every_section_and_one_line_of_advice_each(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / "cache"))
    answer = run("doctor")
    assert answer.code == 0
    for title in ("system", "packages", "devices", "cache", "models", "extras"):
        assert f"\n{title}\n" in f"\n{answer.out}"
    assert "– smollm2  not fetched yet, a download of 93 MB\n      → it is fetched on first use" in answer.out
    assert not (tmp_path / "cache").exists(), "nothing is written"


def test_every_extra_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(diagnosis.EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}


def test_a_missing_extra_names_the_command(examine, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "fastapi":
            raise metadata.PackageNotFoundError(name)
        return metadata.version(name)

    monkeypatch.setattr(diagnosis, "version", version)
    code, extras = examine("extras")
    assert code == 0, "an extra is optional"
    assert extras["web"]["status"] == "missing"
    assert extras["web"]["found"].endswith("missing: fastapi")
    assert extras["web"]["advice"] == "run: pip install 'reagent-lm[web]'"
    assert extras["frames"]["status"] == "ok"


def test_an_old_package_is_broken(examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "version", lambda name: "1.0" if name == "torch" else metadata.version(name))
    code, packages = examine("packages")
    assert code == 1
    assert packages["torch"]["found"] == "torch 1.0, >=2.6 is needed"
    assert packages["torch"]["advice"] == "run: pip install 'torch>=2.6'"


def test_the_cache_shows_sizes_and_what_is_incomplete(examine, tmp_path: Path) -> None:
    from reagent.models.cache import CacheEntry, ensure_entry

    (tmp_path / "cache").mkdir()
    code, _ = examine("cache")
    for name in ("whole", "damaged"):
        ensure_entry(CacheEntry(name, "1"), lambda part: (part / "weights").write_bytes(b"x" * 3000))
    (tmp_path / "cache" / "damaged" / "weights").write_bytes(b"x")
    (tmp_path / "cache" / "tiny.part-12ab").mkdir()
    code, entries = examine("cache")
    assert code == 0
    assert {name: entry["status"] for name, entry in entries.items()} == {
        "folder": "ok", "damaged": "missing", "tiny.part-12ab": "missing", "whole": "ok",
    }  # fmt: skip
    assert entries["whole"]["bytes"] > 3000
    assert entries["folder"]["bytes"] == sum(entry["bytes"] for name, entry in entries.items() if name != "folder")
    assert entries["damaged"]["advice"]


def test_a_cache_that_cannot_be_written_is_broken(examine, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / "file" / "cache"))
    code, cache = examine("cache")
    assert code == 1
    assert "REAGENT_CACHE" in cache["folder"]["advice"]


def test_models_in_the_cache_of_the_hub_are_found(examine, tmp_path: Path, tiny_folder: Path, monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for name, keep in (("whole", "*"), ("half", "*.json")):
        repository = tmp_path / "hub" / f"models--org--{name}"
        snapshot = repository / "snapshots" / "0123abc"
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123abc")
        for file in tiny_folder.glob(keep):
            (snapshot / file.name).write_bytes(file.read_bytes())
    _, models = examine("models")
    assert (models["org/whole"]["status"], models["org/half"]["status"]) == ("ok", "missing")
    assert models["org/whole"]["bytes"] > 10_000


def test_keys_are_never_shown(examine, run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in diagnosis.SECRETS:
        monkeypatch.setenv(name, "hunter2")
    _, system = examine("system")
    assert system["OPENAI_API_KEY"]["found"] == "set"
    assert "hunter2" not in run("doctor").out
