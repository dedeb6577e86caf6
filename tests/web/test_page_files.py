"""The files of the page: complete, no inline code, nothing from other sites."""

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from views.browser import Reader

PAGE, VIEWS = (Path(str(files(f"reagent.{package}").joinpath("assets"))) for package in ("web", "views"))
SCRIPTS = sorted(PAGE.glob("*.js"))


def index() -> Reader:
    return Reader((PAGE / "index.html").read_text(encoding="utf-8"))


def test_the_page_has_no_inline_code() -> None:
    """The content security policy forbids it."""
    for tag, attributes in index().elements:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_every_linked_file_exists() -> None:
    links = {str(a[name]) for _, a in index().elements for name in ("src", "href") if a.get(name)}
    assert {"assets/page.js", "assets/page.css", "assets/view.js", "assets/view.css"} <= links
    for path in SCRIPTS:
        links |= {f"assets/{name}" for name in re.findall(r'from "\./(.*?)"', path.read_text(encoding="utf-8"))}
    for link in links:
        folder, name = link.split("/")
        assert folder == "assets"
        assert (PAGE / name).is_file() or (VIEWS / name).is_file(), link


def test_nothing_is_loaded_from_other_sites() -> None:
    for path in sorted(PAGE.iterdir()):
        text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.findall(r"https?://|url\(|@import", text), path.name


def test_every_field_has_a_label() -> None:
    elements = index().elements
    fields = [
        a["id"]
        for tag, a in elements
        if tag in ("textarea", "select") or (tag == "input" and a.get("type") == "number")
    ]
    labels = [a["for"] for tag, a in elements if tag == "label" and "for" in a]
    assert sorted(map(str, labels)) == sorted(map(str, [*fields, "alternative"]))


def test_scripts_never_insert_markup() -> None:
    assert len(SCRIPTS) >= 4
    for path in SCRIPTS:
        script = path.read_text(encoding="utf-8")
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", script), path


def test_the_example_is_the_prompt_of_the_docs(prompt: str) -> None:
    assert prompt in (PAGE / "form.js").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_parse(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    subprocess.run(["node", "--input-type=module", "--check"], input=text, text=True, check=True)
