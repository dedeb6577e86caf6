"""The pages of docs/: generated pages are current, links work, examples are Python, every page is in the menu."""

import ast
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cli_reference
import schema_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob("*.md"))]
FENCE = re.compile(r"^( *)(```+)(\w*)[^\n]*\n(.*?)^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("name", ["cli", "schemas"])
def test_a_generated_page_is_current(name: str) -> None:
    tool = {"cli": cli_reference, "schemas": schema_reference}[name]
    page = DOCS / "reference" / f"{name}.md"
    assert page.read_text() == tool.render(), f"run: python tools/{tool.__name__}.py > docs/reference/{name}.md"


def test_the_comparison_is_that_of_its_numbers() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import comparison

    numbers = json.loads((DOCS / "benchmarks" / "comparison.json").read_text())
    assert set(numbers["tools"]) <= set(comparison.TOOLS)
    assert (DOCS / "comparison.md").read_text() == comparison.render(numbers), "see benchmarks/comparison.py"


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert page not in PAGES or target.is_relative_to(DOCS), f"{link} is not a part of the site"
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=name_of)
def test_examples_are_python(page: Path) -> None:
    for indent, _, language, code in FENCE.findall(page.read_text()):
        if language == "python":
            ast.parse(textwrap.dedent(code) if indent else code)


def test_every_page_is_in_the_menu_once() -> None:
    menu = list(entries(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert sorted(menu) == [str(page.relative_to(DOCS)) for page in PAGES]


def entries(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    else:
        for entry in menu.values() if isinstance(menu, dict) else menu:
            yield from entries(entry)


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as the site and code hosts make them, and those that a page names itself."""
    named = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", page.read_text()))
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return named | {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in plain}
