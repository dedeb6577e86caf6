"""The direction of imports inside the report package."""

import ast
from pathlib import Path

import pytest

import reagent.report

PACKAGE = Path(reagent.report.__file__).parent
# What a folder may import from the package, besides the modules at its root and itself.
FOLDERS: dict[str, set[str]] = {
    "paper_results": set(),
    "tables": {"paper_results"},
    "figures": {"tables"},
    "formats": {"figures"},
}
READS_RECORDS = {"__init__.py", "load.py", "examples.py"}


def imported_modules(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_in_one_direction(folder: str) -> None:
    for path in (PACKAGE / folder).glob("*.py"):
        inside = {name.split(".")[2] for name in imported_modules(path) if name.startswith("reagent.report.")}
        assert inside & set(FOLDERS) <= FOLDERS[folder] | {folder}, path.name


def test_only_the_loaders_know_the_store() -> None:
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(name.startswith("reagent.bench") for name in imported_modules(path))
    }
    assert readers == READS_RECORDS
