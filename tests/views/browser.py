"""Reads pages and runs view.js without a browser."""

import json
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

ASSETS = files("reagent.views").joinpath("assets")

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


class Drawn:
    """A drawn element: finds parts by their kind, and reads the visible text or the text for screen readers."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def parts(self, kind: str) -> "list[Drawn]":
        nodes = [Drawn(child) for child in self.node["children"] if not isinstance(child, str)]
        here = [node for node in nodes if f"reagent-{kind}" in node.node["kind"].split()]
        return here + [part for node in nodes for part in node.parts(kind)]

    def text(self, *, spoken: bool = False) -> str:
        attributes = self.node["attributes"]
        if spoken and attributes.get("aria-hidden") == "true":
            return ""
        if spoken and "aria-label" in attributes:
            return str(attributes["aria-label"])
        parts = [c if isinstance(c, str) else Drawn(c).text(spoken=spoken) for c in self.node["children"]]
        return "".join(parts)


def draw(data: object, target: int | str = "", *events: tuple[str, int, str]) -> Drawn:
    """Draw the data with view.js, then send events: each is a selector, the number of the element, and a type."""
    with as_file(ASSETS) as folder:
        scripts = [str(folder / name) for name in ("trace.js", "view.js")]
        command = ["node", str(Path(__file__).with_name("dom.js")), *scripts]
        given = json.dumps([data, target, events])
        result = subprocess.run(command, input=given, check=True, capture_output=True, text=True, encoding="utf-8")
    return Drawn(json.loads(result.stdout))
