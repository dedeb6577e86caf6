"""Tracing: shares along paths through the output, on a planted truth and against an explicit sum over paths."""

import itertools
import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import reagent
from reagent.errors import InputError
from reagent.explanation import Cost, Explanation, Message, StepUnit, Token
from reagent.schemas import read_schema
from reagent.testing import ScriptedModel, two_hops
from reagent.tracing import find_answer_span


def explanation(prompt: str, completion: str, scores: list[list[float]], **changes: object) -> Explanation:
    """An explanation with one token for each word."""

    def tokens(text: str, logprob: float | None = None) -> tuple[Token, ...]:
        words, end = [], 0
        for word in text.split():
            start, end = end, text.index(word, end) + len(word)
            words.append(Token((1,), text[start:end], start, end, logprob=logprob))
        return tuple(words)

    fields: dict[str, object] = {
        "prompt": prompt,
        "completion": completion,
        "input": tokens(prompt),
        "output": tokens(completion, -0.5),
        "scores": tuple(map(tuple, scores)),
        "model": {"id": "m", "revision": None, "dtype": None, "backend": "none"},
        "method": {"id": "reagent", "preset": "fast"},
        "replacer": None,
        "seed": 0,
        "cost": Cost(1, 1, 0.0, 1, 0, 0, (1,) * len(scores), ("single",) * len(scores)),
    }
    return Explanation(**(fields | changes))  # type: ignore[arg-type]


def random_scores(inputs: int, outputs: int, seed: int = 0) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(inputs + t)).tolist() for t in range(outputs)]


@pytest.mark.parametrize("prompt", ["x a3 y z", "x y. a3 z."])
def test_a_copied_copy_has_no_direct_share_and_all_of_the_traced_one(prompt: str) -> None:
    words = [*two_hops().vocabulary, "y.", "z."]
    model = ScriptedModel(words, two_hops().logits) if "." in prompt else two_hops()
    if "." in prompt:
        model.logits = lambda ids: np.pad(two_hops().logits(ids), ((0, 0), (0, 2)))
    why = reagent.explain(model, prompt, max_new_tokens=2, answer_span="c3")
    trace = why.trace
    assert trace is not None
    copied = next(i for i, token in enumerate(why.input) if token.text.strip() == "a3")
    assert trace.direct[copied] == 0
    assert trace.traced[copied] == pytest.approx(1)
    assert why.top(1)[0].position == copied
    assert [step.share for step in trace.steps] == [1.0]


def test_the_shares_are_the_sum_over_all_paths() -> None:
    inputs, outputs = 3, 5
    scores = random_scores(inputs, outputs)
    why = explanation("a b c", " d e f g h", scores).traced("h", step_unit="token")
    assert why.trace is not None
    for unit in range(inputs):
        total = 0.0
        for length in range(outputs):
            for steps in itertools.combinations(range(outputs - 1), length):
                path = [*reversed(steps)]
                nodes = [outputs - 1, *path]
                shares = [scores[t][inputs + s] for t, s in itertools.pairwise(nodes)]
                total += float(np.prod(shares)) * scores[nodes[-1]][unit]
        assert why.trace.traced[unit] == pytest.approx(total)
        assert why.trace.direct[unit] == pytest.approx(scores[-1][unit])
    assert sum(why.trace.traced) == pytest.approx(1)


@pytest.mark.parametrize("step_unit", ["sentence", "token"])
def test_what_flows_into_a_sentence_flows_out_of_it(step_unit: StepUnit) -> None:
    prompt, completion = "One two. Three four.", " Five six. Seven eight. Nine ten"
    trace = explanation(prompt, completion, random_scores(4, 6)).traced("ten", step_unit).trace
    assert trace is not None
    assert [part.text for part in trace.sources] == ["One two.", " Three four."]
    assert [part.text for part in trace.steps] == [" Five six.", " Seven eight.", " Nine"]
    last = len(trace.sources) + len(trace.steps)
    for number, part in enumerate((*trace.sources, *trace.steps)):
        leaving = sum(flow.share for flow in trace.flows if flow.source == number)
        arriving = sum(flow.share for flow in trace.flows if flow.target == number)
        assert part.share == pytest.approx(leaving)
        assert arriving == pytest.approx(0 if number < len(trace.sources) else leaving)
    assert sum(flow.share for flow in trace.flows if flow.target == last) == pytest.approx(1)
    direct = sum(flow.share for flow in trace.flows if flow.target == last and flow.source < len(trace.sources))
    assert sum(trace.direct) == pytest.approx(direct)


def test_tokens_after_the_answer_and_inside_it_are_no_reasoning() -> None:
    scores = random_scores(2, 4)
    trace = explanation("a b", " c d e f", scores).traced("d e").trace
    assert trace is not None
    assert (trace.answer.text, [step.text for step in trace.steps]) == (" d e", [" c"])
    without_last = explanation("a b", " c d e", scores[:3]).traced("d e").trace
    assert without_last is not None
    assert without_last.traced == trace.traced
    assert trace.logprob == pytest.approx(-1.0)


def test_the_answer_is_the_last_mention_or_the_last_sentence() -> None:
    assert find_answer_span(" 4 it is. So 4", "4") == (13, 14)
    why = explanation("a b", " c d. e f", random_scores(2, 4))
    assert why.traced().trace.answer.text == " e f"  # type: ignore[union-attr]
    asked = replace(why, target={"kind": "span", "index": 1, "text": "d."})
    assert asked.traced().trace.answer.text == " d."  # type: ignore[union-attr]


def test_a_traced_explanation_is_one_row_over_the_prompt() -> None:
    why = explanation("a b", " c d e", random_scores(2, 3))
    traced = why.traced("e")
    assert (len(traced), traced.output[0].text, traced.completion) == (1, " e", " c d e")
    assert traced.scores == (traced.trace.traced,)  # type: ignore[union-attr]
    assert traced.traced() is traced
    assert replace(why, trace=traced.trace).traced() == traced
    assert replace(why, trace=traced.trace).top(1) == traced.top(1)
    words = traced.aggregate("sentence")
    assert len(words.trace.traced) == len(words.input) == 1  # type: ignore[union-attr]


def test_a_sentence_rests_on_what_its_tokens_need_from_outside() -> None:
    """Each token needs the one before it most; only the effects of "b" and "c" on the sentence reach the prompt."""
    effects = ((0.1, 0.0, 0.0), (0.0, 3.0, 0.0, 9.0), (0.0, 0.0, 1.0, 0.0, 9.0), (0.0, 0.0, 0.0, 0.0, 0.0, 9.0))
    scores = [[value / sum(row) for value in row] for row in effects]
    why = explanation("a b c", " d e f g", scores, effects=effects, effect_unit="nats")
    by_sentence, by_token = (why.traced("g", unit).trace for unit in get_args(StepUnit))
    assert by_sentence is not None
    assert by_token is not None
    assert by_sentence.traced == pytest.approx([0.1 / 4.1, 3 / 4.1, 1 / 4.1])
    assert np.argmax(by_token.traced) == 0


def test_a_meaningless_row_on_a_path_is_told() -> None:
    scores = [[1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.25, 0.75]]
    cost = replace(explanation("a b", " c d e", scores).cost, stopped=("flat", "flat", "single"))
    trace = explanation("a b", " c d e", scores, cost=cost).traced("e").trace
    assert trace is not None
    assert trace.unreliable == pytest.approx(1.0)
    assert explanation("a b", " c d e", scores).traced("e").trace.unreliable == 0  # type: ignore[union-attr]


def test_the_parts_of_a_chat_are_sentences_of_its_messages() -> None:
    messages = (Message("user", 0, 8), Message("tool", 9, 20, name="clock"))
    prompt = "One two. Three four."
    trace = explanation(prompt, " Five", random_scores(4, 1), messages=messages).traced("Five").trace
    assert trace is not None
    assert [part.text for part in trace.sources] == ["One two.", "Three four."]


def test_larger_units_are_parts_themselves() -> None:
    units = (Token((1, 2), "One two.", 0, 8), Token((3,), " <s>", 8, 12, protected=True), Token((4,), " Six.", 12, 17))
    why = explanation("One two. <s> Six.", " Five", [[0.25, 0.0, 0.75]], input=units, unit="paragraph")
    trace = why.traced().trace
    assert trace is not None
    assert [(part.text, part.share) for part in trace.sources] == [("One two.", 0.25), (" Six.", 0.75)]


def test_rows_over_the_prompt_alone_cannot_be_traced() -> None:
    why = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2)
    with pytest.raises(InputError, match="`attribute_target`"):
        why.traced("c3")
    skipped = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2, stride=2, attribute_target=True)
    with pytest.raises(InputError, match="`stride` 1"):
        skipped.traced("c3")


def test_bad_answers_are_refused() -> None:
    why = explanation("a b", " c d e", random_scores(2, 3))
    with pytest.raises(InputError, match="`answer_span` 'z' is not in the output"):
        why.traced("z")
    with pytest.raises(InputError, match="not in the output"):
        reagent.explain(two_hops(), "x a3 y", max_new_tokens=2, answer_span="c4")
    with pytest.raises(InputError, match="`answer_span` ' ' is not in the output"):
        why.traced(" ")
    with pytest.raises(InputError, match="step unit"):
        why.traced("e", "word")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`contrast` or `answer_span`, not both"):
        reagent.explain(two_hops(), "x a3 y", answer_span="c3", contrast="c4")
    with pytest.raises(InputError, match="leave out `attribute_target`"):
        reagent.explain(two_hops(), "x a3 y", answer_span="c3", attribute_target=False)


def test_the_trace_is_part_of_the_json() -> None:
    why = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2, answer_span="c3")
    why = reagent.check_traced(two_hops(), why)
    assert Explanation.from_dict(json.loads(why.to_json())) == why
    assert "trace" not in read_schema("explanation")["required"]
    data = why.to_dict()
    del data["trace"]
    assert Explanation.from_dict(data).trace is None
    data = why.to_dict()
    data["trace"]["flows"][0]["target"] = 99
    with pytest.raises(InputError, match="must lead from one of its parts to a later one"):
        Explanation.from_dict(data)


# --- the check by regeneration ---


def test_without_the_source_the_answer_is_not_given() -> None:
    why = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2, answer_span="c3")
    checked = reagent.check_traced(two_hops(), why).trace
    assert checked is not None
    (check,) = checked.checks  # the other words have no share
    assert (check.text, check.share, check.produced) == (" a3", 1.0, False)
    assert "c3" not in check.completion
    assert check.logprob < checked.logprob - 5  # type: ignore[operator]


def test_a_part_that_the_new_reasoning_does_without_is_told() -> None:
    """The prompt names the fact twice. The trace of a hand-made row blames the first; the check denies it."""
    model = two_hops()
    why = reagent.explain(model, "a3 x a3", max_new_tokens=2, answer_span="c3")
    assert why.trace is not None
    blamed = replace(
        why,
        trace=replace(why.trace, traced=(1.0, 0.0, 0.0), sources=(replace(why.trace.sources[0], share=1.0),), flows=()),
    )
    (check,) = reagent.check_traced(model, blamed).trace.checks  # type: ignore[union-attr]
    assert check.produced
    assert check.logprob == pytest.approx(why.trace.logprob)


def test_a_check_needs_a_trace() -> None:
    why = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2)
    with pytest.raises(InputError, match="has no trace: explain with `answer_span`"):
        reagent.check_traced(two_hops(), why)
