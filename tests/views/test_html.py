import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from reagent.explanation import Explanation
from reagent.views.html import fragment, page, view_data
from reagent.views.text import visible
from views.samples import HOSTILE, byte_pieces, contested, every_kind, hostile, make

ASSETS = files("reagent.views").joinpath("assets")


class Reader(HTMLParser):
    """What a browser sees: the elements with their attributes, and the text inside each kind."""

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


def data_of(text: str) -> dict[str, object]:
    [found] = re.findall(r'<script type="application/json" class="reagent-data">(.*?)</script', text, re.S)
    return json.loads(found)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", every_kind())
def test_the_page_carries_the_data_and_no_other_elements(name: str) -> None:
    why = every_kind()[name]
    text = page(why)
    assert Reader(text).tags() == Reader(page(make())).tags()
    assert data_of(text) == json.loads(json.dumps(view_data(why)))
    text.encode("utf-8")


def test_hostile_text_cannot_leave_the_script_element() -> None:
    text = page(hostile())
    [data] = re.findall(r'class="reagent-data">(.*)</script>\n<script>', text)
    assert not set(data) & set("<>&\u2028\u2029")
    assert "alert(1)" in data
    assert "<script>alert" not in text
    assert data_of(text)["pieces"][0][0] == visible(HOSTILE)  # type: ignore[index]


def test_the_page_is_self_contained() -> None:
    text = page(make())
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    reader = Reader(text)
    assert not [attributes for _, attributes in reader.elements if {"src", "href"} & attributes.keys()]
    assert "link" not in reader.tags()


def test_the_page_says_what_a_browser_must_know() -> None:
    reader = Reader(page(make(completion=" Tokyo & <b>more</b>")))
    elements = dict(reader.elements)
    assert elements["html"] == {"lang": "en"}
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in reader.elements
    assert reader.texts["title"][0] == "Why “Tokyo & <b>more</b>”?"
    assert "noscript" in reader.tags()


def test_where_no_script_runs_the_answer_is_still_there() -> None:
    assert "·Tokyo: ·Japan 0.51" in "".join(Reader(fragment(make())).texts["p"])


def test_a_fragment_can_stand_in_one_document_many_times() -> None:
    reader = Reader(fragment(make()) + fragment(byte_pieces()))
    assert not [attributes for _, attributes in reader.elements if "id" in attributes]
    assert reader.tags().count("style") == 2
    assert {"html", "body", "head"}.isdisjoint(reader.tags())
    # A second declaration of a top-level `const` or `let` would be an error in the second fragment.
    scripts = ASSETS.joinpath("view.js").read_text() + ASSETS.joinpath("fragment.html").read_text()
    assert re.findall(r"^(?:const|let|class|var)\b.*", scripts, re.M) == []
    assert re.findall(r"^(?:async )?function (\w+)", scripts, re.M) == ["reagentView"]


def test_the_style_touches_nothing_outside() -> None:
    css = re.sub(r"/\*.*?\*/", "", ASSETS.joinpath("view.css").read_text(), flags=re.S)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", css) for part in rule.split(",")]
    assert len(selectors) > 40
    assert [s for s in selectors if not s.startswith((".reagent ", "@media"))] == [".reagent", ".reagent", ".reagent"]


def test_data_becomes_text_never_markup() -> None:
    script = ASSETS.joinpath("view.js").read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|</script|<!--", script) == []


def test_the_data_have_every_row_and_its_warning() -> None:
    data = view_data(make(completion=" Tokyo, and", stderr=True, stopped=["condition", "maximum", "condition"]))
    assert [len(row) for row in data["scores"]] == [data["inputs"] + t for t in range(3)]
    assert [len(row) for row in data["stderr"]] == [len(row) for row in data["effects"]]
    assert [bool(text) for text in data["warnings"]] == [False, True, False]
    assert data["tokens"][-1] == {"label": "·and", "ids": (102,), "protected": False, "probability": "54.7%"}


def test_long_explanations_stay_small() -> None:
    assert len(page(every_kind()["long"])) < 200_000


def test_a_notebook_gets_the_fragment(tmp_path: Path) -> None:
    why = make()
    assert why._repr_html_() == fragment(why)
    assert why.to_html(tmp_path / "why.html") == (tmp_path / "why.html").read_text(encoding="utf-8") == page(why)


def test_the_data_say_which_places_are_settled() -> None:
    data = view_data(contested())
    assert [data["open"][0][i] for i in (0, 1, 2, 3)] == [1, 1, 0, 1]
    assert view_data(make(effects=True))["open"] == [[]]  # no errors: nobody knows


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


@needs_node
def test_the_script_is_a_script() -> None:
    with as_file(ASSETS.joinpath("view.js")) as path:
        subprocess.run(["node", "--check", str(path)], check=True)


class Drawn:
    """What view.js draws: find parts by their kind, read their text as it is seen or as it is heard."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    def parts(self, kind: str) -> "list[Drawn]":
        nodes = [Drawn(child) for child in self.node["children"] if not isinstance(child, str)]
        here = [node for node in nodes if f"reagent-{kind}" in node.node["kind"].split()]
        return here + [part for node in nodes for part in node.parts(kind)]

    def text(self, *, heard: bool = False) -> str:
        attributes = self.node["attributes"]
        if heard and attributes.get("aria-hidden") == "true":
            return ""
        if heard and "aria-label" in attributes:
            return str(attributes["aria-label"])
        parts = [c if isinstance(c, str) else Drawn(c).text(heard=heard) for c in self.node["children"]]
        return "".join(parts)


def drawn(why: Explanation, target: int = 0) -> Drawn:
    with as_file(ASSETS.joinpath("view.js")) as script:
        command = ["node", str(Path(__file__).with_name("dom.js")), str(script)]
        data = json.dumps([view_data(why), target])
        result = subprocess.run(command, input=data, check=True, capture_output=True, text=True, encoding="utf-8")
    return Drawn(json.loads(result.stdout))


@needs_node
def test_a_place_that_is_not_settled_is_seen_and_heard() -> None:
    view = drawn(contested())
    places = [row.parts("number")[0] for row in view.parts("row")[1:]]
    assert [place.text() for place in places] == ["1 ≈", "2 ≈", "3", "4 ≈", "5 ≈"]
    assert [place.text(heard=True) for place in places][1:3] == ["2 place not settled", "3"]
    labels = [token.node["attributes"]["aria-label"] for token in view.parts("token")]
    assert ["(not settled)" in label for label in labels] == [True, True, False, True, True]
    [first, second] = view.parts("note")
    assert first.text() == "≈ place not settled: overlaps a neighbour within its error (95 %)"
    assert first.text(heard=True).strip() == "place not settled: overlaps a neighbour within its error (95 %)"
    assert second.text().startswith("nats: without the token")


@needs_node
def test_every_row_has_its_error_as_a_line() -> None:
    assert len(drawn(contested()).parts("line")) == 5
    assert drawn(make(effects=True)).parts("line") == []


@needs_node
def test_notes_stand_only_where_they_are_needed() -> None:
    assert drawn(make()).parts("note") == []
    assert [note.text()[:5] for note in drawn(make(effects=True)).parts("note")] == ["nats:"]
    assert drawn(make(effects=True, effect_unit="g")).parts("note") == []


@needs_node
def test_an_open_ranking_is_said_more_quietly_than_a_failure() -> None:
    why = make(completion=" Tokyo, and", stderr=True, stopped=["settled", "unsettled", "flat"])
    view = drawn(why, target=1)
    assert [choice.text() for choice in view.parts("choice")] == ["·Tokyo", ",≈", "·and⚠"]
    assert [choice.text(heard=True) for choice in view.parts("choice")][1:] == [
        ",ranking still open",
        "·andhas a warning",
    ]
    assert view.parts("question")[0].text() == "The output: choose a token (≈ ranking still open)"
    assert view.parts("caution")[0].text().startswith("≈ This output token has a ranking that was still open")
    assert drawn(why, target=2).parts("caution")[0].text().startswith("⚠ This output token was made likelier")
    assert drawn(why, target=0).parts("caution")[0].text() == ""


@needs_node
@pytest.mark.parametrize("name", ["no output", "no context", "zero", "hostile", "pieces"])
def test_odd_explanations_are_drawn(name: str) -> None:
    assert drawn(every_kind()[name]).text()
