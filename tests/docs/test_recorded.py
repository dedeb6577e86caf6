"""Gallery and tutorials: what is stored belongs to the scripts and pages as they are now."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import gallery
import notebooks
from environments import clean_variables, create_environment

PAGES = sorted(notebooks.TUTORIALS.glob("*.md"))
LARGEST = {".png": 50_000, ".ipynb": 120_000}  # bytes


def test_the_gallery_shows_every_script_as_it_is() -> None:
    outputs = gallery.read_outputs()
    assert sorted(outputs) == sorted(gallery.names()), "run: make gallery"
    assert (gallery.ROOT / "docs" / "gallery.md").read_text() == gallery.render(outputs), "run: make gallery"
    pictures = {path.stem for path in gallery.GALLERY.glob("*.png")}
    assert pictures == {name for name, output in outputs.items() if output["picture"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_that_of_its_page(page: Path) -> None:
    text = page.read_text()
    stored = nbformat.read(notebooks.NOTEBOOKS / f"{page.stem}.ipynb", as_version=4)
    nbformat.validate(stored)
    made = notebooks.make_notebook(page)
    sources = [[(cell.cell_type, cell.source) for cell in notebook.cells] for notebook in (made, stored)]
    assert sources[0] == sources[1], f"run: python tools/notebooks.py {page.stem}"
    outputs = [notebooks.printed(cell) for cell in notebooks.code_cells(stored)]
    assert text == notebooks.with_outputs(text, outputs), f"run: python tools/notebooks.py {page.stem}"
    assert notebooks.header(page.stem) in text


def test_recorded_files_are_small() -> None:
    files = [*gallery.GALLERY.iterdir(), *notebooks.NOTEBOOKS.iterdir()]
    assert [file.name for file in files if file.stat().st_size > LARGEST.get(file.suffix, 50_000)] == []


def test_the_plugin_of_the_tutorial_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells on planted models; then its package, installed into a new environment."""
    page = notebooks.TUTORIALS / "plugin.md"
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.chdir(package)
    code = [cell.source for cell in notebooks.read_cells(page.read_text()) if cell.kind == "code"]
    script = "\n".join(source for source in code if "smollm2" not in source)  # `make gallery` runs all cells
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout in "".join(re.findall(r"^```text\n(.*?)^```", page.read_text(), re.M | re.S))
    (project,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
    (package / "pyproject.toml").write_text(project)
    programs = create_environment(tmp_path / "fresh", [package, gallery.EXAMPLES / "plugin"], [gallery.ROOT / "src"])

    def run(*arguments: str) -> str:
        command = [str(programs / "python"), "-m", "reagent", *arguments]
        return subprocess.run(command, env=clean_variables(), capture_output=True, text=True, check=True).stdout

    assert "leave_two_out: Deletes two units at a time" in run("methods")
    shown = run("explain", "w3 w1 w2", "--max-new-tokens", "1", "--method", "leave_two_out", "--model", "parrot")
    assert "method LeaveTwoOut" in shown or "method leave_two_out" in shown
