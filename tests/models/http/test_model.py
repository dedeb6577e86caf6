"""A model behind an API is the model itself, as far as the API lets one see."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from models.http.conftest import Truth
from reagent.errors import CapabilityError, InputError
from reagent.explanation import Explanation
from reagent.models.http.model import HttpModel
from reagent.models.http.scoring import UNLISTED

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the"
QUICK: dict[str, Any] = {"max_new_tokens": 3, "replacer": "self", "probes": 24}


def assert_same(why: Explanation, truth: Explanation) -> None:
    assert [t.ids for t in why.input + why.output] == [t.ids for t in truth.input + truth.output]
    assert [(t.text, t.start, t.end) for t in why.output] == [(t.text, t.start, t.end) for t in truth.output]
    for name in ("scores", "effects", "stderr"):
        if getattr(truth, name) is not None:
            for row, other in zip(getattr(why, name), getattr(truth, name), strict=True):
                np.testing.assert_allclose(row, other, atol=1e-4)


@pytest.fixture
def connected(server: Callable[..., Any], truth: Truth) -> Callable[..., HttpModel]:
    """A model on a server that can do what it is told to."""

    def connect(tokenizer: bool = True, options: dict[str, Any] | None = None, **can: Any) -> HttpModel:
        more = {"tokenizer": str(truth.folder)} if tokenizer else {}
        model = reagent.load_model(server(**can)[0], **more, **options or {})
        assert isinstance(model, HttpModel)
        return model

    return connect


def test_options_may_be_numbers_of_numpy_and_paths(server: Callable[..., Any], truth: Truth) -> None:
    options = {"concurrency": np.int64(2), "top": np.int64(5), "timeout": np.float32(20)}
    model = reagent.load_model(server()[0], tokenizer=truth.folder, **options)
    assert isinstance(truth.folder, Path)
    assert model.info["top_logprobs"] == 5
    assert len(model.case(PROMPT, max_new_tokens=2).output) == 2


# --- the same explanation ---


@pytest.mark.parametrize(
    "can",
    [
        {},
        {"reports_ids_on_request": True},
        {"reports_ids_on_request": True, "prompt_logprobs": True},
        {"tokenize": None},
    ],
    ids=["echo", "ids", "prompt_logprobs", "local tokenizer"],
)
def test_through_an_echo_the_explanation_is_that_of_the_model_itself(
    connected: Callable[..., HttpModel], truth: Truth, can: dict[str, Any]
) -> None:
    model = connected(**can)
    here, there = reagent.explain(truth.local, PROMPT, **QUICK), reagent.explain(model, PROMPT, **QUICK)
    assert_same(there, here)
    assert there.cost.censored == 0
    # One request for each probe, one for the text as it stands and one for the proposals; equal texts are asked once,
    # and all targets of a text are scored by one request.
    assert 0.9 * QUICK["probes"] <= there.cost.requests <= QUICK["probes"] + 2


def test_the_published_method_too(connected: Callable[..., HttpModel], truth: Truth) -> None:
    paper: dict[str, Any] = {"preset": "paper", "max_steps": 8, "runs": 2, "max_new_tokens": 2, "replacer": "self"}
    for can in ({}, {"reports_ids_on_request": True, "prompt_logprobs": True}):
        why = reagent.explain(connected(**can), PROMPT, **paper)
        assert_same(why, reagent.explain(truth.local, PROMPT, **paper))
        assert why.cost.steps == reagent.explain(truth.local, PROMPT, **paper).cost.steps


def test_other_questions_too(connected: Callable[..., HttpModel], truth: Truth) -> None:
    model = connected(reports_ids_on_request=True)
    for question in (
        {"target": " river and", "contrast": " river bank"},
        {"target": " old town", "target_span": "old town"},
        {"max_new_tokens": 1, "units": "word"},
        {"max_new_tokens": 2, "method": "occlusion"},
    ):
        asked = {"replacer": "self", **question} | ({} if "method" in question else {"probes": 16})
        assert_same(reagent.explain(model, PROMPT, **asked), reagent.explain(truth.local, PROMPT, **asked))


def test_without_an_echo_it_is_bounded_and_counted(connected: Callable[..., HttpModel]) -> None:
    why = reagent.explain(connected(echo=False, most=5), PROMPT, **QUICK)
    assert why.cost.censored > 0
    assert any(f"in {why.cost.censored:,} answers" in line for line in why.warnings)
    assert why.cost.requests > 2 * QUICK["probes"], "a request for each probe and target"
    assert reagent.Explanation.from_dict(why.to_dict()) == why


@pytest.mark.parametrize("bias", ["biased", "unbiased"])
def test_a_bias_recovers_the_exact_values(connected: Callable[..., HttpModel], truth: Truth, bias: str) -> None:
    model = connected(echo=False, bias=bias, options={"recover": True})
    why = reagent.explain(model, PROMPT, **QUICK)
    assert_same(why, reagent.explain(truth.local, PROMPT, **QUICK))
    assert why.cost.censored == 0
    assert why.model["recover"] is True


@pytest.mark.parametrize(
    "can",
    [{}, {"reports_ids_on_request": True, "prompt_logprobs": True}, {"echo": False, "bias": "biased"}],
    ids=["echo", "prompt_logprobs", "next token"],
)
def test_deleted_units_are_left_out_of_the_request(
    connected: Callable[..., HttpModel], truth: Truth, can: dict[str, Any]
) -> None:
    model = connected(**can, options={"recover": True} if "bias" in can else {})
    for method in (
        {"method": "occlusion", "removal": "delete"},
        {"method": "lime", "samples": 12, "removal": "delete"},
    ):
        asked = {"max_new_tokens": 2, **method}
        assert_same(reagent.explain(model, PROMPT, **asked), reagent.explain(truth.local, PROMPT, **asked))


def test_texts_of_different_lengths_are_scored_as_one_by_one(connected: Callable[..., HttpModel]) -> None:
    for model in (connected(), connected(tokenizer=False, tokenize=None)):
        case = model.case(PROMPT, max_new_tokens=2)
        rows = [case.ids[2:], case.ids[1:], case.ids, np.delete(case.ids, 3)]
        positions = np.array([case.positions - len(case.ids) + len(row) for row in rows])
        together = model.score_ragged(rows, positions, case.targets)
        for i, row in enumerate(rows):
            alone = model.score(row[None], positions[i], case.targets)
            np.testing.assert_allclose(together.logprob[i], alone.logprob[0], atol=1e-6)
        # A text that ends right before its target: the token is requested with it.
        ends = model.score_ragged([case.ids[: case.positions[0]]], case.positions[None, :1], case.targets[:1])
        np.testing.assert_allclose(ends.logprob[0, 0], together.logprob[2, 0], atol=1e-4)


def test_words_of_a_server_that_does_not_report_tokens_can_be_deleted(connected: Callable[..., HttpModel]) -> None:
    model = connected(tokenizer=False, tokenize=None, echo=False)
    why = reagent.explain(model, PROMPT, max_new_tokens=1, method="exact", units="sentence")
    assert len(why.input) == 2
    assert why.cost.forward_passes == 1 + 1 + 3  # the text as it stands is repeated once


# --- single answers ---


@pytest.mark.parametrize("can", [{"most": 20}, {"most": 3}, {"echo": False, "most": 20}, {"echo": False, "most": 3}])
def test_every_answer_is_the_truth_or_a_bound(
    connected: Callable[..., HttpModel], truth: Truth, can: dict[str, Any]
) -> None:
    model = connected(**can)
    case = truth.local.case(PROMPT, target=" Tokyo and the")
    rng = np.random.default_rng(1)
    sequences = np.repeat(case.ids[None], 12, axis=0)
    ordinary = truth.local.ordinary_ids
    for row in sequences[1:]:
        row[rng.integers(0, len(case.ids), 3)] = rng.choice(ordinary, 3)
    real = truth.local.score(sequences, case.positions, case.targets)
    told = model.score(sequences, case.positions, case.targets)
    known = np.isclose(told.logprob, real.logprob, atol=1e-4)
    assert model.meter.censored == (~known).sum()
    assert (told.logprob >= real.logprob - 1e-4).all(), "a bound is never below the truth"
    assert ((told.rank == real.rank) | (told.rank == UNLISTED)).all()
    assert (told.rank[real.rank < 3] < 3).all(), "what is listed has its rank"
    if can.get("echo", True):
        assert known.all()


def test_prompts_as_text_are_read_by_the_server_alone(connected: Callable[..., HttpModel], truth: Truth) -> None:
    case = truth.local.case(PROMPT, target=" Tokyo and")
    real = truth.local.score(case.ids[None], case.positions, case.targets)
    for can in ({"ids": False}, {"ids": False, "tokenize": None}):
        told = connected(**can).score(case.ids[None], case.positions, case.targets)
        np.testing.assert_allclose(told.logprob, real.logprob, atol=1e-4)


def test_predictions_are_those_of_the_model(connected: Callable[..., HttpModel], truth: Truth) -> None:
    case = truth.local.case(PROMPT, target=" Tokyo")
    real = truth.local.predict(case.ids, 6)
    for can in ({}, {"echo": False}, {"reports_ids_on_request": True, "prompt_logprobs": True}):
        told = connected(**can).predict(case.ids, 6)
        np.testing.assert_array_equal(told.ids, real.ids)
        np.testing.assert_allclose(told.logprob, real.logprob, atol=1e-4)


# --- tokens ---


@pytest.mark.parametrize("tokenize", ["pieces", "ids"])
def test_tokens_of_the_server(connected: Callable[..., HttpModel], truth: Truth, tokenize: str) -> None:
    model = connected(tokenizer=False, tokenize=tokenize)
    for text in (PROMPT, "a 🙂 b\n\n\tc  漢字 é", " leading and trailing "):
        here, there = truth.local.case(text, target=" Tokyo and"), model.case(text, target=" Tokyo and")
        assert [t.ids for t in here.units] == [t.ids for t in there.units]
        assert [(t.start, t.end, t.text) for t in here.units if "\N{REPLACEMENT CHARACTER}" not in t.text] == [
            (t.start, t.end, t.text) for t in there.units if "\N{REPLACEMENT CHARACTER}" not in t.text
        ]
    assert model.info["tokens"] == "of the server"
    why, real = reagent.explain(model, PROMPT, **QUICK), reagent.explain(truth.local, PROMPT, **QUICK)
    assert [t.ids for t in why.output] == [t.ids for t in real.output]
    assert [t.logprob for t in why.output] == pytest.approx([t.logprob for t in real.output], abs=1e-4)


def test_tokens_by_their_text_where_only_an_echo_tells_them(connected: Callable[..., HttpModel], truth: Truth) -> None:
    model = connected(tokenizer=False, tokenize=None)
    assert model.info["tokens"] == "of the server, by their text"
    case, real = model.case(PROMPT, target=" Tokyo and"), truth.local.case(PROMPT, target=" Tokyo and")
    assert [(t.text, t.start, t.end) for t in case.units] == [(t.text, t.start, t.end) for t in real.units]
    told = model.score(case.ids[None], case.positions, case.targets)
    np.testing.assert_allclose(
        told.logprob, truth.local.score(real.ids[None], real.positions, real.targets).logprob, atol=1e-4
    )


def test_words_where_nobody_tells_the_tokens(connected: Callable[..., HttpModel], messages: list[str]) -> None:
    model = connected(tokenizer=False, tokenize=None, echo=False)
    assert "words are explained" in messages[-1]
    assert str(model.info["tokens"]).startswith("words")
    why = reagent.explain(model, PROMPT, **QUICK)
    assert [t.text for t in why.input][:6] == ["My", " aunt", " moved", " to", " Japan", " to"]
    assert "tokens" in why.to_html()
    again = connected(tokenizer=False, tokenize=None, echo=False)
    assert again.case(PROMPT, why.completion).input == why.input, "the same text has the same ids in every run"


# --- chats ---


def test_a_prompt_on_a_server_that_only_chats(connected: Callable[..., HttpModel]) -> None:
    model = connected(tokenizer=False, completions=False, chat=True, tokenize=None)
    why = reagent.explain(model, PROMPT, **QUICK)
    assert len(why.output) == 3
    assert why.prompt == PROMPT
    assert [t.text for t in why.input if t.protected] == ["user", "assistant"]
    assert why.model["backend"] == "http chat (next token)"
    replaced = [t.text for t in why.input if not t.protected]
    assert replaced[:3] == ["My", " aunt", " moved"]


def test_a_chat_that_does_not_go_on_is_scored_as_far_as_its_own_answer_is_the_same(
    connected: Callable[..., HttpModel],
) -> None:
    continuing = connected(tokenizer=False, completions=False, chat=True)
    model = connected(tokenizer=False, completions=False, chat=True, continues=False)
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is the flat?"}]
    why = reagent.explain(model, chat, max_new_tokens=3, probes=24)
    assert len(why.output) == 3
    assert why.model["backend"] == "http chat (greedy answer)"
    assert [why.prompt[m.start : m.end] for m in why.messages] == ["Be brief.", "Where is the flat?"]
    case, other = (one.chat(chat, target=why.completion) for one in (model, continuing))
    ours, theirs = case.with_logprobs(model), other.with_logprobs(continuing)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    shorter = case.ids[None, np.r_[0:3, 5 : len(case.ids)]]  # some words are deleted
    here, there = (one.score(shorter, case.positions - 2, case.targets) for one in (model, continuing))
    assert here.logprob[0, 0] == pytest.approx(there.logprob[0, 0], abs=1e-4)
    for t in range(1, 3):  # reached, or as in the unchanged prompt
        assert np.isclose(here.logprob[0, t], [there.logprob[0, t], ours.values[t]], atol=1e-4).any()
    assert why.cost.requests <= 24 + 3


def test_tools_need_a_template_that_is_known(connected: Callable[..., HttpModel]) -> None:
    model = connected(tokenizer=False, completions=False, chat=True)
    chat = [{"role": "user", "content": "What time is it?"}, {"role": "tool", "name": "clock", "content": "ten"}]
    for messages, tools in ((chat, None), (chat[:1], [{"name": "clock"}])):
        with pytest.raises(InputError, match="need the chat template of the model"):
            reagent.explain(model, messages, tools=tools, **QUICK)


def test_what_the_chat_is_sent(server: Callable[..., Any]) -> None:
    url, app = server(completions=False, chat=True, tokenize=None)
    model = reagent.load_model(url)
    assert isinstance(model, HttpModel)
    case = model.chat([{"role": "user", "content": "Where is it?"}], max_new_tokens=2)
    app.seen.clear()
    model.score(case.ids[None], case.positions, case.targets)
    sent = sorted((body["messages"] for _, body, _ in app.seen), key=len)
    user = {"role": "user", "content": "Where is it?"}
    assert sent == [[user], [user, {"role": "assistant", "content": case.output[0].text}]]


# --- metrics, limits, counting ---


def test_metrics_that_need_probabilities_only_run_and_others_say_why_not(
    connected: Callable[..., HttpModel],
) -> None:
    model = connected()
    why = reagent.explain(model, PROMPT, max_new_tokens=1, replacer="self", probes=16)
    found = reagent.evaluate(model, why, draws=2, probes=8, replacer="self")
    assert {result.metric for result in found.results} == {"comprehensiveness", "sufficiency", "lds"}
    assert all("reads embeddings" in skipped.reason for skipped in found.skipped if "soft" in skipped.metric)
    assert found.cost["requests"] > 0
    with pytest.raises(CapabilityError, match=r"soft_ns.*reads embeddings"):
        reagent.evaluate(model, why, ["soft_ns"])


def test_metrics_count_what_is_censored(connected: Callable[..., HttpModel]) -> None:
    model = connected(echo=False, most=1)
    why = reagent.explain(model, PROMPT, max_new_tokens=1, replacer="random", probes=16)
    found = reagent.evaluate(model, why, ["lds"], probes=8, replacer="random")
    assert found.cost["censored"] > 0
    assert any("did not list the target" in line for line in found.warnings)


@pytest.mark.parametrize(
    "can", [{"echo": False}, {"completions": False, "chat": True}, {}], ids=["words", "chat", "echo"]
)
def test_an_explanation_by_pieces_of_text_can_be_evaluated_in_another_run(
    connected: Callable[..., HttpModel], can: dict[str, Any]
) -> None:
    asked: Any = [{"role": "user", "content": PROMPT}] if "chat" in can else PROMPT
    model = connected(tokenizer=False, tokenize=None, **can)
    why = reagent.explain(model, asked, max_new_tokens=2, replacer="self", probes=8)
    saved = reagent.Explanation.from_dict(why.to_dict())
    found = reagent.evaluate(
        connected(tokenizer=False, tokenize=None, **can), saved, ["lds"], probes=8, replacer="self"
    )
    assert found.cost["requests"] > 8


def test_methods_that_look_inside_say_why_not(connected: Callable[..., HttpModel]) -> None:
    for method in ("input_x_gradient", "attention"):
        with pytest.raises(CapabilityError, match="http"):
            reagent.explain(connected(), PROMPT, method=method)


def test_a_target_that_is_not_listed_even_as_it_stands_is_told(connected: Callable[..., HttpModel]) -> None:
    why = reagent.explain(connected(echo=False, most=1), PROMPT, target=" Tokyo", replacer="random", probes=8)
    assert why.cost.unlisted >= 1
    assert any("even for the unchanged text" in line for line in why.warnings)


def test_a_prompt_that_is_too_long_is_one_clear_line(connected: Callable[..., HttpModel]) -> None:
    with pytest.raises(InputError, match=r"take \d+ tokens, and 'tiny' reads at most 128"):
        connected().case("word " * 200)
