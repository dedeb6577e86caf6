import json
import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from reagent import explain
from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.testing import ScriptedModel
from reagent.views.html import to_view_data
from reagent.views.terminal import show
from views.samples import (
    HOSTILE,
    NEEDLE,
    by_sentence,
    byte_pieces,
    chat,
    contested,
    contrast,
    every_kind,
    long_prompt,
    make,
    measured_order,
    phrase,
    pieces_of_words,
    units,
    with_what_if,
)

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


def test_escape_codes_in_the_prompt_have_no_effect() -> None:
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


def test_a_warning_of_a_part_is_not_one_of_the_answer() -> None:
    why = pieces_of_words()
    assert why.answer is not None
    one = replace(why, cost=replace(why.cost, stopped=("condition", "condition", "maximum")))
    [line] = [line for line in render(one, width=120).splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: '!' did not meet the stopping condition")
    [line] = [line for line in render(replace(one, answer=None), width=120).splitlines() if "warning: " in line]
    assert line.startswith("warning: '!' did not meet the stopping condition")
    both = replace(one, answer=replace(why.answer, stopped="flat"))
    lines = [line for line in render(both, width=120).splitlines() if line.startswith("warning: ")]
    assert lines[0].startswith("warning: the answer as a whole was made more likely by no part of the context")
    assert lines[1].startswith("warning: '!' did not meet")
    assert len(lines) == 2
    every = replace(one, cost=replace(why.cost, stopped=("maximum",) * 3, censored=2))
    text = " ".join(render(every).split())
    assert "warning: 2 of 2 parts of the answer: the stopping condition was not met" in text
    assert text.count("the server did not list the target in 2 answers") == 1


def test_warnings_with_the_same_reason_are_one_line() -> None:
    why = make(completion=" Tokyo, and she loves", stopped=["unsettled", "flat", "unsettled", "settled", "unsettled"])
    lines = [line for line in render(why, width=100).splitlines() if line.startswith("warning: ")]
    assert lines == [
        "warning: 3 of 5 output tokens: ranking still open; more probes may settle it",
        "warning: ',' was made more likely by no part of the context: its scores are uniform and meaningless",
    ]
    assert "' Tokyo' has a ranking that was still open" in render(why, 0)
    assert re.findall(r"^ ([≈!]) (\d)", render(why), re.M) == [("≈", "0"), ("!", "1"), ("≈", "2"), ("≈", "4")]


@pytest.mark.parametrize("reason", ["settled", "fixed", "condition", "single"])
def test_a_regular_end_has_no_warning(reason: str) -> None:
    assert "warning" not in render(make(completion=" Tokyo, and", stopped=[reason] * 3))


def test_open_ranks_are_shown_as_intervals() -> None:
    text = render(contested())
    assert re.findall(r"^ *([\d–]+) +·?[a-e] ", text, re.M) == ["1–2", "1–2", "3", "4–5", "4–5"]
    assert "a–b: rank not settled; the standard errors allow ranks a to b (95 %)" in text
    assert "not settled" not in render(make(effects=True))  # unknown without standard errors


def test_ranks_are_plain_and_aligned_where_they_do_not_follow_the_effects() -> None:
    text = render(measured_order((0.5,) * 5))
    assert re.findall(r"^ (\d) +·?[a-e] ", text, re.M) == ["1", "2", "3", "4", "5"]
    assert "not settled" not in text


def test_exact_effects_have_no_error() -> None:
    text = render(measured_order())
    assert "effect (nats)" in text
    assert "+12.0" in text
    assert "±" not in text


def test_effects_are_aligned_with_and_without_errors() -> None:
    text = render(measured_order((0.0, 0.25, 0.0, 0.0, 0.0)))
    assert "effect ± stderr (nats)" in text
    cells = [cell for line in text.splitlines() if (cell := re.search(r"[+-]\d+(\.)\d.*", line))]
    assert [cell[0].rstrip() for cell in cells] == ["+5.5", "-0.1 ± 0.2", "+12.0", "+0.4", "+0.3"]
    assert len({cell.start(1) for cell in cells}) == 1


def test_settled_ranks_are_not_marked() -> None:
    assert "–" not in render(make("Hi", "!", stderr=True))


def test_equal_scores_have_no_settled_order() -> None:
    why = make("a b c", "!", stderr=True, stopped=["flat"])
    why = replace(why, scores=((1 / 3,) * 3,), effects=((-0.2, -3.0, -9.0),))
    assert why.settled() == (True, True, True)
    assert re.findall(r"^ *([\d–]+) +·?[a-c] ", render(why), re.M) == ["1–3"] * 3


def test_the_overview_marks_open_ranks_too() -> None:
    text = render(make(completion=" Tokyo, and", stderr=True))
    assert re.findall(r"0\.\d\d.·Japan", text) == ["0.51 ·Japan", "0.50 ·Japan", "0.49 ·Japan"]
    assert "0.02≈My" in text
    assert text.count("≈ rank not settled") == 1


def test_the_unit_is_explained_once_beside_the_numbers() -> None:
    note = "nats: removing the token makes the answer e^effect times less likely"
    assert render(contested()).count(note) == 1
    assert note not in render(make())
    assert note not in render(make(effects=True, effect_unit="g"))
    answer, parts = render(make(completion=" Tokyo, and", stderr=True)).split("The answer by tokens:")
    assert answer.count(note) == 1
    assert "effect" not in parts.partition("rank not settled")[0]  # the parts show no effects


def test_large_effects_keep_the_decimals_of_their_errors() -> None:
    why = replace(make("Hi", "!", stderr=True), effects=((12.344,),))
    assert "+12.34 ± 0.06" in render(why)


def test_tokens_of_one_character_are_numbered_in_the_table() -> None:
    text = render(byte_pieces())
    assert [f"漢 ({i}/3)" in text for i in (1, 2, 3)] == [True] * 3
    assert text.count("漢") == 4  # once in the running text


def test_a_character_has_one_shade_for_all_its_tokens() -> None:
    text = render(byte_pieces())
    assert "a⟦漢⟧ 👋! ▸ ok" in text
    assert "(largest score 0.947 of 3 tokens)" in text
    shaded = re.findall(r"\x1b\[[0-9;]*48;2;[0-9;]*m([^\x1b]+)", render(byte_pieces(), colour=True))
    assert [part for part in shaded if part.strip()] == ["漢"]


def test_brackets_do_not_separate_letters_that_join() -> None:
    prompt = "من مدينة"
    cut = [Token((i,), character, i, i + 1) for i, character in enumerate(prompt)]
    assert "من مد⟦ينة⟧" in render(make(prompt, "!", input=cut, important="ة"))


def test_the_whole_answer_comes_first_and_words_are_merged() -> None:
    text = render(pieces_of_words())
    answer, parts = text.split("The answer by words:")
    assert answer.startswith("Why Tokyo!?  probability 54.7% per token\n")
    assert "Her ⟦aunt⟧ loves ⟦Japan⟧ ▸ Tokyo!" in answer
    assert "strongest words (largest score 0.700)" in answer
    table = [line.split() for line in answer.splitlines() if re.match(r" +[\d–]+ +\w+ +\d +0\.", line)]
    assert [(row[1], row[2], row[3]) for row in table] == [
        ("Japan", "3", "0.700"),
        ("aunt", "1", "0.200"),
        ("Her", "0", "0.100"),
    ]
    assert "+3.00 ± 0.14" in answer  # the sum of its tokens
    assert re.findall(r"^ +(\d) +(\S+) +(\S+%) +0\.\d\d.(\w+)", parts, re.M) == [
        ("0", "Tokyo", "29.9%", "Japan"),
        ("2", "!", "54.7%", "Japan"),  # the number of its token
    ]
    assert "·Ja" not in text
    assert "unit word" in " ".join(text.split())


def test_the_unit_of_the_view_can_be_chosen() -> None:
    file = StringIO()
    show(pieces_of_words(), console=Console(file=file, width=80), unit="token")
    answer, parts = file.getvalue().split("The answer by tokens:")
    assert re.search(r" pan +5 +0\.400", answer)
    assert "·To" in parts
    assert "Why ·To?" in render(pieces_of_words(), 0)  # a target is a token


def test_parts_of_an_answer_to_sentences_are_tokens() -> None:
    cut = by_sentence().input
    text = render(make(completion=" Tokyo, and", input=cut, important=cut[0].text, unit="sentence"))
    assert "The answer by tokens:" in text


def test_a_contrast_in_words_keeps_its_token() -> None:
    text = render(replace(contrast(), display_unit="word"))
    assert "Why Tokyo and not ·Osaka?" in text
    assert "⟦Japan⟧" in text


def test_coarser_levels_of_a_measured_answer_are_shown() -> None:
    for target in (None, 0):
        assert re.search(r"^ *sentence +The spare key", render(every_kind()["words and levels"], target), re.M)


def test_zero_scores_and_an_empty_output_have_a_message() -> None:
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


def test_sentences_are_called_sentences_and_shortened_in_the_table() -> None:
    text = render(by_sentence())
    assert "⟦My aunt moved to Japan to teach music.⟧ (Her old" in text
    assert "strongest sentences" in text
    assert re.search(r"^ *# +sentence ", text, re.M)
    assert re.search(r"^ *1 +My aunt moved to … music\. +0 ", text, re.M)
    assert "removing the sentence" in text
    assert "token" not in text


def test_a_shaded_sentence_stays_one_stretch_of_text() -> None:
    shaded = re.findall(r"\x1b\[[0-9;]*48;2;[0-9;]*m([^\x1b]+)", render(by_sentence(), colour=True))
    assert [part for part in shaded if part.strip()] == ["My aunt moved to Japan to teach music."]


def test_lines_inside_a_unit_break_without_marks() -> None:
    prompt = "def f():\n    return 1\n\nprint"
    text = render(make(prompt, "(", input=units(prompt, [(0, 21), (21, len(prompt))]), unit="paragraph"))
    assert "⟦def f():" in text
    assert "return 1⟧" in text
    assert "⏎" not in text.partition("strongest")[0]


def test_coarser_levels_of_a_long_prompt_are_above_its_parts() -> None:
    text = render(long_prompt(), 0)
    outline, table = text.partition(" part ")[::2]
    assert re.search(r"paragraph +Nothing in this .* … stands here\. +0\.\d+ +\+3\.\d+ ± 0\.06", outline)
    assert re.search(r"sentence +The spare key for the … Mary left\. +0\.\d+ +\+\d\.\d+ ± 0\.06", outline)
    assert "·piano" in table


def test_a_long_prompt_is_abridged() -> None:
    why = long_prompt()
    assert len(why.prompt) > 7000
    text = " ".join(render(why, 1).partition("strongest")[0].split())
    assert len(text) < 500
    assert text.count("…") == 2
    assert "cellar is taped under the ⟦piano⟧ stool, as it has" in text
    assert NEEDLE not in text  # it begins before the important part
    assert text.endswith("The key is under the ⟦piano⟧ ▸ stool ⟦ ⟧")


def test_a_chat_shows_roles_and_its_template_in_one_line() -> None:
    lines = [line.strip() for line in render(chat(), 0).splitlines()]
    start = lines.index("system     Answer in one word.⏎")
    assert lines[start + 1 : start + 6] == [
        "Be kind.",
        "user       My aunt moved to ⟦Japan⟧. Where does she rent a flat?",
        "assistant  In the countryside?",
        "user       No, in the capital:",
        "assistant  ▸ Tokyo",
    ]
    template = "template: <|im_start|>system⏎…<|im_end|>⏎<|im_start|>user⏎…<|im_end|>⏎<|im_…"
    assert [line for line in lines if "im_start" in line] == [template]
    assert [line.strip() for line in render(chat()).splitlines() if "im_start" in line] == [template]
    assert "template" not in render(make())
    assert re.search(r"·Japan +17 ", render(chat(), 0))  # its true position
    assert "assistant  ▸ Tokyo, dear\n" in re.sub(" +\n", "\n", render(chat()))


def test_the_requested_row_is_shown_in_full() -> None:
    assert "Why “downtown Tokyo”?  probability 54.7%" in render(phrase())
    assert "in ▸ downtown Tokyo" in " ".join(render(phrase()).split())
    assert "Why ·Tokyo and not ·Osaka?  probability 54.7% against 4.5%" in render(contrast())
    assert "the odds of ·Tokyo over ·Osaka e^effect times lower" in " ".join(render(contrast()).split())
    assert "Why ·in?" in render(contrast(), 0)


def test_what_if_captions_are_below_the_table() -> None:
    text = render(with_what_if(), 0)
    line = "with ·Italy instead of ·Japan: ·Rome 31.0%, ·Milan 9.0%, … (·Tokyo 0.4%)"
    assert text.index("20 more") < text.index(line) < text.index("without ·capital: ")
    assert "instead of" not in render(with_what_if(), 1)
    assert "·and  with ·Peru instead of ·Japan: ·and 50.0%, …" in render(with_what_if())


@pytest.mark.parametrize(("target", "count"), [(" a", 1), (" a b", 2)])
def test_every_view_says_that_a_run_stopped_before_its_first_step(target: str, count: int) -> None:
    model = ScriptedModel(["<s>", "a", "b", "c"], lambda context: np.zeros((len(context), 4)))  # all are as likely
    why = explain(model, "a b c", target=target, preset="paper", replacer="random")
    assert why.cost.stopped == ("start",) * count
    for view in (" ".join(why.warnings), " ".join(render(why).split()), json.dumps(to_view_data(why))):
        assert "only a random part of the context kept" in view
        assert "stopped before its first step and has random scores" in view
