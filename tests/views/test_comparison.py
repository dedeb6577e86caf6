import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from reagent.comparison import Comparison
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.views import html
from reagent.views.comparison import method_names, rank_correlation, show, to_view_data
from reagent.views.latex import FULL
from reagent.views.text import NEWLINE, SPACE, TAB, Kind, pieces_before, split_into_pieces
from views.browser import Drawn, Reader, draw, needs_node
from views.samples import (
    by_methods,
    by_sentence,
    byte_pieces,
    chat,
    contrast,
    every_kind,
    hostile,
    long_prompt,
    make,
    phrase,
    pieces_of_words,
)

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
KINDS = [name for name in every_kind() if name != "no output"]
THREE = make(completion=" Tokyo, and")


def render(whys: Sequence[Explanation], target: int | None = None, *, colour: bool = False, width: int = 100) -> str:
    file = StringIO()
    system = "truecolor" if colour else None
    console = Console(file=file, width=width, force_terminal=colour, color_system=system)  # type: ignore[arg-type]
    show(Comparison(whys), target, console)
    return file.getvalue()


def cells(text: str, name: str) -> list[str]:
    """The cells of the table's row with this name."""
    [line] = [line for line in text.splitlines() if line.startswith(f" {name} ")]
    return line.removeprefix(f" {name} ").split()


def latex_of(whys: Sequence[Explanation], target: int | None = None) -> str:
    return Comparison(whys).to_latex(target=target)


def data_for(whys: Sequence[Explanation]) -> list[dict[str, Any]]:
    return to_view_data(Comparison(whys))


# --- the object ---


def test_a_comparison_is_a_sequence_of_its_explanations() -> None:
    whys = by_methods(THREE)
    comparison = Comparison(whys)
    assert list(comparison) == list(comparison.explanations) == whys
    assert (len(comparison), comparison[-1], comparison[:2]) == (3, whys[2], tuple(whys[:2]))
    assert comparison.names == ("reagent fast", "input-x-gradient", "random")
    assert repr(comparison) == "<Comparison of ' Tokyo, and' on smollm2: reagent fast, input-x-gradient, random>"
    with pytest.raises(FrozenInstanceError):
        comparison.explanations = ()  # type: ignore[misc]


def test_the_json_form_is_a_list_of_explanations(tmp_path: Path) -> None:
    comparison = Comparison(by_methods(THREE))
    assert json.loads(comparison.to_json()) == comparison.to_dict() == [why.to_dict() for why in comparison]
    assert comparison.save(tmp_path / "all.json").read_text(encoding="utf-8") == comparison.to_json() + "\n"
    assert Comparison.load(tmp_path / "all.json") == comparison


@pytest.mark.parametrize("text", ["{}", "[]", '[{"schema": "reagent.explanation/1"}]'])
def test_other_files_are_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(FileError, match=r"other\.json': not a"):
        Comparison.load(tmp_path / "other.json")


def test_the_views_are_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = Comparison(by_methods(THREE))
    comparison.show(2)
    assert "Why ·and?" in capsys.readouterr().out
    assert comparison.to_html(tmp_path / "all.html") == (tmp_path / "all.html").read_text(encoding="utf-8")
    assert comparison.to_latex(tmp_path / "all.tex", 2) == (tmp_path / "all.tex").read_text(encoding="utf-8")
    fragment = comparison._repr_html_()
    assert fragment is not None
    assert fragment in comparison.to_html()
    assert "<html" not in fragment


def test_the_table_has_the_rows_of_every_explanation() -> None:
    comparison = Comparison([*by_methods(THREE), THREE.aggregate("sentence")])
    table = comparison.to_frame()
    assert list(table.columns) == ["method", *THREE.to_frame().columns]
    assert list(table.method.unique()) == list(comparison.names)
    for name, why in zip(comparison.names, comparison, strict=True):
        own = table[table.method == name]
        assert own.score.tolist() == why.to_frame().score.tolist()
    assert table.index.is_unique


# --- names and what can be compared ---


def named(method: str, preset: str | None = None, replacer: str | None = None) -> Explanation:
    return make(method={"id": method, "preset": preset}, replacer=None if replacer is None else {"id": replacer})


def test_a_name_is_as_short_as_it_can_be() -> None:
    assert method_names([named("reagent", "paper", "self"), named("lime", None, "self"), named("attention")]) == [
        "reagent paper",
        "lime",
        "attention",
    ]


def test_equal_names_are_distinguished() -> None:
    whys = [named("reagent", "fast", "self"), named("reagent", "fast", "pos"), named("reagent", "paper", "pos")]
    assert method_names(whys) == ["reagent fast self", "reagent fast pos", "reagent paper"]
    assert method_names([named("lime"), named("random"), named("lime")]) == ["lime (1)", "random", "lime (2)"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (make("Hi there", " Tokyo, and"), "prompt"),
        (make(completion=" Kyoto, and"), "output"),
        (THREE.aggregate("sentence"), "units of the prompt"),
        (replace(THREE, target={"kind": "contrast", "index": 0, "text": " Osaka"}), "target"),
    ],
)
def test_explanations_of_different_things_are_refused_in_one_line(other: Explanation, what: str) -> None:
    comparison = Comparison([THREE, other])
    for view in (comparison.show, comparison.to_html, comparison.to_latex):
        with pytest.raises(InputError, match=f"do not have the same {what}: explain one prompt") as caught:
            view()
        assert "\n" not in str(caught.value)
    assert comparison._repr_html_() is None


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="at least one explanation"):
        Comparison([])
    for view in (Comparison.show, Comparison.to_html, Comparison.to_latex):
        with pytest.raises(InputError, match="there is nothing to compare: these explanations have no output token"):
            view(Comparison(by_methods(make(completion=""))))
    with pytest.raises(InputError, match="no output token 3"):
        render(by_methods(THREE), 3)


def test_rank_correlation_is_the_correlation_of_mean_ranks() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.integers(0, 6, size=(2, 20))  # with ties
        ranks = [[(row < x).sum() + ((row == x).sum() + 1) / 2 for x in row] for row in (a, b)]
        assert rank_correlation(a.tolist(), b.tolist()) == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-12)


def test_rank_correlation_without_an_order_is_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rank_correlation([0.2, 0.2], [0.1, 0.9]) is None
        assert rank_correlation([0.1, 0.9], [0.2, 0.2]) is None
        assert rank_correlation([1.0], [1.0]) is None
        assert rank_correlation([], []) is None
        assert rank_correlation([0.1, 0.9], [0.9, 0.1]) == -1


# --- the terminal ---


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_no_line_is_too_long_and_no_escape_gets_through(name: str, colour: bool, width: int) -> None:
    whys = by_methods(every_kind()[name])
    for target in (None, -1):
        text = COLOUR.sub("", render(whys, target, colour=colour, width=width))
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert not set(text) & set("\x1b\u202e")
        text.encode("utf-8")


def test_each_method_shades_the_same_text_by_its_own_scale() -> None:
    text = render(by_methods(make()))
    assert text.startswith("Why ·Tokyo?  probability 54.7%\n")
    assert re.search(r"^  reagent fast +My aunt moved to ⟦Japan⟧ to teach music\.", text, re.M)
    assert re.search(r"^  input-x-gradient +⟦My⟧ ⟦aunt⟧ ⟦moved⟧ ⟦to⟧ Japan ⟦to⟧ teach", text, re.M)
    assert "⟦ ⟧ strongest tokens of each method" in text
    shaded = render(by_methods(make()), colour=True)
    assert "⟦" not in shaded
    assert len(re.findall(r"48;2;255;165;31m[^\x1b]*Japan", shaded)) == 2  # all are strongest where there is no order


def test_the_table_has_the_best_of_each_method_and_what_they_cost() -> None:
    text = render(by_methods(make()))
    assert cells(text, "·Japan") == ["4", "0.508", "0.001", "0.033"]
    rows = [line.split()[0] for line in text.partition("───")[2].splitlines()[1:] if line.strip()]
    assert rows[:4] == ["·Japan", "My", "·aunt", "·moved"]
    assert cells(text, "rank correlation") == ["1.00", "-1.00", "–"]
    assert cells(text, "forward passes") == ["1,280", "1", "0"]
    assert cells(text, "seconds") == ["3.21", "0.00", "0.00"]
    assert "rank correlation: Spearman’s, with reagent fast" in text
    assert "rank correlation" not in render([make()])


def test_the_first_of_a_method_is_bold() -> None:
    bold = re.findall(r"\x1b\[1m *(0\.\d+)", render(by_methods(make()), colour=True))
    assert bold == ["0.508", "0.034", "0.033"]


def test_many_methods_are_split_into_several_tables() -> None:
    whys = [replace(make(), method={"id": f"method-{i}", "preset": None}) for i in range(9)]
    text = render(whys, width=60)
    assert text.count("·Japan") == text.count("seconds") == 3
    assert [f"{i}" for i in range(9)] == re.findall(r"\d", " ".join(re.findall(r"^ token +at +(.*)$", text, re.M)))


def test_several_output_tokens_are_compared_as_a_whole() -> None:
    text = render(by_methods(THREE))
    assert text.startswith("Why “Tokyo, and”?  probability 54.7% per token\n")
    whole = THREE.whole()
    assert cells(text, "·Japan")[:2] == ["4", f"{whole.scores[0][4]:.3f}"]
    assert max(whole.scores[0]) == whole.scores[0][4]
    assert len(whole.scores[0]) == len(THREE.input)
    assert "Why ·and?" in render(by_methods(THREE), 2)
    assert "Why ·and?" in render(by_methods(THREE), -1)


def test_the_requested_row_is_shown() -> None:
    assert render(by_methods(contrast())).startswith("Why ·Tokyo and not ·Osaka?")
    assert render(by_methods(phrase())).startswith("Why “downtown Tokyo”?")


def test_warnings_name_their_method() -> None:
    whys = by_methods(THREE)
    whys[1] = replace(whys[1], cost=replace(whys[1].cost, stopped=("fixed", "maximum", "fixed")))
    assert "warning: input-x-gradient: ',' did not meet" in render(whys)
    assert "warning" not in render(whys, 0)


def test_of_a_measured_answer_only_its_own_warning_is_shown() -> None:
    why = pieces_of_words()
    assert why.answer is not None
    why = replace(why, cost=replace(why.cost, stopped=("maximum",) * 3))
    assert "warning" not in render([why])
    text = render([replace(why, answer=replace(why.answer, stopped="unsettled"))])
    assert "warning: reagent fast: ' Tokyo!' has a ranking that was still open" in text


def test_a_comparison_shows_words_and_the_measured_answer() -> None:
    text = render(by_methods(pieces_of_words()))
    assert text.startswith("Why Tokyo!?")
    assert cells(text, "Japan") == ["3", "0.700", "0.700", "0.700"]
    assert "·" not in text.partition("rank correlation")[0]


def test_shared_facts_are_printed_once() -> None:
    assert render(by_methods(make())).endswith("\nmodel smollm2 r1 float32 · seed 7\n")
    assert "replacer self · seed 7" in render([make(), named("lime", None, "self")])


# --- the page ---


def data_of(text: str) -> object:
    [data] = re.findall(r'<script type="application/json" class="reagent-data">(.*?)</script', text, re.S)
    return json.loads(data)


@pytest.mark.parametrize("name", KINDS)
def test_the_page_carries_the_data_and_no_other_elements(name: str) -> None:
    whys = by_methods(every_kind()[name])
    text = Comparison(whys).to_html()
    assert Reader(text).tags() == Reader(html.render_page(make())).tags()
    assert data_of(text) == json.loads(json.dumps(data_for(whys)))
    text.encode("utf-8")


def test_the_page_is_a_question_and_answers_without_script() -> None:
    reader = Reader(Comparison(by_methods(make())).to_html())
    assert reader.texts["title"][0] == "Why “Tokyo”?"
    assert "random: Why ·Tokyo? Most important tokens: My 0.03" in "".join(reader.texts["p"])


def test_hostile_names_are_text_on_the_page() -> None:
    text = Comparison(by_methods(hostile())).to_html()
    assert "<script>alert" not in text
    assert "http://" not in text


def block(view: Drawn, number: int) -> Drawn:
    return view.parts("method")[number]


def top(view: Drawn) -> list[list[str]]:
    return [[cell.text() for cell in row.parts("cell")][:2] for row in view.parts("top")[0].parts("row")]


@needs_node
def test_each_method_has_a_block() -> None:
    view = draw(data_for(by_methods(THREE)))
    heads = [part.parts("summary")[0].text() for part in view.parts("method")]
    assert heads == [
        "reagent fast 1,280 forward passes, 3.2 s",
        "input-x-gradient 1 forward pass, 0.00 s",
        "random 0 forward passes, 0.00 s",
    ]
    assert view.parts("heading")[0].text() == "Why “Tokyo, and”? (probability 54.7% per token)"
    assert top(block(view, 0)) == [["·Japan", "0.508"], ["My", "0.017"], ["·aunt", "0.017"]]
    assert top(block(view, 1))[0] == ["My", "0.034"]
    assert len({part.parts("context")[0].text() for part in view.parts("method")}) == 1
    titles = [token.node["attributes"]["title"] for token in block(view, 0).parts("token")]
    assert titles[3:5] == ["score 0.017", "score 0.508"]
    assert [part.text() for part in view.parts("full")] == ["", "", ""]


@needs_node
def test_one_choice_changes_all_blocks() -> None:
    view = draw(data_for(by_methods(THREE)), "", (".reagent-choice", 3, "click"))
    assert view.parts("heading")[0].text().startswith("Why ·and?")
    chosen = [choice.node["attributes"]["aria-selected"] for choice in view.parts("choice")]
    assert chosen == ["false", "false", "false", "true"]
    assert [part.parts("answer")[0].text() for part in view.parts("method")] == [" and"] * 3
    assert [len(part.parts("token")) for part in view.parts("method")] == [len(THREE.scores[2])] * 3


@needs_node
def test_an_opened_method_shows_its_whole_view_of_the_chosen_token() -> None:
    data = data_for(by_methods(THREE))
    opened = (".reagent-details", 1, "toggle")
    for events in ([opened, (".reagent-choice", 1, "click")], [(".reagent-choice", 1, "click"), opened]):
        [first, second, third] = draw(data, "", *events).parts("full")
        assert second.node == draw(data[1]["view"], 1).node | {"kind": "reagent-full"}
        assert first.text() == third.text() == ""
    assert draw(data, "", opened, opened).parts("full")[1].text() == ""


@needs_node
def test_warnings_are_in_the_block_of_their_method() -> None:
    whys = by_methods(THREE)
    whys[1] = replace(whys[1], cost=replace(whys[1].cost, stopped=("maximum", "unsettled", "fixed")))
    reason = "did not meet the stopping condition within the maximum number of steps"
    view = draw(data_for(whys), 1)
    cautions = [part.parts("caution")[0].text() for part in view.parts("method")]
    assert cautions == ["", f"⚠ This output {reason}.", ""]
    assert [choice.text() for choice in view.parts("choice")] == ["whole answer", "·Tokyo", ",", "·and"]
    [_, whole, _] = [part.parts("caution")[0].text() for part in draw(data_for(whys)).parts("method")]
    assert whole.startswith(f"⚠ ' Tokyo' {reason}. ',' has a ranking that was still open")


@needs_node
@pytest.mark.parametrize("name", ["no context", "zero", "hostile", "pieces", "chat", "contrast", "coarse to fine"])
def test_odd_explanations_are_drawn(name: str) -> None:
    whys = by_methods(every_kind()[name])
    view = draw(data_for(whys), "", (".reagent-details", 0, "toggle"))
    assert view.parts("heading")[0].text().startswith("Why ")
    assert view.parts("full")[0].node == draw(html.to_view_data(whys[0])).node | {"kind": "reagent-full"}


# --- LaTeX ---

BACK = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\textasciigrave{}": "`", r"\char34{}": '"', r"\{": "{", r"\}": "}",
    r"\$": "$", r"\&": "&", r"\#": "#", r"\_": "_", r"\%": "%", "-{}": "-", r"\ldots{}": "…",
    r"\textperiodcentered{}": SPACE, r"$\hookleftarrow$": NEWLINE, r"$\mapsto$": TAB,
    r"\newline\mbox{}": "\n", r"\penalty999 ": "", r"\ ": " ", "$-$": "−", r"$\pm$": "±",
}  # fmt: skip
BOX = r"\\colorbox\[rgb\]\{([\d.,]+)\}\{\\strut ((?:\\[{}]|\{\}|[^{}])*)\}"


def back(text: str) -> str:
    """The text that LaTeX prints; the escaped text must contain no other command."""
    parts = re.split("(" + "|".join(map(re.escape, BACK)) + ")", text)
    assert not [part for part in parts if part not in BACK and set(part) & set("\\{}$&#^_~%")]
    return "".join(BACK.get(part, part) for part in parts)


def rows_of(text: str) -> list[tuple[str, str]]:
    """The rows of the table: a name, and the text as LaTeX."""
    lines = text.partition(r"}\tabularnewline[4pt]" + "\n")[2].partition("\n\\end{tabular}")[0].splitlines()
    texts = [line.removesuffix(r"\tabularnewline[4pt]") for line in lines if not line.startswith(" & ")]  # no notes
    return [(name, body) for name, body in (text.split(r" & \raggedright\leavevmode ") for text in texts)]


def inked(text: str) -> str:
    """The text without spaces and without the marks of spaces."""
    return "".join(character for character in text if not character.isspace() and character not in NEWLINE + TAB)


@pytest.mark.parametrize("name", KINDS)
def test_the_table_is_latex_and_has_every_token(name: str) -> None:
    whys = by_methods(every_kind()[name])
    text = latex_of(whys, -1)
    assert text.encode("utf-8")
    assert "\n\n" not in text
    code = re.sub(r"\\[{}]", "", text)
    assert code.count("{") == code.count("}")
    rows = rows_of(text)
    assert [back(method) for method, _ in rows] == method_names(whys)
    pieces = pieces_before(len(whys[0].scores[-1]), split_into_pieces(whys[0]))
    roles = "".join(f"{piece.text}:" if piece.kind is Kind.ROLE else piece.text for piece in pieces)
    for _, body in rows:
        plain = re.sub(r"\\textit\{((?:[^{}]|\{\}|\\[{}])*)\}", r"\1", re.sub(BOX, r"\2", body))
        assert inked(back(re.sub(r"\\textsuperscript\{\w+\}", "", plain))) == inked(roles)
    notes = [line for line in text.splitlines() if line.startswith(" & ")]
    for note in notes:
        opening = r"^ & \\raggedright(\\footnotesize (\\textsuperscript\{\w+\})?|\\textbf\{Warning:\} )"
        body = re.sub(opening, "", note.removesuffix(r"\tabularnewline[4pt]"))
        back(re.sub(r"\\textbf\{((?:[^{}]|\{\}|\\[{}])*)\}", r"\1", body))


def test_a_character_is_one_box() -> None:
    assert boxes(byte_pieces())[2:4] == [("漢", "1,0.59,0.16"), ("👋", "1,0.986,0.972")]


@pytest.mark.parametrize("special", [*'\\{}$&#^_~%<>|"`', "--", "\n", "\t", "é漢👋ש"])
def test_every_special_character_is_escaped(special: str) -> None:
    why = make(f"a{special}b {special}", "!", method={"id": f"x{special.strip()}y", "preset": None})
    [(name, body)] = rows_of(latex_of([why]))
    assert inked(back(name)) == inked(f"x{special}y")
    assert inked(back(re.sub(BOX, r"\2", body))) == inked(why.prompt)


def boxes(why: Explanation, target: int | None = None) -> list[tuple[str, str]]:
    [(_, body)] = rows_of(latex_of([why], target))
    return [(word, colour) for colour, word in re.findall(BOX, body)]


def test_shades_are_shares_of_the_largest_score() -> None:
    colours = dict(boxes(make()))
    assert colours["Japan"] == ",".join(f"{value:g}" for value in FULL)
    assert [float(value) for value in colours["aunt"].split(",")] == pytest.approx(
        [1 - (1 - value) / 30 for value in FULL], abs=1e-3
    )
    assert {colour for _, colour in boxes(make(zero=True))} == {"1,1,1"}


def test_lines_can_break_between_words_and_where_there_is_no_space() -> None:
    [(_, body)] = rows_of(latex_of([make("a b,\n  c", "!")]))
    plain = re.sub(BOX, r"[\2]", body)
    assert plain == r"[a] [b]\penalty999 [,]\penalty999 [$\hookleftarrow$]\newline\mbox{}\penalty999 [\ ] [c]"
    words = [word for word, _ in boxes(by_sentence())]
    assert words[:3] == ["My", "aunt", "moved"]


def test_latex_says_what_it_needs_and_what_it_shows() -> None:
    text = latex_of(by_methods(THREE), 2)
    assert text.startswith(r"% Needs \usepackage{xcolor}.")
    assert r"\setlength{\fboxsep}{1pt}" in text
    assert r"{Why \textbf{\textperiodcentered{}and}?}" in text
    assert r"{Why \textbf{“Tokyo, and”}?}" in latex_of(by_methods(THREE))
    assert text.isascii()


def test_a_chat_names_its_roles() -> None:
    [(_, body)] = rows_of(latex_of([chat()], 0))
    assert body.startswith(r"\textit{system:} ")
    assert r"\newline\mbox{}\textit{user:} " in body
    assert "im_start" not in body


def test_a_long_prompt_is_set_whole() -> None:
    assert len(boxes(long_prompt(), 0)) > 1000
