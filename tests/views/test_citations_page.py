"""The page of citations: its data, its texts without scripts, and what hostile texts cannot do."""

import json
import re

import pytest

from reagent.citations import Citations
from reagent.errors import FileError
from reagent.views.citations_page import render_fragment, render_page, to_view_data
from reagent.views.text import sanitize
from views.browser import ASSETS, Reader
from views.citation_samples import (
    ANSWER,
    DOCUMENTS,
    QUESTION,
    every_citation,
    hostile_citations,
    long_document,
    make_citations,
    one_sentence,
    unsupported,
)
from views.samples import HOSTILE, make


def data_of(text: str) -> dict[str, object]:
    [data] = re.findall(r'<script type="application/json" class="reagent-data">(.*?)</script', text, re.S)
    return json.loads(data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", every_citation())
def test_the_page_carries_the_data_and_is_self_contained(name: str) -> None:
    citations = every_citation()[name]
    text = render_page(citations)
    assert data_of(text) == json.loads(json.dumps(to_view_data(citations)))
    assert not re.findall(r"https?://|url\(|@import", text)
    reader = Reader(text)
    assert not [attributes for _, attributes in reader.elements if {"src", "href"} & attributes.keys()]
    assert {"link", "img", "iframe"}.isdisjoint(reader.tags())
    text.encode("utf-8")


def test_hostile_text_stays_text() -> None:
    text = render_page(hostile_citations())
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "<b>bold" not in text
    [data] = re.findall(r'class="reagent-data">(.*)</script>\n<script>', text)
    assert not set(data) & set("<>&\u2028\u2029")
    assert data_of(text)["question"] == sanitize(HOSTILE)


def test_the_data_have_every_part_of_the_answer_and_every_sentence() -> None:
    data = to_view_data(make_citations())
    assert [row["isWhole"] for row in data["rows"]] == [True, False, False, False]
    assert data["answer"] == [(ANSWER[0], 1), (" ", None), (ANSWER[1], 2), (" ", None), (ANSWER[2], 3)]
    assert [row["cited"] for row in data["rows"][1:]] == [[0, 3], [0, 1], []]
    assert [number for _, _, number in data["sentences"]] == [1, 3, 0, 2, 0]
    assert data["rows"][1]["marks"][0] == "redundant with [2], sufficient"
    assert data["rows"][2]["numbers"][1] == "removed −5.0 ± 0.2 nats, alone 50\u00a0%"
    assert data["partners"][0] == [3]
    for document, text in zip(data["documents"], DOCUMENTS.values(), strict=True):
        assert "".join(piece for piece, _ in document["pieces"]) == text


def test_an_answer_of_one_sentence_has_one_row() -> None:
    assert [row["isWhole"] for row in to_view_data(one_sentence())["rows"]] == [False]


def test_a_part_that_is_not_from_the_documents_has_no_sources() -> None:
    (row,) = to_view_data(unsupported())["rows"]
    assert row["shown"] == []
    assert not any(row["weights"])
    assert "not from the documents" in row["caption"]
    assert to_view_data(unsupported())["screening"].startswith("1 of 5 sentences were set aside")


def test_only_long_documents_are_folded() -> None:
    assert [document["isLong"] for document in to_view_data(long_document())["documents"]] == [True, False]


def test_without_script_the_answer_has_its_footnotes() -> None:
    texts = Reader(render_fragment(make_citations())).texts
    assert QUESTION in texts["b"]
    assert texts["sup"][0] == "[1] [2]"
    assert any("(not from the documents)" in text for text in texts["em"])
    items = [text for text in texts["li"] if text.strip()]
    assert items[0].startswith("clocks: “The museum of clocks opens at nine.” (redundant with [2], sufficient; removed")
    assert len(items) == 3


def test_fragments_of_both_kinds_share_a_document() -> None:
    text = render_fragment(make_citations()) + make()._repr_html_()
    assert text.count('data-view="reagentCitations"') == 2  # the element and its selector
    assert text.count('data-view="reagentView"') == 2
    assert not [attributes for _, attributes in Reader(text).elements if "id" in attributes]
    script = ASSETS.joinpath("citations.js").read_text(encoding="utf-8")
    assert re.findall(r"^(?:const|let|class|var|async)\b.*", script, re.M) == []
    assert re.findall(r"^function (\w+)", script, re.M) == ["reagentCitations"]
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|</script|<!--", script) == []


def test_the_style_touches_nothing_outside() -> None:
    css = re.sub(r"/\*.*?\*/", "", ASSETS.joinpath("citations.css").read_text(encoding="utf-8"), flags=re.S)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", css) for part in rule.split(",")]
    assert len(selectors) > 20
    assert [s for s in selectors if not s.startswith((".reagent ", "@media", "@container"))] == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("sentences", 0, "document"), "sentences must refer to one of the 3 documents"),
        (("parts", 0, "sentences", 0, "index"), "one of the 5 sentences"),
        (("parts", 0, "documents", 0, "index"), "one of the 3 documents"),
        (("pruned", "sentences", 0), "one of the 5 sentences"),
    ],
)
def test_a_file_whose_indices_lead_nowhere_is_rejected(path: tuple[str | int, ...], message: str) -> None:
    data = make_citations().to_dict()
    inner = data
    for key in path[:-1]:
        inner = inner[key]  # type: ignore[index]
    inner[path[-1]] = 99  # type: ignore[index]
    with pytest.raises(FileError, match=message):
        Citations.from_dict(data)


def test_a_file_that_leaves_out_a_sentence_is_rejected() -> None:
    data = make_citations().to_dict()
    data["whole"]["sentences"] = []  # type: ignore[index]
    with pytest.raises(FileError, match="an entry for each sentence"):
        Citations.from_dict(data)
