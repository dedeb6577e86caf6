import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from rich.cells import cell_len
from rich.console import Console

from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.views.terminal import show
from views.samples import HOSTILE, byte_pieces, contested, every_kind, make

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def render(why: Explanation, target: int | None = None, *, colour: bool = False, width: int = 80) -> str:
    file = StringIO()
    system = "truecolor" if colour else None
    show(why, target, Console(file=file, width=width, force_terminal=colour, color_system=system))  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("name", every_kind())
def test_no_line_is_too_long_and_no_escape_gets_through(name: str, colour: bool, width: int) -> None:
    why = every_kind()[name]
    for target in (None, *range(len(why.output))[:2]):
        text = COLOUR.sub("", render(why, target, colour=colour, width=width))
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert "\x1b" not in text
        assert "\u202e" not in text
        text.encode("utf-8")


def test_the_colours_are_ours_alone() -> None:
    assert COLOUR.search(render(make("\x1b[31mred", "!"))) is None


def test_markup_in_tokens_is_text() -> None:
    prompt = "[bold]a[/bold] [/] :smile:"
    assert f"⟦{prompt}⟧" in render(make(prompt, "!", input=[Token((1,), prompt, 0, len(prompt))]))
    assert "Why [red]?" in render(make("a", "[red]", output=[Token((1,), "[red]", 0, 5)]))


def test_without_colour_the_strongest_token_has_brackets() -> None:
    text = render(make())
    assert "moved to ⟦Japan⟧ to teach" in text
    assert text.count("⟦") == 2  # the token and the legend


def test_no_color_is_respected_by_a_colour_terminal() -> None:
    file = StringIO()
    show(make(), console=Console(file=file, width=80, force_terminal=True, color_system="truecolor", no_color=True))
    assert "⟦Japan⟧" in file.getvalue()


def test_with_colour_the_strongest_token_is_shaded_and_weak_ones_are_not() -> None:
    text = render(make(), colour=True)
    assert "⟦" not in text
    shaded = re.findall(r"\x1b\[[0-9;]*48;2;[0-9;]*m([^\x1b]+)", text)
    assert [word for word in shaded if word.strip()] == ["Japan"]


def test_one_output_token_is_shown_in_full() -> None:
    text = render(make())
    assert "Why ·Tokyo?  probability 54.7%" in text
    first = next(line.split() for line in text.splitlines() if "·Japan" in line)
    assert first[:4] == ["1", "·Japan", "4", "0.508"]
    assert "effect" not in text
    facts = " ".join(text.split()).partition("model ")[2]
    assert facts == (
        "smollm2 r1 float32 · method reagent fast · replacer self · seed 7 · cost 1,280 forward passes, 3.2 s"
    )


def test_effects_have_their_unit_and_their_errors_where_they_exist() -> None:
    assert "+1.93 ± 0.06" in render(make(stderr=True))
    assert "effect ± stderr (nats)" in render(make(stderr=True))
    assert "effect (nats)" in render(make(effects=True))
    assert "±" not in render(make(effects=True))


def test_many_output_tokens_get_one_line_each() -> None:
    text = render(every_kind()["long"])
    lines = [line.split() for line in text.splitlines() if re.match(r" *\d+ +·[a-j] ", line)]
    assert [line[1] for line in lines] == [f"·{letter}" for letter in "abcdefghij"]
    assert all(line[4] == "·w250" for line in lines)


def test_a_target_can_be_chosen_and_must_exist() -> None:
    why = make(completion=" Tokyo, and")
    assert "Why ·and?" in render(why, 2)
    assert "Why ·and?" in render(why, -1)
    assert "the capital, Tokyo, ▸ and" in " ".join(render(why, 2).split())
    with pytest.raises(InputError, match="no output token 3"):
        render(why, 3)


def test_warnings_are_shown_for_what_is_on_the_screen() -> None:
    why = make(completion=" Tokyo, and", stopped=["condition", "maximum", "condition"])
    assert "warning: ',' did not meet" in render(why)
    assert "warning: ',' did not meet" in render(why, 1)
    assert "warning" not in render(why, 0)
    assert [line.split()[:3] for line in render(why).splitlines() if line.startswith(" !")] == [["!", "1", ","]]


def test_warnings_with_the_same_reason_are_one_line() -> None:
    why = make(completion=" Tokyo, and she loves", stopped=["unsettled", "flat", "unsettled", "settled", "unsettled"])
    lines = [line for line in render(why, width=100).splitlines() if line.startswith("warning: ")]
    assert lines == [
        "warning: 3 of 5 output tokens: ranking still open; more probes may settle it",
        "warning: ',' was made likelier by no token: its scores are uniform and say nothing",
    ]
    assert "' Tokyo' has a ranking that was still open" in render(why, 0)
    assert re.findall(r"^ ([≈!]) (\d)", render(why), re.M) == [("≈", "0"), ("!", "1"), ("≈", "2"), ("≈", "4")]


@pytest.mark.parametrize("reason", ["settled", "fixed", "condition", "single"])
def test_what_ended_well_needs_no_words(reason: str) -> None:
    assert "warning" not in render(make(completion=" Tokyo, and", stopped=[reason] * 3))


def test_a_place_that_is_not_settled_has_a_sign_and_the_sign_a_legend() -> None:
    text = render(contested())
    assert re.findall(r"^ *(≈? *\d) +·?[a-e] ", text, re.M) == ["≈  1", "≈  2", "3", "≈  4", "≈  5"]
    assert "≈ place not settled: overlaps a neighbour within its error (95 %)" in text
    assert "≈" not in render(make(effects=True))  # no errors: nobody knows


def test_where_all_places_are_settled_nothing_is_marked() -> None:
    assert "≈" not in render(make("Hi", "!", stderr=True))


def test_equal_scores_have_no_settled_order() -> None:
    why = make("a b c", "!", stderr=True, stopped=["flat"])
    why = replace(why, scores=((1 / 3,) * 3,), effects=((-0.2, -3.0, -9.0),))
    assert why.settled() == (True, True, True)
    assert re.findall(r"^ *(≈? *\d) +·?[a-c] ", render(why), re.M) == ["≈  1", "≈  2", "≈  3"]


def test_the_overview_marks_places_too() -> None:
    text = render(make(completion=" Tokyo, and", stderr=True))
    assert re.findall(r"0\.\d\d.·Japan", text) == ["0.51 ·Japan", "0.50 ·Japan", "0.49 ·Japan"]
    assert "0.02≈My" in text
    assert text.count("≈ place not settled") == 1


def test_the_unit_is_explained_once_beside_the_numbers() -> None:
    note = "nats: without the token, the answer is e^effect times less likely"
    assert render(contested()).count(note) == 1
    assert note not in render(make())
    assert note not in render(make(effects=True, effect_unit="g"))
    assert note not in render(make(completion=" Tokyo, and", stderr=True))  # the overview shows no effects


def test_large_effects_keep_the_decimals_of_their_errors() -> None:
    why = replace(make("Hi", "!", stderr=True), effects=((12.344,),))
    assert "+12.34 ± 0.06" in render(why)


def test_pieces_of_a_character_are_told_apart_in_the_table() -> None:
    text = render(byte_pieces())
    assert [f"漢 ({i}/3)" in text for i in (1, 2, 3)] == [True] * 3
    assert text.count("漢") == 4  # once in the running text


def test_nothing_important_and_nothing_said_are_said_plainly() -> None:
    assert "No context token has any importance." in render(make(zero=True))
    assert "There is no output token to explain." in render(make(completion=""))


def test_a_pipe_that_cannot_write_unicode_gets_question_marks() -> None:
    pipe = TextIOWrapper(BytesIO(), encoding="ascii")
    show(byte_pieces(), console=Console(file=pipe, width=80))
    pipe.seek(0)
    assert "? (2/3)" in pipe.read()


def test_hostile_model_names_do_not_reach_the_terminal() -> None:
    text = render(make(model={"id": HOSTILE}))
    assert "␛[31mR" in text
    assert "\x1b" not in text
