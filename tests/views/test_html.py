import json
import re
import subprocess
from dataclasses import replace
from importlib.resources import as_file
from pathlib import Path

import pytest

from reagent.explanation import Explanation, Token
from reagent.views.html import render_fragment, render_page, to_view_data
from reagent.views.text import sanitize
from views.browser import ASSETS, Drawn, Reader, draw, needs_node
from views.samples import (
    HOSTILE,
    NEEDLE,
    by_sentence,
    byte_pieces,
    chat,
    contested,
    contrast,
    every_kind,
    hostile,
    long_prompt,
    make,
    measured_order,
    phrase,
    pieces_of_words,
    with_what_if,
)


def data_of(text: str) -> dict[str, object]:
    [data] = re.findall(r'<script type="application/json" class="reagent-data">(.*?)</script', text, re.S)
    return json.loads(data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", every_kind())
def test_the_page_carries_the_data_and_no_other_elements(name: str) -> None:
    why = every_kind()[name]
    text = render_page(why)
    assert Reader(text).tags() == Reader(render_page(make())).tags()
    assert data_of(text) == json.loads(json.dumps(to_view_data(why)))
    text.encode("utf-8")


def test_hostile_text_cannot_leave_the_script_element() -> None:
    text = render_page(hostile())
    [data] = re.findall(r'class="reagent-data">(.*)</script>\n<script>', text)
    assert not set(data) & set("<>&\u2028\u2029")
    assert "alert(1)" in data
    assert "<script>alert" not in text
    assert data_of(text)["pieces"][1][0] == sanitize(HOSTILE)  # type: ignore[index]


def test_the_page_is_self_contained() -> None:
    text = render_page(make())
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    reader = Reader(text)
    assert not [attributes for _, attributes in reader.elements if {"src", "href"} & attributes.keys()]
    assert "link" not in reader.tags()


def test_the_page_has_its_metadata() -> None:
    reader = Reader(render_page(make(completion=" Tokyo & <b>more</b>")))
    elements = dict(reader.elements)
    assert elements["html"] == {"lang": "en"}
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in reader.elements
    assert reader.texts["title"][0] == "Why “Tokyo & <b>more</b>”?"
    assert "noscript" in reader.tags()


def test_the_title_is_the_question() -> None:
    assert Reader(render_page(phrase())).texts["title"][0] == "Why “downtown Tokyo”?"
    assert Reader(render_page(contrast())).texts["title"][0] == "Why “Tokyo” and not “Osaka”?"


def test_without_script_the_page_still_has_the_answer() -> None:
    assert "Why ·Tokyo? Most important tokens: ·Japan 0.51" in "".join(Reader(render_fragment(make())).texts["p"])
    text = "".join(Reader(render_fragment(by_sentence())).texts["p"])
    assert "Why Tokyo? Most important sentences: My aunt moved to Japan to teach music. 0.94" in text
    text = "".join(Reader(render_fragment(pieces_of_words())).texts["p"])
    assert "Why Tokyo!? Most important words: Japan 0.70, aunt 0.20, Her 0.10" in text
    assert "There is no output token to explain." in "".join(Reader(render_fragment(make(completion=""))).texts["p"])


def test_a_document_can_contain_several_fragments() -> None:
    reader = Reader(render_fragment(make()) + render_fragment(byte_pieces()))
    assert not [attributes for _, attributes in reader.elements if "id" in attributes]
    assert reader.tags().count("style") == 2
    assert {"html", "body", "head"}.isdisjoint(reader.tags())
    # A second declaration of a top-level `const` or `let` would be an error in the second fragment.
    scripts = ASSETS.joinpath("view.js").read_text() + ASSETS.joinpath("fragment.html").read_text()
    assert re.findall(r"^(?:const|let|class|var)\b.*", scripts, re.M) == []
    assert re.findall(r"^(?:async )?function (\w+)", scripts, re.M) == ["reagentParts", "reagentView", "reagentCompare"]


def test_the_style_touches_nothing_outside() -> None:
    css = re.sub(r"/\*.*?\*/", "", ASSETS.joinpath("view.css").read_text(), flags=re.S)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", css) for part in rule.split(",")]
    assert len(selectors) > 40
    assert [s for s in selectors if not s.startswith((".reagent ", "@media"))] == [".reagent", ".reagent", ".reagent"]


def test_data_becomes_text_never_markup() -> None:
    script = ASSETS.joinpath("view.js").read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|</script|<!--", script) == []


def test_the_data_have_every_row_and_its_warning() -> None:
    data = to_view_data(make(completion=" Tokyo, and", stderr=True, stopped=["condition", "maximum", "condition"]))
    whole, *rows = data["rows"]
    assert [row["isWhole"] for row in data["rows"]] == [True, False, False, False]
    assert [len(row["scores"]) for row in rows] == [data["inputs"] + t for t in range(3)]
    assert [row["start"] for row in rows] == [len(row["scores"]) for row in rows]
    assert len(whole["scores"]) == data["inputs"] == whole["start"]
    assert whole["end"] == data["inputs"] + 3
    for row in data["rows"]:
        assert len(row["stderr"]) == len(row["effects"]) == len(row["scores"])
    reason = "did not meet the stopping condition within the maximum number of steps."
    assert [row["warning"] for row in rows] == ["", f"This output {reason}", ""]
    assert whole["warning"] == f"',' {reason}"
    assert [row["probability"] for row in rows] == ["probability 54.7%"] * 3
    assert whole["probability"] == "probability 54.7% per token"
    assert data["tokens"][-1] == {"label": "·and", "short": "·and", "ids": (102,), "protected": False}


def test_long_explanations_stay_small() -> None:
    assert len(render_page(every_kind()["long"])) < 200_000


def test_a_notebook_gets_the_fragment(tmp_path: Path) -> None:
    why = make()
    assert why._repr_html_() == render_fragment(why)
    assert why.to_html(tmp_path / "why.html") == (tmp_path / "why.html").read_text(encoding="utf-8") == render_page(why)


def test_the_data_contain_the_open_ranks() -> None:
    assert to_view_data(contested())["rows"][0]["openRanks"] == ["1–2", "1–2", "", "4–5", "4–5"]
    assert to_view_data(make(effects=True))["rows"][0]["openRanks"] == []  # unknown without standard errors


@needs_node
def test_the_script_is_a_script() -> None:
    with as_file(ASSETS.joinpath("view.js")) as path:
        subprocess.run(["node", "--check", str(path)], check=True)


def drawn(why: Explanation, target: int | str = "") -> Drawn:
    return draw(to_view_data(why), target)


@needs_node
def test_an_open_rank_is_drawn_and_described_for_screen_readers() -> None:
    view = drawn(contested())
    places = [row.parts("number")[0] for row in view.parts("row")[1:]]
    assert [place.text() for place in places] == ["1–2", "1–2", "3", "4–5", "4–5"]
    assert [place.text(spoken=True) for place in places][1:3] == ["1 to 2, rank not settled", "3"]
    labels = [token.node["attributes"]["aria-label"] for token in view.parts("token")]
    assert ["(not settled)" in label for label in labels] == [True, True, False, True, True]
    assert "rank 1–2 of 5 (not settled)" in labels[0]
    assert "rank 3 of 5 " in labels[2]
    [first, second] = view.parts("note")
    assert first.text() == "a–b: rank not settled; the standard errors allow ranks a to b (95 %)"
    assert second.text().startswith("nats: removing the token")


@needs_node
def test_exact_effects_have_no_error_and_ranks_of_a_measured_order_are_plain() -> None:
    view = drawn(measured_order())
    places = [row.parts("number")[0].text() for row in view.parts("row")[1:]]
    assert places == ["1", "2", "3", "4", "5"]
    assert "effect (nats)" in [head.text() for head in view.parts("head")]
    assert "±" not in view.text()
    labels = [token.node["attributes"]["aria-label"] for token in view.parts("token")]
    assert "rank 2 of 5 · effect −0.1 nats" in labels[1]
    mixed = drawn(measured_order((0.0, 0.25, 0.0, 0.0, 0.0)))
    assert "effect ± stderr (nats)" in [head.text() for head in mixed.parts("head")]
    assert [row.parts("number")[-1].text() for row in mixed.parts("row")[1:3]] == ["+5.5", "−0.1 ± 0.3"]


@needs_node
def test_every_row_has_its_error_as_a_line() -> None:
    assert len(drawn(contested()).parts("line")) == 5
    assert drawn(make(effects=True)).parts("line") == []


@needs_node
def test_notes_are_drawn_only_where_they_are_needed() -> None:
    assert drawn(make()).parts("note") == []
    assert [note.text()[:5] for note in drawn(make(effects=True)).parts("note")] == ["nats:"]
    assert drawn(make(effects=True, effect_unit="g")).parts("note") == []


@needs_node
def test_an_open_ranking_is_a_milder_warning_than_a_failure() -> None:
    why = make(completion=" Tokyo, and", stderr=True, stopped=["settled", "unsettled", "flat"])
    view = drawn(why, target=2)
    assert [choice.text() for choice in view.parts("choice")] == ["whole answer⚠", "·Tokyo", ",≈", "·and⚠"]
    assert [choice.text(spoken=True) for choice in view.parts("choice")][2:] == [
        ",ranking still open",
        "·andhas a warning",
    ]
    assert view.parts("question")[0].text() == "The answer: choose a token (≈ ranking still open)"
    assert view.parts("caution")[0].text().startswith("≈ This output has a ranking that was still open")
    assert drawn(why, target=3).parts("caution")[0].text().startswith("⚠ This output was made more likely by no part")
    assert drawn(why, target=1).parts("caution")[0].text() == ""
    whole = drawn(why).parts("caution")[0].text()
    assert whole.startswith("⚠ ',' has a ranking that was still open")
    assert "' and' was made more likely by no part" in whole
    open_only = replace(why, cost=replace(why.cost, stopped=("settled", "unsettled", "unsettled")))
    assert drawn(open_only).parts("caution")[0].text().startswith("≈ 2 of 3 output tokens: ranking still open")
    assert drawn(open_only).parts("choice")[0].text() == "whole answer≈"


@needs_node
def test_a_measured_answer_has_only_its_own_warning() -> None:
    why = pieces_of_words()
    assert why.answer is not None
    why = replace(why, cost=replace(why.cost, stopped=("settled", "settled", "flat")))
    view = drawn(why)
    assert [choice.text() for choice in view.parts("choice")] == ["whole answer", "Tokyo", "!⚠"]
    assert view.parts("caution")[0].text() == ""
    view = drawn(replace(why, answer=replace(why.answer, stopped="unsettled")))
    assert view.parts("caution")[0].text().startswith("≈ This output has a ranking that was still open")


@needs_node
@pytest.mark.parametrize("name", ["no output", "no context", "zero", "hostile", "pieces", "coarse to fine"])
def test_odd_explanations_are_drawn(name: str) -> None:
    assert drawn(every_kind()[name]).text()


def rows(table: Drawn) -> list[list[str]]:
    return [[cell.text() for cell in row.parts("head") + row.parts("cell")] for row in table.parts("row")]


@needs_node
def test_sentences_are_called_sentences_and_shortened_in_the_table() -> None:
    view = drawn(by_sentence())
    [top] = view.parts("top")
    assert rows(top)[0][1] == "sentence"
    assert "reagent-wordy" in top.node["kind"]
    assert top.node["attributes"]["aria-label"] == "Most important sentences"
    assert view.parts("context")[0].node["attributes"]["aria-label"] == "Context sentences"
    assert view.parts("readout")[0].text().startswith("To see the numbers of a sentence")
    long = replace(by_sentence(), input=(replace(by_sentence().input[0], text="w " * 200), *by_sentence().input[1:]))
    [name] = drawn(long).parts("top")[0].parts("row")[1].parts("label")
    assert len(name.text()) < 50
    assert name.node["attributes"]["title"] == ("w " * 200).strip()


@needs_node
def test_only_a_newline_alone_has_a_mark() -> None:
    texts = [token.text() for token in drawn(make("a b:\n\nc\nd", "!")).parts("token")]
    assert texts == ["a", " b", ":", "⏎\n", "⏎\n", "c", "⏎\n", "d"]
    whole = [Token((1, 2), "a\nb", 0, 3)]
    assert [token.text() for token in drawn(make("a\nb", "!", input=whole)).parts("token")] == ["a\nb"]


@needs_node
def test_coarser_levels_are_above_the_table() -> None:
    view = drawn(long_prompt())
    table = rows(view.parts("levels")[0])
    assert [row[0] for row in table if row[1] == "score"] == ["paragraph", "sentence"]
    assert len(table) == 2 * (1 + 3)
    assert table[5] == ["The spare key for the cellar is … Mary left.", "0.273", "+1.972 ± 0.125"]  # of two tokens
    assert rows(drawn(long_prompt(), 1).parts("levels")[0])[5][1:] == ["0.273", "+0.991 ± 0.063"]
    assert drawn(every_kind()["words and levels"], 1).parts("levels")[0].text()  # beside a measured answer
    [name] = view.parts("levels")[0].parts("row")[5].parts("label")
    assert name.node["attributes"]["title"] == NEEDLE
    assert rows(view.parts("top")[0])[0][1] == "part"
    assert drawn(make()).parts("levels")[0].text() == ""


@needs_node
def test_a_long_prompt_is_whole_but_opens_at_what_is_important() -> None:
    why = long_prompt()
    [context] = drawn(why).parts("context")
    assert context.text().startswith(why.prompt)
    best = why.top(1)[0].position
    assert context.node["scrollTop"] == best > 0
    faint = [token for token in context.parts("token") if "reagent-faint" in token.node["kind"]]
    assert len(faint) == len(why.input) - 1


@needs_node
def test_a_sentence_of_the_outline_leads_to_its_strongest_part() -> None:
    why = long_prompt()
    view = draw(to_view_data(why), "", (".reagent-row", 7, "click"))  # another sentence than the strongest
    [name] = view.parts("levels")[0].parts("row")[7].parts("label")
    [current] = [token for token in view.parts("token") if "reagent-current" in token.node["kind"]]
    assert current.text().strip() == name.node["attributes"]["title"]
    assert view.parts("context")[0].node["scrollTop"] == int(current.node["attributes"]["data-position"])


@needs_node
def test_a_long_prompt_has_marks_where_it_is_shaded() -> None:
    why = long_prompt()
    [context] = drawn(why).parts("context")
    best = why.top(1)[0].position  # the samples have every token on its own line
    assert re.findall(r"transparent ([\d.]+)%, rgb", context.node["style"]["--ruler"]) == [
        f"{100 * best / (len(context.text()) - 996):.1f}"
    ]


@needs_node
def test_a_chat_is_drawn_message_by_message() -> None:
    view = drawn(chat())
    messages = view.parts("message")
    assert [message.parts("role")[0].text() for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [message.node["attributes"]["aria-label"] for message in messages][:2] == ["system", "user"]
    assert messages[1].parts("body")[0].text() == "My aunt moved to Japan. Where does she rent a flat?"
    assert messages[4].parts("answer")[0].text() == " Tokyo"
    assert "im_start" not in view.parts("context")[0].text()
    positions = {token.text(): token.node["attributes"]["data-position"] for token in view.parts("token")}
    assert positions[" Japan"] == "17"


@needs_node
def test_the_text_of_a_template_is_folded() -> None:
    view = drawn(chat())
    [template] = view.parts("template")
    assert template.parts("template-name")[0].text() == "template"
    assert template.parts("label")[0].text().startswith("<|im_start|>system⏎…<|im_end|>⏎")
    assert template.parts("template-text")[0].text().startswith("<|im_start|>system\n…<|im_end|>\n")
    assert drawn(make()).parts("template") == []


@needs_node
def test_a_character_is_drawn_as_one_piece_with_the_sum_of_its_tokens() -> None:
    view = drawn(byte_pieces())
    tokens = view.parts("token")
    assert [token.text() for token in tokens] == ["<s>", "a", "漢", " 👋", "!"]
    assert [token.node["attributes"]["data-positions"] for token in tokens] == ["0", "1", "2 3 4", "5 6 7", "8"]
    assert tokens[2].node["attributes"]["data-position"] == "2"
    assert "漢 (1/3), score 0.316 · rank 1 of 8 · all 3 tokens of this text: score 0.947" in tokens[2].text(spoken=True)
    assert view.parts("largest")[0].text() == "0.947"


@needs_node
def test_a_row_of_the_table_highlights_the_character_of_its_token() -> None:
    view = draw(to_view_data(byte_pieces()), "", (".reagent-row", 3, "click"))
    assert view.parts("row")[3].parts("name")[0].text() == "漢 (3/3)"
    assert [node.text() for node in view.parts("token") if "reagent-current" in node.node["kind"]] == ["漢"]
    assert view.parts("readout")[0].text().startswith("漢 (3/3) score 0.316")


@needs_node
def test_the_answer_is_a_whole_character() -> None:
    output = [Token((1,), "漢", 0, 1)] * 3 + [Token((2,), "!", 1, 2)]
    for target in range(1, 4):
        view = drawn(make("a", "漢!", output=output), target)
        assert view.parts("context")[0].text() == "a漢!"
        assert [part.text() for part in view.parts("answer")] == ["漢"]
        assert [part.text() for part in view.parts("later")] == ["!"]
    assert [token.text() for token in drawn(make("a", "漢!", output=output), 4).parts("token")] == ["a", "漢"]
    whole = drawn(make("a", "漢!", output=output))
    assert [part.text() for part in whole.parts("answer")] == ["漢", "!"]
    assert whole.parts("later") == []


@needs_node
def test_the_view_opens_on_the_requested_row() -> None:
    view = drawn(contrast())
    assert view.parts("heading")[0].text() == "Why ·Tokyo and not ·Osaka? (probability 54.7% against 4.5%)"
    assert [choice.node["attributes"]["aria-selected"] for choice in view.parts("choice")][:2] == ["false", "true"]
    assert view.parts("choice")[1].text() == "·Tokyo not ·Osaka"
    assert "the odds of ·Tokyo over ·Osaka" in view.parts("notes")[0].text()
    assert drawn(contrast(), target=0).parts("heading")[0].text() == "Why ·in? (probability 54.7%)"
    assert drawn(phrase()).parts("heading")[0].text().startswith("Why “downtown Tokyo”?")


@needs_node
def test_what_if_captions_are_drawn() -> None:
    lines = drawn(with_what_if()).parts("what-if-line")
    assert [line.text().partition("  ")[0] for line in lines] == ["·Tokyo", "·Tokyo", "·and"]
    lines = drawn(with_what_if(), target=1).parts("what-if-line")
    assert [line.text() for line in lines] == [
        "with ·Italy instead of ·Japan: ·Rome 31.0%, ·Milan 9.0%, … (·Tokyo 0.4%)",
        "without ·capital: ·Kyoto 25.0%, … (·Tokyo 20.0%)",
    ]
    assert lines[0].node["attributes"]["data-position"] == "4"
    assert drawn(with_what_if(), target=2).parts("what-if")[0].text() == ""


# --- the answer as a whole, in words ---


@needs_node
def test_the_whole_answer_comes_first_and_words_are_merged() -> None:
    view = drawn(pieces_of_words())
    assert view.parts("heading")[0].text() == "Why Tokyo!? (probability 54.7% per token)"
    assert view.parts("question")[0].text() == "The answer: choose a word"
    assert [choice.text() for choice in view.parts("choice")] == ["whole answer", "Tokyo", "!"]
    assert view.parts("choice")[0].node["attributes"]["aria-selected"] == "true"
    assert [part.text() for part in view.parts("token")] == ["Her", " aunt", " loves", " Japan"]
    assert [part.text() for part in view.parts("answer")] == [" Tokyo", "!"]
    assert [row[1:4] for row in rows(view.parts("top")[0])] == [
        ["word", "at", "score"],
        ["Japan", "3", "0.700"],
        ["aunt", "1", "0.200"],
        ["Her", "0", "0.100"],
    ]
    assert "Japan, score 0.700 · rank 1 of 4" in view.parts("token")[3].text(spoken=True)


@needs_node
@pytest.mark.parametrize("start", [0, 1])
def test_a_click_on_a_part_of_the_answer_chooses_it(start: int) -> None:
    data = to_view_data(pieces_of_words())
    kind = ".reagent-later" if start else ".reagent-answer"
    view = draw(data, start, (kind, 0 if start else 1, "click"))
    assert view.parts("heading")[0].text() == "Why !? (probability 54.7%)"
    assert [choice.node["attributes"]["aria-selected"] for choice in view.parts("choice")] == ["false", "false", "true"]
    assert [part.text() for part in view.parts("answer")] == ["!"]
    assert view.node == draw(data, 2).node


@needs_node
def test_a_click_chooses_a_part_where_there_is_no_whole_answer() -> None:
    view = draw(to_view_data(contrast()), 1, (".reagent-later", 0, "click"))
    assert view.parts("heading")[0].text().startswith("Why ,?")


@needs_node
def test_an_uncertain_effect_has_a_weaker_shade() -> None:
    def shades_of(why: Explanation) -> list[float]:
        return [float(token.parts("ink")[0].node["style"]["--weight"]) for token in drawn(why).parts("token")]

    shades = shades_of(pieces_of_words())
    certainty = 0.2**2 / (0.2**2 + 0.3**2)  # an effect of 0.2 ± 0.3
    assert shades[:2] == pytest.approx([certainty * 0.1 / 0.7, 0.2 / 0.7], abs=1e-3)  # the second is exact
    assert shades[3] == pytest.approx(9 / 9.02, abs=1e-3)
    assert shades_of(make("a b", "!", important="")) == [1.0, 1.0]  # without errors


@needs_node
def test_the_axis_of_the_effects_has_numbers() -> None:
    def ticks(why: Explanation) -> list[tuple[str, str]]:
        return [(tick.text(), tick.node["style"]["left"]) for tick in drawn(why).parts("tick")]

    assert ticks(contested()) == [("0", "0%"), ("5.80", "100%")]
    [low, zero, high] = ticks(replace(contested(), effects=((5.5, 5.4, -3.0, 0.4, 0.3),)))
    assert (low, zero[0], high) == (("−3.30", "0%"), "0", ("5.80", "100%"))
    # A number that would cover the 0 is left out.
    assert [tick for tick, _ in ticks(pieces_of_words())] == ["0", "3.14"]
    assert ticks(make(effects=True)) == []


@needs_node
def test_only_a_long_text_scrolls() -> None:
    def scrolls(why: Explanation) -> bool:
        return "reagent-scrolls" in drawn(why).parts("context")[0].node["kind"]

    assert not scrolls(pieces_of_words())
    assert not scrolls(make("Hi", "!"))
    assert scrolls(long_prompt())


def test_the_parts_of_an_answer_are_called_by_their_unit() -> None:
    assert to_view_data(pieces_of_words())["outputNoun"] == "word"
    assert to_view_data(pieces_of_words(), "token")["outputNoun"] == "token"
    requested = to_view_data(replace(contrast(), display_unit="word"))
    assert (requested["noun"], requested["outputNoun"]) == ("word", "token")
    assert [row["isWhole"] for row in requested["rows"]] == [False] * 4
