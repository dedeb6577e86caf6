"""The source archive and the wheel are complete, and the wheel works where nothing else of the project is."""

import json
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import jsonschema
import pytest

import reagent
from release.conftest import ROOT, Run

EXPLAIN = ("explain", "w3 w1 w2", "--model", "parrot", "--max-new-tokens", "1")


def git_files(*options: str) -> set[str]:
    """Files of the working tree, relative to it; the tests of an unpacked source archive have no repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git repository")
    listed = subprocess.run(["git", "ls-files", "-z", *options], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_the_source_archive_has_every_file_of_the_repository(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        inside = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    tracked = git_files()
    assert tracked - inside == set()
    assert inside - tracked - git_files("--others", "--exclude-standard") == {"PKG-INFO"}


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = {name.removeprefix("src/") for name in git_files("src")}
    assert tracked - inside == set()
    assert {Path(name).parts[0] for name in inside} == {"reagent"}


def test_the_metadata_has_version_licence_and_addresses(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == ("reagent-lm", reagent.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Documentation", "Source", "Issues", "Changelog", "Paper"}
    assert metadata.get_payload().startswith("# reagent")


def test_the_installed_command_explains_and_writes_every_view(run: Run, environment: Path, tmp_path: Path) -> None:
    assert run("reagent", "--version").strip() == f"reagent {reagent.__version__}"
    where = Path(run("python", "-c", "import reagent; print(reagent.__file__)").strip())
    assert environment.parent in where.parents, "the installed package, not the source tree"
    assert "w3" in run("reagent", *EXPLAIN, "--json", "why.json", "--html", "why.html", "--png", "why.png")
    schema = run("python", "-c", "import json, reagent.schemas as s; print(json.dumps(s.read_schema('explanation')))")
    jsonschema.validate(json.loads((tmp_path / "why.json").read_text()), json.loads(schema))
    assert "<script" in (tmp_path / "why.html").read_text()
    assert run("reagent", "show", "why.json")


def test_the_installed_package_has_its_data(run: Run, tmp_path: Path) -> None:
    assert "longra" in run("reagent", "datasets")
    assert "quick" in run("reagent", "bench", "suites")
    suite = 'models = ["parrot"]\ndatasets = ["greetings"]\nmethods = ["random"]\n[metrics]\nnames = ["top_drop"]\n'
    (tmp_path / "mine.toml").write_text(suite + 'draws = 4\nreplacer = "neighbours"\n')
    run("reagent", "bench", "run", "mine.toml", "--out", "mine.sqlite", "--quiet")
    run("reagent", "bench", "report", "mine.sqlite", "--out", "report")
    assert (tmp_path / "report" / "index.html").exists()
