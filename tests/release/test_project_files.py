"""The files around the package: workflows, forms, citation, hooks and the release check."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import reagent
from release.conftest import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "dependabot": [GITHUB / "dependabot.yml"],
    "github-issue-forms": [GITHUB / "ISSUE_TEMPLATE" / "bug.yml", GITHUB / "ISSUE_TEMPLATE" / "idea.yml"],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


def tool(name: str) -> str:
    """The path of a development tool; the test is skipped where it is not installed."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or pytest.skip(f"{name} is not installed")


def check(*command: object) -> None:
    answer = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_file_follows_its_schema(schema: str) -> None:
    check(tool("check-jsonschema"), "--no-cache", "--builtin-schema", f"vendor.{schema}", *SCHEMAS[schema])


def test_an_audit_of_the_workflows_finds_nothing() -> None:
    check(tool("zizmor"), "--offline", "--no-progress", GITHUB)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_pinned_actions_and_least_permissions(path: Path) -> None:
    uses = re.findall(r"uses: (.+)", path.read_text())
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in uses)
    workflow = read(path)
    assert workflow["permissions"] == {}
    publishing = {"release": {"id-token": "write"}, "site": {"id-token": "write", "pages": "write"}}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 120
        assert job["permissions"] == (publishing[path.stem] if name == "publish" else {"contents": "read"}), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_commands_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for command in re.findall(r"(?:run:|^ {10}) *((?:make|\.ci/\w+|python) ?.*)$", path.read_text(), re.M):
        words = command.split()
        if words[0] == "make":
            assert set(words[1:]) <= targets, command
        for word in words:
            assert not word.startswith(".ci/") or (ROOT / word).is_file(), command


def test_the_matrix_has_all_supported_versions_on_both_systems() -> None:
    matrix = read(GITHUB / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert {re.match(r"[a-z]+", system)[0] for system in matrix["os"]} == {"ubuntu", "macos"}
    listed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == listed == ["3.11", "3.12", "3.13", "3.14"]


def test_the_hooks_are_valid_and_run_the_tools_of_make_check() -> None:
    check(sys.executable, "-m", "pre_commit", "validate-config")
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    makefile = (ROOT / "Makefile").read_text()
    assert tools == set(re.findall(r"\$\(BIN\)/(\w+)", makefile.partition("\ncheck:")[2].partition("\n\n")[0]))


@pytest.mark.parametrize(("tag", "problems"), [(f"v{reagent.__version__}", 0), (reagent.__version__, 1), ("v9.9", 3)])
def test_a_release_needs_one_version_and_one_date_everywhere(tag: str, problems: int) -> None:
    command = [sys.executable, ROOT / ".ci" / "check_release.py", tag]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.stdout.count("error: ") == problems, answer.stdout
    assert answer.returncode == bool(problems)
