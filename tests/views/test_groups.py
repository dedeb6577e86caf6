"""The sentences about groups and sufficiency, and their places in every view."""

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from reagent.comparison import Comparison
from reagent.explanation import Explanation, Group, Sufficiency, Token, WholeAnswer
from reagent.views import comparison, terminal
from reagent.views.groups import (
    LETTERS,
    describe_groups,
    describe_sufficiency,
    group_captions,
    group_letters,
    group_marks,
    superscript,
)
from reagent.views.html import render_fragment, to_view_data
from reagent.views.plots import CAUTION, _Plot, find_fonts
from reagent.views.summary import collect_warnings, plain_text
from views.browser import Drawn, Reader, draw, needs_node
from views.samples import by_methods, by_sentence, contrast, grouped, hostile, long_prompt, make

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIR = Group(units=(4, 11), kind="redundant", effect=7.91, stderr=0.42, single=1.2)
TEST = Sufficiency(units=(4, 11), effect=0.62, stderr=0.11, total=8.9, rank=0, passed=True)
FAILED = replace(TEST, effect=5.3, rank=12, passed=False)
NOT_SUFFICIENT = (
    "Not sufficient: the 2 most important tokens alone keep only 40 % of the answer (−5.3 ± 0.1 of −8.9 nats), "
    "and the answer falls to rank 13; something that matters was not found."
)


def sentences(why: Explanation, target: int | None = 0) -> list[str]:
    return [plain_text(caption) for caption in group_captions(why, target)]


def sentence_of(group: Group, why: Explanation | None = None) -> str:
    why = why or grouped()
    target = why.focus
    rows = [(group,) if t == target else () for t in range(len(why.output))]
    [text] = describe_groups(replace(why, groups=tuple(rows)), target)
    return plain_text(text.caption)


def verdict(test: Sufficiency | None, why: Explanation | None = None) -> str:
    why = why or grouped()
    rows = [test if t == why.focus else None for t in range(len(why.output))]
    text = describe_sufficiency(replace(why, sufficiency=tuple(rows)), why.focus)
    return "" if text is None else plain_text(text.caption)


# --- sentences ---


def test_a_sentence_names_the_members_and_the_joint_effect() -> None:
    assert sentences(grouped()) == [
        "ᵃ ·Japan (4) and ·Japan (11): either is enough; without both −7.9 ± 0.4 nats (one by one −1.2)",
        "ᵇ ·flat (19), ·capital (22) and “,” (23): each is needed; without all of them −5.2 nats (one by one −9.5)",
    ]


def test_the_wording_follows_the_kind_and_the_number_of_members() -> None:
    assert "and ·Japan (4): any one is enough; without all of them" in sentence_of(replace(PAIR, units=(0, 1, 4)))
    assert ": each is needed; without both" in sentence_of(replace(PAIR, kind="complementary"))
    many = sentence_of(replace(PAIR, units=tuple(range(9))))
    assert many.startswith("My (0), ·aunt (1), ·moved (2), ·to (3) and 5 more: any one is enough")


def test_numbers_have_the_figures_that_their_error_allows() -> None:
    assert "without both −7.9 nats (one by one −1.2)" in sentence_of(replace(PAIR, stderr=0.0))
    assert "(−0.6 of −8.9 nats)" in verdict(replace(TEST, stderr=0.0))
    assert "without both −7.91 ± 0.04 nats (one by one −1.20)" in sentence_of(replace(PAIR, stderr=0.04))
    assert "without both −7.9 nats (one by one 0.0)" in sentence_of(replace(PAIR, stderr=None, single=0.01))
    assert "without both +0.50 nats (one by one −1.20)" in sentence_of(replace(PAIR, effect=-0.5, stderr=None))
    other = replace(grouped(), effect_unit=None)
    assert "without both −7.9 ± 0.4 (one by one −1.2)" in sentence_of(PAIR, other)


def test_a_contrast_is_measured_in_log_odds() -> None:
    assert "without both −7.9 ± 0.4 nats in log-odds (one by one" in sentence_of(PAIR, contrast())
    assert "% of the log-odds (−0.6 ± 0.1 of −8.9 nats)" in verdict(TEST, contrast())


def test_long_units_are_shortened() -> None:
    assert sentence_of(replace(PAIR, units=(0, 1)), long_prompt()).startswith(
        "Nothing in this sentence number … stands here. (0) and Nothing in this sentence number … stands here. (1)"
    )


def test_each_group_has_its_letter_and_a_member_of_two_groups_has_two() -> None:
    groups = (PAIR, replace(PAIR, units=(0, 4)))
    why = grouped(groups=(groups,))
    assert group_letters(why, 0) == {4: "ab", 11: "a", 0: "b"}
    assert group_marks(why, 0) == {4: "ᵃᵇ", 11: "ᵃ", 0: "ᵇ"}
    assert group_letters(why, None) == {}
    assert len({superscript(letter) for letter in LETTERS + "0123456789"}) == 35


def test_without_groups_and_tests_there_is_no_text() -> None:
    for why in (make(), grouped(groups=((),), sufficiency=(None,)), make(completion=" Tokyo, and")):
        assert (sentences(why), sentences(why, None)) == ([], [])
        assert describe_sufficiency(why, 0) is None
        assert describe_sufficiency(why, None) is None


def test_the_test_has_one_sentence() -> None:
    passed = "Sufficient: the 2 most important tokens alone keep 93 % of the answer (−0.6 ± 0.1 of −8.9 nats)."
    assert verdict(TEST) == passed
    assert verdict(FAILED) == NOT_SUFFICIENT
    assert verdict(None) == ""
    assert "alone keep 90 % of the answer" in verdict(replace(FAILED, effect=0.89, rank=None))
    assert "rank" not in verdict(replace(FAILED, rank=0))


def test_units_that_are_not_the_most_important_are_named() -> None:
    assert verdict(replace(TEST, units=(4, 0))).startswith("Sufficient: ·Japan (4) and My (0) alone keep")
    assert verdict(replace(TEST, units=(1,))).startswith("Sufficient: ·aunt (1) alone keeps")
    assert verdict(replace(TEST, units=(0,)), by_sentence()).startswith("Sufficient: the most important sentence alone")


def test_a_test_without_units_or_without_a_total_has_a_sentence() -> None:
    nothing = replace(TEST, units=(), effect=0.2, total=0.2, stderr=None)
    assert verdict(nothing) == "Sufficient: no token is needed (without all of them −0.20 nats)."
    assert verdict(replace(nothing, passed=False, total=8.9)) == (
        "Not sufficient: no important token was found (without all of them −8.9 nats); "
        "something that matters was not found."
    )
    assert verdict(replace(TEST, total=-0.5, stderr=None)) == (
        "Sufficient: the 2 most important tokens alone change the answer by −0.62 nats (without all tokens +0.50)."
    )


def test_an_overview_joins_equal_groups_and_tests() -> None:
    why = grouped(" Tokyo, and")
    assert sentences(why, None) == [
        "·Japan (4) and ·Japan (11): either is enough (·Tokyo, “,”, ·and)",
        "·flat (19), ·capital (22) and “,” (23): each is needed (·Tokyo, “,”, ·and)",
    ]
    test = describe_sufficiency(why, None)
    assert test is not None
    assert plain_text(test.caption) == (
        "Sufficient: the most important tokens alone lead to each of the 3 parts of the answer."
    )
    failed = describe_sufficiency(replace(why, sufficiency=(TEST, None, FAILED)), None)
    assert failed is not None
    assert not failed.passed
    assert plain_text(failed.caption) == (
        "Not sufficient for 1 of 2 parts of the answer (·and): the most important tokens alone do not lead to it; "
        "something that matters was not found."
    )


def test_an_overview_of_many_groups_is_short() -> None:
    groups = tuple(replace(PAIR, units=(0, i)) for i in range(1, 13))
    lines = sentences(grouped(" Tokyo, and", groups=(groups, (), ())), None)
    assert len(lines) == 11
    assert lines[-1] == "and 2 more groups"


def test_a_failed_test_is_not_reported_twice() -> None:
    why = grouped(passed=False, stopped=["insufficient"])
    assert collect_warnings(why, 0) == collect_warnings(why, None) == []
    assert len(why.warnings) == 1
    assert len(collect_warnings(replace(why, sufficiency=None), 0)) == 1


# --- the terminal ---


def render(why: Explanation | Comparison, target: int | None = None, width: int = 300) -> str:
    console = Console(file=StringIO(), width=width)
    if isinstance(why, Comparison):
        comparison.show(why, target, console)
    else:
        terminal.show(why, target, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_terminal_marks_the_members() -> None:
    text = render(grouped())
    assert "moved to ⟦Japan⟧ᵃ to teach music. People in ⟦Japan⟧ᵃ are friendly. She rents a small flatᵇ in" in text
    assert [line.split()[1] for line in text.splitlines() if " 0.366 " in line] == ["·Japanᵃ", "·Japanᵃ"]
    assert text.index("ᵃ ·Japan (4) and") < text.index("Sufficient: the 2 most") < text.index("effect ± stderr")
    assert "warning" not in text


def test_the_terminal_reports_a_failed_test_first() -> None:
    lines = render(grouped(passed=False, stopped=["insufficient"])).splitlines()
    assert lines[1] == f"warning: {NOT_SUFFICIENT}"
    assert sum("warning" in line for line in lines) == 1
    overview = render(grouped(" Tokyo, and", passed=False)).splitlines()
    assert overview[0].startswith("warning: Not sufficient for 3 of 3 parts of the answer (·Tokyo, “,”, ·and)")
    assert [line.split()[:2] for line in overview if line.lstrip().startswith("!")] == [["!", str(t)] for t in range(3)]


def test_a_mark_of_a_newline_is_on_its_line() -> None:
    why = make("a\nb", "!", important="\n", groups=((replace(PAIR, units=(0, 1)),),))
    assert "aᵃ⟦⏎⟧ᵃ\n" in "\n".join(line.strip() for line in render(why).splitlines())


def test_members_are_not_abridged_in_a_long_text() -> None:
    why = long_prompt()
    minor = (0, 7)  # sentences without any importance
    marked = replace(why, groups=((replace(PAIR, units=minor),), *[()] * (len(why.output) - 1)))
    assert "sentence number 7 " not in render(why, 0)
    assert "sentence number 7 has to do with the question, and yet it stands here.ᵃ" in render(marked, 0)


def test_a_comparison_reports_each_method_in_the_terminal() -> None:
    whole, *others = by_methods(grouped(passed=False))
    text = render(Comparison([whole, *(replace(why, groups=(), sufficiency=None) for why in others)]))
    assert text.count("Not sufficient") == text.count("(4) and ·Japan (11): either") == 1
    assert text.index("Not sufficient") < text.index("⟦Japan⟧ᵃ to teach")


# --- HTML ---


def drawn(why: Explanation, target: int | str = "", *events: tuple[str, int, str]) -> Drawn:
    return draw(to_view_data(why), target, *events)


@needs_node
def test_the_view_marks_the_members_and_lists_the_groups() -> None:
    view = drawn(grouped())
    tokens = {part.node["attributes"]["data-position"]: part for part in view.parts("token")}
    letters = {i: part.node["attributes"].get("data-groups") for i, part in tokens.items()}
    assert {i: letter for i, letter in letters.items() if letter} == {
        "4": "a",
        "11": "a",
        "19": "b",
        "22": "b",
        "23": "b",
    }
    assert tokens["4"].text() == " Japana"
    assert ", group a," in tokens["4"].text(spoken=True).replace(" · ", ", ")
    lines = [part.text() for part in view.parts("group")]
    assert lines[0] == "a ·Japan (4) and ·Japan (11): either is enough; without both −7.9 ± 0.4 nats (one by one −1.2)"
    assert [part.text() for part in view.parts("sufficiency")] == [verdict(TEST)]
    assert view.parts("failure")[0].text() == ""
    assert not drawn(make()).parts("mark") + drawn(make()).parts("group")


@needs_node
def test_the_mark_is_on_the_line_of_its_unit() -> None:
    cut = [Token((1,), "a.\n\n", 0, 4), Token((2,), "\n", 4, 5), Token((3,), "b", 5, 6)]
    why = make("a.\n\n\nb", "!", input=cut, groups=((replace(PAIR, units=(0, 1)),),))
    assert [part.text() for part in drawn(why).parts("token")] == ["a.a\n\n", "⏎a\n", "b"]


@needs_node
def test_a_member_links_its_group() -> None:
    def linked(*events: tuple[str, int, str]) -> list[str]:
        view = drawn(grouped(), "", *events)
        return [part.text() for part in view.parts("linked") if "reagent-token" in part.node["kind"]]

    assert linked() == []
    assert linked((".reagent-group", 1, "mouseover")) == [" flatb", " capitalb", ",b"]
    assert linked((".reagent-token", 4, "mouseover")) == [" Japana", " Japana"]
    assert linked((".reagent-token", 4, "mouseover"), (".reagent-token", 5, "mouseover")) == []


@needs_node
def test_the_view_reports_a_failed_test_before_the_text() -> None:
    why = grouped(" Tokyo, and", passed=False, stopped=["insufficient"] * 3)
    overview = (
        "⚠ Not sufficient for 3 of 3 parts of the answer (·Tokyo, “,”, ·and): the most important tokens alone do not"
    )
    for target, failure in ((0, overview), (1, f"⚠ {NOT_SUFFICIENT}")):
        view = drawn(why, target)
        assert view.parts("failure")[0].text().startswith(failure)
        assert view.parts("caution")[0].text() == ""
        assert view.parts("sufficiency") == []
        flags = [part.text(spoken=True) for part in view.parts("flag")]
        assert flags == ["not sufficient"] * 4  # of the answer and of its parts
        kinds = [child["kind"].split()[0] for child in view.node["children"]]
        assert kinds.index("reagent-failure") < kinds.index("reagent-context") < kinds.index("reagent-groups")


@needs_node
def test_a_comparison_draws_groups_and_failures_of_each_method() -> None:
    whole, other, _ = by_methods(grouped(passed=False))
    view = draw(comparison.to_view_data(Comparison([whole, replace(other, groups=(), sufficiency=None)])))
    first, second = view.parts("method")
    assert (len(first.parts("group")), first.parts("failure")[0].text()) == (2, f"⚠ {NOT_SUFFICIENT}")
    assert (len(second.parts("group")), second.parts("failure")[0].text()) == (0, "")


def test_without_script_the_page_reports_groups_and_the_test() -> None:
    text = "".join(Reader(render_fragment(grouped(passed=False))).texts["p"])
    assert "(4) and ·Japan (11): either is enough; without both −7.9 ± 0.4 nats" in text
    assert NOT_SUFFICIENT in text
    text = "".join(Reader(render_fragment(grouped(" Tokyo, and", passed=False))).texts["p"])
    assert "·Japan (4) and ·Japan (11): either is enough (·Tokyo, “,”, ·and)" in text
    assert "Not sufficient for 3 of 3 parts of the answer" in text


# --- the answer as a whole ---


def measured(passed: bool = True) -> Explanation:
    """The answer has its own groups and its own test, and the tests of its parts fail."""
    why = grouped(" Tokyo, and", passed=False)
    row = why[0]
    test = replace(TEST, passed=passed, effect=TEST.effect if passed else 5.3)
    return replace(why, answer=WholeAnswer(row.scores, row.effects, row.stderr, row.groups[:1], test, "settled"))


def test_the_terminal_shows_the_groups_and_the_test_of_a_measured_answer() -> None:
    text = render(measured())
    answer, parts = text.split("The answer by tokens:")
    assert "moved to ⟦Japan⟧ᵃ to teach" in answer
    assert "ᵃ ·Japan (4) and ·Japan (11): either is enough; without both −7.9 ± 0.4 nats" in answer
    assert verdict(TEST) in answer
    assert "warning" not in answer
    assert "either is enough" not in parts
    assert parts.count("warning: Not sufficient for 3 of 3 parts of the answer") == 1  # the reason of the signs
    lines = render(measured(passed=False)).splitlines()
    assert lines[1].startswith("warning: Not sufficient: the 2 most important tokens alone keep only 40 %")


@needs_node
def test_the_view_shows_the_groups_and_the_test_of_a_measured_answer() -> None:
    view = drawn(measured())
    [group] = view.parts("group")
    assert group.text().startswith("a ·Japan (4) and ·Japan (11): either is enough")
    assert [part.text() for part in view.parts("sufficiency")] == [verdict(TEST)]
    assert view.parts("failure")[0].text() == ""
    assert len(view.parts("flag")) == 3
    assert len(drawn(measured(), 1).parts("group")) == 2


def test_a_figure_has_the_groups_and_the_test_of_a_measured_answer() -> None:
    figure = figure_of(measured(), None)
    assert "ufficient" not in figure.get_suptitle()
    below = " ".join(figure.get_supxlabel().split())
    assert verdict(TEST) in below
    assert below.count("either is enough") == 1
    assert "Warning: Not sufficient" in figure_of(measured(passed=False), None).get_suptitle()


# --- PNG, LaTeX, tables ---


def figure_of(why: Explanation, target: int | None = 0) -> "Figure":
    from matplotlib.figure import Figure

    figure, plot = Figure(), _Plot(why, *find_fonts())
    if target is None:
        plot.draw_answer(figure, _Plot(why.whole(), *find_fonts()))
    else:
        plot.draw_bars(figure, target)
    return figure


@pytest.mark.parametrize("target", [0, None])
def test_a_failed_test_is_in_the_title_of_the_figure(target: int | None) -> None:
    figure = figure_of(grouped(" Tokyo, and", passed=False), target)
    title = " ".join(figure.get_suptitle().split())
    assert "Warning: Not sufficient" in title
    assert title.endswith("something that matters was not found.")
    assert figure._suptitle.get_color() == CAUTION  # type: ignore[attr-defined]
    passed = figure_of(grouped(" Tokyo, and"), target)
    assert "ufficient" not in passed.get_suptitle()
    assert "Sufficient: the " in passed.get_supxlabel()


def test_a_figure_marks_the_members() -> None:
    figure = figure_of(grouped())
    names = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert [name for name in names if name[-1] in "ᵃᵇ"] == ["·Japanᵃ", "·Japanᵃ", "·flatᵇ", "·capitalᵇ", ",ᵇ"]
    assert "ᵃ ·Japan (4) and ·Japan (11): either is enough" in figure.get_supxlabel()
    assert "·Japan (4) and ·Japan (11): either" in figure_of(grouped(" Tokyo, and"), None).get_supxlabel()


def test_latex_has_marks_notes_and_warnings() -> None:
    whole, other, _ = by_methods(grouped(passed=False))
    text = Comparison([whole, replace(other, groups=(), sufficiency=None)]).to_latex()
    assert text.count(r"Japan}\textsuperscript{a}") == 2
    assert r"\footnotesize \textsuperscript{a}\textbf{\textperiodcentered{}Japan} (4) and" in text
    assert r"without both $-$7.9 $\pm$ 0.4 nats" in text
    assert text.index(r"\textbf{Warning:} Not sufficient: the 2 most") < text.index(r"\footnotesize")
    assert text.count("Not sufficient") == 1
    passed = Comparison([grouped(" Tokyo, and")]).to_latex()
    assert r"\footnotesize Sufficient: the most important tokens alone lead to each of the 3" in passed
    assert r"40 \% of the answer" in text


def test_hostile_text_in_sentences_is_sanitized() -> None:
    why = hostile()
    for text in (*sentences(why, 1), verdict(replace(FAILED, units=(0,)), why)):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_table_has_the_letters_of_the_groups() -> None:
    table = grouped(" Tokyo,").to_frame()
    first = table[table.target == 0]
    assert first.group.dropna().to_dict() == {4: "a", 11: "a", 19: "b", 22: "b", 23: "b"}
    assert make().to_frame().group.isna().all()
