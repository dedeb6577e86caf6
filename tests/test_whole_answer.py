"""The answer as a whole: one question for several output tokens, and larger units for display."""

from dataclasses import replace

import numpy as np
import pytest

from reagent import explain, load
from reagent.case import Floats, Ids
from reagent.comparison import Comparison
from reagent.errors import InputError, UnknownNameError
from reagent.explanation import Explanation, Group, Sufficiency, Token, WholeAnswer
from reagent.methods.surrogate import Surrogate
from reagent.metrics.explained_case import case_of
from reagent.testing import ScriptedModel
from reagent.testing.planted import mentions

WORDS = [f"w{i}" for i in range(20)]
PROMPT = " ".join(["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"] * 2)
TARGET = " w10 w11 w12"


def copier() -> ScriptedModel:
    """ "w10" needs word 3, "w11" needs word 9, and "w12" needs the output token before it."""
    causes = {16: (3, 4, 10), 17: (9, 2, 11), 18: (17, 11, 12)}

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = 2.0
        position, word, answer = causes.get(context.shape[1], (0, 1, 0))
        present = context[:, min(position, context.shape[1] - 1)] == word
        table[:, answer] = 6.0 * present
        return table

    return ScriptedModel(WORDS, logits)


def ask(**options: object) -> Explanation:
    return explain(copier(), PROMPT, target=TARGET, replacer="random", **options)  # type: ignore[arg-type]


def test_the_answer_is_a_target_of_its_own() -> None:
    why = ask()
    assert why.answer is not None
    assert {unit.position for unit in why.top(2)} == {3, 9}
    assert len(why.answer.scores) == len(why.input)
    assert why.answer.effects is not None
    assert sum(why.answer.scores) == pytest.approx(1)
    assert why.answer.sufficiency is not None


def test_only_the_prompt_is_removed_by_default() -> None:
    why = ask()
    assert why.attributes == "prompt"
    assert all(not any(row[len(why.input) :]) for row in why.scores)
    assert {unit.position for unit in why.top(20, target=2)} <= set(range(len(why.input)))
    assert case_of(why).protected[len(why.input) :].all()


def test_the_whole_context_on_request_and_as_published() -> None:
    why = ask(attribute_target=True)
    assert why.attributes == "context"
    assert why.top(1, target=2)[0].position == 17
    assert ask(preset="paper", max_steps=3).attributes == "context"
    assert ask(target_span="w11").attributes == "context"


def test_the_probes_serve_the_answer_and_not_its_tokens() -> None:
    assert ask().cost.probes < ask(attribute_target=True).cost.probes


def test_each_token_of_an_answer_is_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, partial = [], []
    fit = Surrogate.fit
    monkeypatch.setattr(Surrogate, "fit", lambda removed, *others: fits.append(len(removed)) or fit(removed, *others))
    why = ask(on_progress=lambda progress: partial.append(progress.partial))
    assert fits[-3:] == [why.cost.probes + 1] * 3
    first = next(explanation for explanation in partial if explanation is not None)
    assert first.cost.stopped == ("unsettled",) * 3  # not yet estimated, which is not a flat row


def test_a_phrase_and_a_contrast_have_no_whole_answer() -> None:
    assert ask(target_span="w11").answer is None
    assert ask(contrast=" w10 w13").answer is None
    assert explain(copier(), PROMPT, target=" w10", replacer="random").answer is None


@pytest.mark.parametrize("method", ["occlusion", "lime", "shapley", "greedy", "random"])
def test_other_methods_are_summed_up(method: str) -> None:
    why = explain(copier(), PROMPT, target=TARGET, method=method)
    whole = why.whole()
    assert len(whole.output) == 1
    assert whole.output[0].text == TARGET
    assert sum(whole.scores[0]) == pytest.approx(1)
    if why.effects is not None:
        total = [sum(row[i] for row in why.effects) for i in range(len(why.input))]
        assert whole.effects is not None
        assert whole.effects[0] == pytest.approx(total)
    if method != "random":
        assert {unit.position for unit in why.top(2)} == {3, 9}


def test_a_redundant_fact_is_a_group_of_the_answer_and_of_its_token() -> None:
    prompt = "w1 w5 w2 w3 w4 w6 w7 w8 w9 w5 w13 w14 w15 w16 w17 w18"
    why = explain(mentions("w5", 6.0), prompt, target=" w0 w0")
    assert why.answer is not None
    assert [group.units for group in why.answer.groups] == [(1, 9)]
    assert [[group.units for group in groups] for groups in why.groups] == [[(1, 9)], [(1, 9)]]


# --- larger units ---

GROUP = Group(units=(0, 2), kind="redundant", effect=3.0, stderr=None, single=0.1)
TEST = Sufficiency(units=(0, 1), effect=0.5, stderr=None, total=2.0, rank=0, passed=True)


def of_pieces() -> Explanation:
    """Two words of two tokens each, and an answer of three tokens in two words."""
    why = ask()
    texts = ["un", "lucky", " un", "happy"]
    starts = np.cumsum([0, *map(len, texts)]).tolist()
    source = tuple(Token((i,), text, starts[i], starts[i + 1]) for i, text in enumerate(texts))
    output = (
        Token((7,), " so", 0, 3, logprob=-0.1),
        Token((8,), "ft", 3, 5, logprob=-0.2),
        Token((9,), "!", 5, 6, logprob=-0.3),
    )
    rows = ((0.4, 0.1, 0.4, 0.1), (0.1, 0.7, 0.1, 0.1, 0.0), (0.25, 0.25, 0.25, 0.25, 0.0, 0.0))
    effects = ((2.0, 0.0, 2.0, 0.0), (0.0, 1.0, -0.5, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    return replace(
        why,
        prompt="".join(texts),
        completion=" soft!",
        input=source,
        output=output,
        scores=rows,
        effects=effects,
        stderr=tuple(tuple(0.1 for _ in row) for row in rows),
        groups=((GROUP,), (), ()),
        sufficiency=(TEST, None, None),
        answer=WholeAnswer((0.3, 0.3, 0.2, 0.2), (2.0, 1.0, 1.5, 0.0), (0.3, 0.4, 0.0, 0.0), (GROUP,), TEST, "settled"),
    )


def test_words_keep_groups_and_the_answer() -> None:
    words = of_pieces().aggregate("word")
    assert [unit.text for unit in words.input] == ["unlucky", " unhappy"]
    assert [group.units for group in words.groups[0]] == [(0, 1)]
    assert words.sufficiency is not None
    assert words.sufficiency[0] is not None
    assert words.sufficiency[0].units == (0,)
    assert words.answer is not None
    assert words.answer.scores == pytest.approx((0.6, 0.4))
    assert words.answer.stderr == pytest.approx((0.5, 0.0))
    assert [group.units for group in words.answer.groups] == [(0, 1)]


def test_words_of_the_answer_add_up() -> None:
    words = of_pieces().aggregate("word", output=True)
    assert [unit.text for unit in words.output] == [" soft", "!"]
    assert words.output[0].logprob == pytest.approx(-0.3)
    assert words.effects is not None
    assert words.effects[0] == pytest.approx((3.0, 1.5))
    assert len(words.scores[1]) == 3
    assert all(sum(row) == pytest.approx(1) for row in words.scores)
    assert words.scores[0] == pytest.approx(((4 * 0.5 + 1 * 0.8) / 5, (4 * 0.5 + 1 * 0.2) / 5))
    assert words.whole().output[0].text == " soft!"


def test_a_group_inside_a_word_is_left_out() -> None:
    inside = replace(GROUP, units=(0, 1))
    assert replace(of_pieces(), groups=((inside,), (), ())).aggregate("word").groups[0] == ()


def test_the_whole_answer_is_written_and_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    why = ask()
    assert load(why.save(tmp_path / "why.json")) == why


def test_a_file_without_the_answer_is_summed_up() -> None:
    data = ask(method="occlusion").to_dict()
    for name in ("answer", "attributes", "display_unit"):
        del data[name]
    old = Explanation.from_dict(data)
    assert old.attributes == "context"
    assert old.display_unit is None
    assert {unit.position for unit in old.top(2)} == {3, 9}


def test_a_wrong_answer_row_is_rejected() -> None:
    why = ask()
    assert why.answer is not None
    with pytest.raises(InputError, match="scores of the answer must have"):
        replace(why, answer=replace(why.answer, scores=(1.0,)))
    group = replace(GROUP, units=(0, len(why.input)))
    with pytest.raises(InputError, match="must refer to units of the prompt"):
        replace(why, answer=replace(why.answer, groups=(group,)))


def test_an_answer_of_one_word_keeps_its_measured_row() -> None:
    why = of_pieces()
    assert why.scores is not None
    one = replace(
        why,
        completion=" soft",
        output=why.output[:2],
        scores=why.scores[:2],
        effects=None if why.effects is None else why.effects[:2],
        stderr=None if why.stderr is None else why.stderr[:2],
        groups=((), ()),
        sufficiency=(None, None),
        cost=replace(why.cost, steps=(1, 1), stopped=("flat", "flat"), runs=()),
    )
    words = one.aggregate("word", output=True)
    assert [unit.text for unit in words.output] == [" soft"]
    assert words.scores[0] == pytest.approx((0.6, 0.4))
    assert words.cost.stopped == ("settled",)
    assert words.sufficiency is not None
    assert [group.units for group in words.groups[0]] == [(0, 1)]


def test_a_failed_test_of_a_token_is_that_of_its_word() -> None:
    failed = replace(TEST, passed=False)
    words = replace(of_pieces(), sufficiency=(TEST, failed, TEST)).aggregate("word", output=True)
    assert words.sufficiency is not None
    assert [test and test.passed for test in words.sufficiency] == [False, True]


def test_the_end_of_a_word_that_depends_on_nothing_is_no_warning() -> None:
    why = of_pieces()
    words = replace(why, cost=replace(why.cost, stopped=("settled", "flat", "flat"))).aggregate("word", output=True)
    assert words.cost.stopped == ("settled", "flat")


def test_equal_groups_of_words_are_one() -> None:
    other = replace(GROUP, units=(1, 3), effect=5.0)
    (group,) = replace(of_pieces(), groups=((GROUP, other), (), ())).aggregate("word").groups[0]
    assert (group.units, group.effect) == ((0, 1), 5.0)


def test_an_unknown_unit_of_a_view_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="'wrd'"):
        ask().to_html(unit="wrd")


def test_explanations_with_other_display_units_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    words, pieces = replace(of_pieces(), display_unit="word"), replace(of_pieces(), display_unit=None)
    for pair in ((words, pieces), (pieces, words)):
        Comparison(pair).show()
        assert "soft!?" in capsys.readouterr().out
