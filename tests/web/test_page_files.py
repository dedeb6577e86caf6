"""The files of the page: nothing inline, nothing from outside, all there."""

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from views.browser import Reader

PAGE, VIEWS = (Path(str(files(f"reagent.{room}").joinpath("assets"))) for room in ("web", "views"))
SCRIPTS = sorted(PAGE.glob("*.js"))


def index() -> Reader:
    return Reader((PAGE / "index.html").read_text(encoding="utf-8"))


def test_the_page_has_nothing_inline() -> None:
    """So that a policy which forbids it can stand."""
    for tag, attributes in index().elements:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_everything_that_the_page_asks_for_is_there() -> None:
    wanted = {str(a[name]) for _, a in index().elements for name in ("src", "href") if a.get(name)}
    assert {"assets/page.js", "assets/page.css", "assets/view.js", "assets/view.css"} <= wanted
    for path in SCRIPTS:
        wanted |= {f"assets/{name}" for name in re.findall(r'from "\./(.*?)"', path.read_text(encoding="utf-8"))}
    for link in wanted:
        folder, name = link.split("/")
        assert folder == "assets"
        assert (PAGE / name).is_file() or (VIEWS / name).is_file(), link


def test_nothing_comes_from_outside() -> None:
    for path in sorted(PAGE.iterdir()):
        text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.findall(r"https?://|url\(|@import", text), path.name


def test_every_label_names_a_field_and_every_field_has_one() -> None:
    elements = index().elements
    fields = [
        a["id"]
        for tag, a in elements
        if tag in ("textarea", "select") or (tag == "input" and a.get("type") == "number")
    ]
    named = [a["for"] for tag, a in elements if tag == "label" and "for" in a]
    assert sorted(map(str, named)) == sorted(map(str, [*fields, "instead"]))


def test_data_become_text_never_markup() -> None:
    assert len(SCRIPTS) >= 4
    for path in SCRIPTS:
        script = path.read_text(encoding="utf-8")
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", script), path


def test_the_example_is_the_one_of_the_docs(prompt: str) -> None:
    assert prompt in (PAGE / "form.js").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_are_scripts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    subprocess.run(["node", "--input-type=module", "--check"], input=text, text=True, check=True)
