"""The views of a prompt study: their sentences, the page, and what hostile texts cannot do."""

import json
import re
from dataclasses import replace

import pytest

import reagent
from reagent.prompt_study import MeanEffect, Study
from reagent.views.studies import details, headline, lose
from reagent.views.studies_page import render_page, template_pieces, to_view_data
from studies.planted import INPUTS, TEMPLATE, planted_model
from views.browser import Reader
from views.samples import HOSTILE


@pytest.fixture(scope="module")
def study() -> Study:
    return reagent.study(planted_model(), TEMPLATE, INPUTS, threshold=0.5)


def hostile(study: Study) -> Study:
    parts = tuple(replace(part, name=HOSTILE + part.name) for part in study.parts)
    inputs = tuple(replace(one, id=HOSTILE, answer=HOSTILE) for one in study.inputs)
    return replace(study, name=HOSTILE, template=HOSTILE + study.template, parts=parts, inputs=inputs, unit=HOSTILE)


def test_the_pieces_are_the_whole_template(study: Study) -> None:
    pieces = template_pieces(study)
    assert "".join(text for text, _ in pieces) == TEMPLATE
    assert [study.parts[i].name for _, i in pieces if i is not None] == [
        *("rules", "tone", "legal", "format", "again", "noise"),
        *("Say … :", "word", "Say … :"),
    ]


def test_the_page_carries_the_data_and_is_self_contained(study: Study) -> None:
    text = render_page(study)
    [data] = re.findall(r'<script type="application/json" class="reagent-data">(.*?)</script', text, re.S)
    assert json.loads(data) == json.loads(json.dumps(to_view_data(study)))
    assert not re.findall(r"https?://|url\(|@import", text)
    reader = Reader(text)
    assert {"link", "img", "iframe"}.isdisjoint(reader.tags())
    assert headline(study) in reader.texts["b"]


def test_hostile_text_stays_text(study: Study) -> None:
    text = render_page(hostile(study))
    assert "<script>alert" not in text
    assert "<img" not in text
    [data] = re.findall(r'class="reagent-data">(.*)</script>\n<script>', text)
    assert not set(data) & set("<>&\u2028\u2029")


def test_a_gain_is_written_as_a_gain(study: Study) -> None:
    assert lose(MeanEffect(-1.0, -3.0, 0.5, 9), study) == "gain 1.00 nats on average (95\xa0% interval −0.50 … 3.00)"
    assert lose(MeanEffect(1.0, None, None, 1), study) == "lose 1.00 nats on average"


def test_without_idle_parts_the_headline_says_so(study: Study) -> None:
    none = replace(study.removable, parts=())
    assert headline(replace(study, removable=none)).startswith("No part of 8 is certified idle, and 1 part matters")
    assert all(line.endswith(".") for line in details(study))
