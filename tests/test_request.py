"""Asked the way people ask: planted truths at every level, sums that add up, and bad questions refused in one line."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reagent import compare, explain
from reagent.case import Case, Floats, Ids
from reagent.errors import EmptyGenerationError, InputError, UnknownNameError
from reagent.explanation import Explanation, Group, Sufficiency, Token
from reagent.methods import Attention, Attribution, Lime, Occlusion, ReagentFast, ReagentPaper, make_method
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers.uniform import UniformReplacer
from reagent.testing.scripted import ScriptedModel

WORDS = [f"w{i}" for i in range(30)] + [f"w{i}." for i in range(30)]
SENTENCES = " ".join(f"w{i} w{i + 1} w{i + 2}." for i in range(0, 24, 3))  # 8 sentences of 3 words


def waits_for(cause: int, position: int, strength: float = 4.0) -> ScriptedModel:
    """Says "w0" while word `cause` stands at `position`, otherwise "w29"."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 29] = strength / 2
        if position < context.shape[1]:
            table[:, 0] = strength * (context[:, position] == cause)
        return table

    return ScriptedModel(WORDS, logits)


def first(why: Explanation) -> str:
    return why.top(1, why.focus)[0].token.text.strip()


# --- units ---


def test_the_sentence_that_matters_is_found() -> None:
    why = explain(waits_for(16, 16), SENTENCES, target=" w0", units="sentence", probes=60, replacer="random")
    assert first(why) == "w15 w16 w17."
    assert len(why.input) == 8
    assert [len(unit.ids) for unit in why.input] == [3] * 8
    assert why.unit == "sentence"


def test_the_word_that_matters_is_found() -> None:
    why = explain(waits_for(16, 16), SENTENCES, target=" w0", units="word", probes=120, replacer="random")
    assert first(why) == "w16"


def test_the_span_that_matters_is_found_and_the_rest_is_never_touched() -> None:
    model = waits_for(16, 16)
    begin = SENTENCES.index("w15")
    spans = [(0, 5), (begin, begin + 7)]
    seen: list[Ids] = []
    original = model.score
    model.score = lambda sequences, *rest: (seen.append(sequences), original(sequences, *rest))[1]  # type: ignore[method-assign]
    why = explain(model, SENTENCES, target=" w0", prompt_spans=spans, probes=20, replacer="random")
    assert first(why) == "w15 w16"
    assert [unit.text.strip() for unit in why.input if not unit.protected] == ["w0 w1", "w15 w16"]
    touched = {int(i) for batch in seen for i in np.flatnonzero((batch != batch[0]).any(0))}
    assert touched <= {0, 1, 15, 16}


def test_summed_words_are_the_sums_of_their_tokens(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "My aunt moved to Japan, unbelievably.", max_new_tokens=3, probes=32)
    words = why.aggregate("word")
    assert [unit.text for unit in words.input] == ["My", " aunt", " moved", " to", " Japan", ",", " unbelievably", "."]
    assert why.effects is not None
    assert words.effects is not None
    for t, (row, fine) in enumerate(zip(words.scores, why.scores, strict=True)):
        assert sum(row) == pytest.approx(1)
        assert row[len(words.input) :] == fine[len(why.input) :]
        for unit, score, effect in zip(words.input, row, words.effects[t], strict=False):
            inside = [i for i, token in enumerate(why.input) if unit.start <= token.start < unit.end]
            assert score == pytest.approx(sum(fine[i] for i in inside))
            assert effect == pytest.approx(sum(why.effects[t][i] for i in inside))
    with pytest.raises(UnknownNameError, match="'verse'"):
        why.aggregate("verse")


@pytest.mark.parametrize("unit", ["token", "word", "sentence", "paragraph"])
@pytest.mark.parametrize(
    "text",
    [
        "Tab\there,\r\nand a Windows line.\r\n\r\nNext one.",
        "Ünï­cöde e\u0301 a\u0308, 日本に住む。東京です。 👩‍👩‍👧‍👦🇯🇵 fin",
        "العربية ثم English ثم हिन्दी।",
        "for x in y:\n    print(x)\n",
    ],
)
def test_any_text_can_be_cut_into_units(tiny_model: HuggingFaceModel, text: str, unit: str) -> None:
    why = explain(tiny_model, text, max_new_tokens=1, units=unit, probes=8)
    assert sum(why.scores[0]) == pytest.approx(1)
    shown = 0
    for piece in why.input:
        assert piece.text == text[piece.start : piece.end]
        assert piece.start <= shown
        shown = max(shown, piece.end)
    assert shown == len(text)


# --- coarse to fine ---


def test_coarse_to_fine_finds_the_sentence_and_then_the_word() -> None:
    why = explain(waits_for(16, 16), SENTENCES, target=" w0", units=["sentence", "word"], probes=80, replacer="random")
    assert why.cost.probes == 80
    assert first(why) == "w16"
    (level,) = why.levels
    assert level.unit == "sentence"
    coarse = dict(zip((unit.text.strip() for unit in level.units), level.scores[0], strict=True))
    assert max(coarse, key=lambda text: coarse[text]) == "w15 w16 w17."
    # The scores add up across levels.
    assert sum(why.scores[0]) == pytest.approx(1)
    for unit, score in zip(level.units, level.scores[0], strict=True):
        inside = [s for part, s in zip(why.input, why.scores[0], strict=True) if unit.start <= part.start < unit.end]
        assert sum(inside) == pytest.approx(score)


def test_a_protected_word_in_a_sentence_that_is_opened_scores_nothing() -> None:
    class Protects(ScriptedModel):
        def _tokens(self, text: str) -> tuple[Token, ...]:
            return tuple(replace(token, protected=token.text.strip() == "w15") for token in super()._tokens(text))

    model = Protects(WORDS, waits_for(16, 16).logits)
    why = explain(model, SENTENCES, target=" w0", units=["sentence", "token"], probes=80, replacer="random")
    assert first(why) == "w16"
    assert sum(why.scores[0]) == pytest.approx(1)
    assert why.effects is not None
    protected = next(i for i, unit in enumerate(why.input) if unit.protected)
    assert why.input[protected].text == " w15"
    assert why.scores[0][protected] == why.effects[0][protected] == 0


def test_passage_then_sentence_then_word() -> None:
    half = SENTENCES.index(" w12")
    spans = [(0, half), (half, len(SENTENCES))]
    levels = ["span", "sentence", "word"]
    why = explain(
        waits_for(16, 16), SENTENCES, target=" w0", prompt_spans=spans, units=levels, probes=120, replacer="random"
    )
    assert first(why) == "w16"
    assert [level.unit for level in why.levels] == ["span", "sentence"]
    assert why.levels[0].scores[0][1] > why.levels[0].scores[0][0]


def test_sentences_and_words_inside_spans_only() -> None:
    spans = [(0, SENTENCES.index(" w12"))]  # w16 stands after it, and cannot be found
    levels = ["sentence", "word"]
    why = explain(
        waits_for(16, 16), SENTENCES, target=" w0", prompt_spans=spans, units=levels, probes=60, replacer="random"
    )
    outside = [unit for unit in why.input if unit.start >= spans[0][1]]
    assert outside
    assert all(unit.protected for unit in outside)
    why = explain(
        waits_for(7, 7), SENTENCES, target=" w0", prompt_spans=spans, units=levels, probes=60, replacer="random"
    )
    assert first(why) == "w7"
    assert why.levels[0].unit == "sentence"


def test_a_long_prompt_goes_coarse_to_fine_by_itself() -> None:
    prompt = " ".join([SENTENCES] * 20)  # 480 words
    why = explain(waits_for(16, 400), prompt, target=" w0", probes=100, replacer="random")
    assert [level.unit for level in why.levels] == ["sentence"]
    assert why.cost.forward_passes < 105
    assert why.top(1)[0].token.text.strip() == "w16"
    plain = explain(waits_for(16, 400), prompt, target=" w0", units=["token"], probes=100, replacer="random")
    assert not plain.levels


def test_a_first_picture_of_a_long_prompt_is_by_sentences() -> None:
    pictures: list[Explanation] = []
    explain(
        waits_for(16, 16),
        SENTENCES,
        target=" w0",
        units=["sentence", "word"],
        replacer="random",
        on_progress=lambda now: pictures.append(now.partial) if now.partial else None,  # type: ignore[arg-type]
    )
    assert pictures[0].unit == "sentence"
    assert pictures[-1].unit == "word"


# --- what is asked about the output ---


def test_a_contrast_asks_for_the_odds_of_two_words() -> None:
    # The context raises both words alike, and one of them more: only that difference counts.
    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 3.0 * (context[:, 0] == 1) + 2.0 * (context[:, 2] == 3)
        table[:, 5] = 3.0 * (context[:, 0] == 1)
        return table

    model = ScriptedModel(WORDS, logits)
    why = explain(model, "w1 w2 w3", target=" w0", contrast=" w5", probes=60, replacer="random")
    assert why.effects is not None
    assert why.effects[0] == pytest.approx([0, 0, 2], abs=0.1)
    assert why.target == {"kind": "contrast", "index": 0, "text": " w5", "ids": [5], "logprob": why.target["logprob"]}
    both = [math.exp(p) for p in (why.output[0].logprob or 0, why.target["logprob"])]
    assert math.log(both[0] / both[1]) == pytest.approx(2)
    plain = explain(model, "w1 w2 w3", target=" w0", probes=60, replacer="random")
    assert plain.effects is not None
    assert plain.effects[0][0] > 1


def test_a_contrast_is_asked_where_the_two_part(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "My aunt moved", target=" to Japan to", contrast=" to Japan, the", probes=16)
    assert why.completion.startswith(" to Japan")
    assert why.focus == len(why.output) - 1 > 0
    assert why.target["text"] == ","


@pytest.mark.parametrize("contrast", ["w29", " w29"])
def test_a_contrast_gets_the_space_that_its_word_needs(contrast: str) -> None:
    why = explain(waits_for(1, 0), "w1 w2 w3", target=" w0", contrast=contrast, probes=8, replacer="random")
    assert why.target["text"] == " w29"


def test_a_contrast_without_a_space_stays_as_it_is_after_an_output_without_one(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "She moved to ", target="Japan", contrast="Tokyo", probes=8)
    assert not why.target["text"].startswith(" ")
    point = explain(tiny_model, "She moved", target=" to Japan", contrast=".", probes=8)
    assert point.target["text"] == "."


def test_a_phrase_is_explained_as_a_whole() -> None:
    model = waits_for(16, 16)
    why = explain(model, SENTENCES, target=" w0 w29 w0", target_span="w29 w0", probes=80, replacer="random")
    assert [len(unit.ids) for unit in why.output] == [1, 2]
    assert why.focus == 1
    assert why.target == {"kind": "span", "index": 1, "text": "w29 w0"}
    assert len(why.scores[1]) == len(why.input) + 1


def test_paper_preset_answers_contrasts_and_phrases_too() -> None:
    for asked in ({"contrast": " w29"}, {"target_span": "w0"}):
        why = explain(
            waits_for(3, 3), SENTENCES, target=" w0", preset="paper", max_steps=300, keep=2, top_k=1, replacer="random",
            units="word", **asked,
        )  # fmt: skip
        assert "w3" in [row.token.text.strip() for row in why.top(3)]


def test_what_if_says_what_the_model_would_have_said() -> None:
    why = explain(waits_for(16, 16), SENTENCES, target=" w0", what_if=True, probes=120, replacer="random")
    (one,) = why.what_if
    assert why.input[one.position].text.strip() == "w16"
    assert one.replacement.strip() in WORDS
    assert one.replacement.strip() != "w16"
    assert one.answers[0].text == " w29"
    assert one.probability < math.exp(why.output[0].logprob or 0)
    assert explain(waits_for(16, 16), SENTENCES, target=" w0", probes=120, replacer="random").what_if == ()


# --- bad questions ---


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"units": "verse"}, "unknown unit 'verse'"),
        ({"prompt_spans": []}, "`prompt_spans` is empty"),
        ({"prompt_spans": [(0, 5), (3, 8)]}, "overlaps"),
        ({"prompt_spans": [(0, 500)]}, "leaves the text"),
        ({"prompt_spans": [(4, 2)]}, "is empty"),
        ({"prompt_spans": [(0, 1), (1, 2)]}, "has no token of its own"),
        ({"prompt_spans": [(0, 5)], "units": "word"}, "leave out `units`"),
        ({"units": ["word", "sentence"]}, "from coarse to fine"),
        ({"units": ["chapter"]}, "unknown unit 'chapter'"),
        ({"units": ["span", "word"]}, "the unit 'span' needs `prompt_spans`"),
        ({"units": ["sentence", "word"], "preset": "paper"}, "cannot go from coarse to fine"),
        ({"units": ["sentence", "word"], "probes": 1}, "2 levels need at least 2 probes"),
        ({"contrast": " w0"}, "`contrast` is the target itself"),
        ({"contrast": " w0 w1"}, "do not differ"),
        ({"contrast": ""}, "`contrast` is empty"),
        ({"target_span": ""}, "`target_span` is empty"),
        ({"target_span": "w7"}, "is not in the output"),
        ({"target_span": "w0", "contrast": " w2"}, "not both"),
    ],
)
def test_a_bad_question_is_refused_in_one_line(asked: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        explain(waits_for(1, 0), "w1 w2 w3", target=" w0", replacer="random", **asked)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_contrast_that_the_model_says_by_itself_is_refused() -> None:
    with pytest.raises(InputError, match="the model's own output"):
        explain(waits_for(1, 0), "w1 w2 w3", max_new_tokens=1, contrast=" w0", replacer="random")


def test_a_contrast_that_is_the_output_but_for_its_space_is_refused() -> None:
    with pytest.raises(InputError, match="the model's own output, ' w0'"):
        explain(waits_for(1, 0), "w1 w2 w3", max_new_tokens=1, contrast="w0", replacer="random")


def test_a_phrase_of_the_prompt_is_not_one_of_the_output() -> None:
    with pytest.raises(InputError, match=r"it is in the prompt; .* for a part of the prompt use `prompt_spans`"):
        explain(waits_for(1, 0), "w1 w2 w3", target=" w0", target_span="w2", replacer="random")


class EndsAtOnce(ScriptedModel):
    """A chat model: it answers messages, and ends plain texts."""

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        if target is None:
            raise EmptyGenerationError
        return super().case(prompt, target, max_new_tokens)

    def chat(self, messages: Any, target: str | None = None, max_new_tokens: int = 10) -> Case:
        return super().case(messages[0]["content"], target, max_new_tokens)


def test_a_chat_model_that_ends_a_plain_text_is_asked_for_a_chat() -> None:
    model = EndsAtOnce(WORDS, lambda context: np.zeros((len(context), len(WORDS))))
    with pytest.raises(EmptyGenerationError, match=r"as `target`; if it is a chat model, .*--chat; in"):
        explain(model, "w1 w2 w3", replacer="random")
    assert explain(model, [{"role": "user", "content": "w1 w2"}], max_new_tokens=1, replacer="random").completion


def test_a_phrase_that_stands_there_twice_is_ambiguous() -> None:
    with pytest.raises(InputError, match="more than once"):
        explain(waits_for(1, 0), "w1 w2", target=" w0 w0", target_span="w0", replacer="random")


def test_a_chat_needs_a_model_that_chats() -> None:
    with pytest.raises(InputError, match="a chat needs a model that has a chat template"):
        explain(waits_for(1, 0), [{"role": "user", "content": "w1 w2"}], replacer="random")


def test_a_stride_goes_with_neither_a_span_nor_a_contrast() -> None:
    model = waits_for(16, 16)
    for asked in ({"stride": 0}, {"stride": 2, "target_span": "w0"}, {"stride": 2, "contrast": " w1"}):
        with pytest.raises(InputError, match="`stride` must be"):
            explain(model, SENTENCES, max_new_tokens=2, **asked)


def test_who_listens_hears_the_output_before_it_is_explained(tiny_model: HuggingFaceModel) -> None:
    heard: list[str] = []
    why = explain(waits_for(1, 0), "w1 w2", target=" w0", replacer="random", on_answer=heard.append)
    assert heard == [why.completion] == [" w0"]
    order: list[str] = []
    explain(
        tiny_model,
        "My aunt moved",
        max_new_tokens=2,
        probes=4,
        on_answer=lambda text: order.append(text),
        on_progress=lambda _: order.append("probes"),
    )
    assert order.index("probes") == 3  # two tokens as they came, and the whole


# --- arguments ---


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"max_new_token": 1}, "explain has no argument 'max_new_token', did you mean 'max_new_tokens'"),
        ({"unit": "word"}, "explain has no argument 'unit', did you mean 'units'"),
        ({"probe": 8}, "did you mean 'probes'"),
        ({"documents": ["w1"]}, "explain has no argument 'documents': for a question about documents use reagent.cite"),
        ({"context": "w1", "query": "w2"}, "mark its parts with `prompt_spans`"),
        ({"question": "w1"}, "or units='paragraph'. Arguments: prompt, target, "),
        ({"input_text": "w1"}, "explain has no argument 'input_text', did you mean 'prompt'?"),
        ({"text": "w1"}, "did you mean 'prompt'?"),
        ({"inputs": "w1"}, "did you mean 'prompt'?"),
        ({"generated_texts": "w1"}, "explain has no argument 'generated_texts', did you mean 'target'?"),
        ({"n_samples": 8}, "explain has no argument 'n_samples', did you mean 'probes'?"),
        ({"num_ablations": 8}, "explain has no argument 'num_ablations', did you mean 'probes'?"),
        ({"method": "lime", "n_samples": 8}, "explain has no argument 'n_samples', did you mean 'samples'?"),
        ({"method": "attention", "num_ablations": 8}, "explain has no argument 'num_ablations'. Arguments: "),
        ({"device": "cpu"}, "explain has no argument 'device': it is an argument of load_model"),
        ({"max_new_tokens": "3"}, "`max_new_tokens` must be a whole number, got '3'"),
        ({"max_new_tokens": True}, "`max_new_tokens` must be a whole number"),
        ({"seed": -1}, "`seed` must be between 0 and"),
        ({"target": 7}, "`target` must be a text, got 7"),
        ({"target": ["w0"]}, "a list of targets with a list of prompts"),
        ({"method": 7}, "a method is an id or an object"),
        ({"span": "w0"}, "did you mean 'target_span'"),
        ({"levels": ["word"]}, "did you mean 'units'"),
        ({"units": 3}, "`units` must be a name or a list of names, got 3"),
        ({"units": [3]}, "unknown unit 3"),
        ({"preset": 3}, "unknown preset"),
        ({"prompt_spans": 3}, "`prompt_spans` must be a list of (start, end), got 3"),
        ({"prompt_spans": ["ab"]}, "`prompt_spans` must be a list of (start, end), got 'ab' in it"),
        ({"prompt_spans": [(0, 1.7)]}, "`prompt_spans` must be a whole number, got 1.7"),
        ({"replacer_options": ["a"]}, "`replacer_options` must be a mapping"),
        ({"what_if": "no"}, "`what_if` must be True or False"),
        ({"replacer": 7}, "a replacer must be a name or an instance"),
        ({"method": ReagentFast(), "preset": "paper"}, "needs the id of a method"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)) as caught:
        explain(waits_for(1, 0), "w1 w2 w3", **{"replacer": "random"} | arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_numbers_of_numpy_are_numbers() -> None:
    why = explain(
        waits_for(1, 0), "w1 w2 w3", max_new_tokens=np.int64(1), seed=np.int32(3), probes=np.int64(8), replacer="random"
    )
    assert (why.seed, len(why.output)) == (3, 1)
    assert '"probes": 8' in why.to_json()


def test_without_a_seed_one_is_drawn_and_recorded() -> None:
    first, second = (explain(waits_for(1, 0), "w1 w2 w3", max_new_tokens=1, seed=None, replacer="random") for _ in "ab")
    assert first.seed != second.seed
    again = explain(waits_for(1, 0), "w1 w2 w3", max_new_tokens=1, seed=first.seed, replacer="random")
    assert again.scores == first.scores


def test_instances_do_what_their_names_do() -> None:
    by_name = explain(
        waits_for(1, 0), "w1 w2 w3", max_new_tokens=1, probes=12, replacer="random", replacer_options={"candidates": 5}
    )
    by_instance = explain(
        waits_for(1, 0), "w1 w2 w3", max_new_tokens=1,
        method=ReagentFast(probes=12), replacer=UniformReplacer(candidates=5),
    )  # fmt: skip
    assert by_instance.effects == by_name.effects
    assert by_instance.method == by_name.method
    assert by_instance.replacer == by_name.replacer


@pytest.mark.parametrize(
    ("method", "name", "preset"),
    [
        (Occlusion(removal="delete"), "occlusion", "deletion"),
        (Attention("last"), "attention_last", None),
        (ReagentPaper(keep=5, max_steps=3000), "reagent", "paper-appendix"),
        (ReagentPaper(max_steps=7), "reagent", "paper"),
        (Lime, "lime", None),
    ],
)
def test_an_instance_is_recorded_under_its_id(method: Any, name: str, preset: str | None) -> None:
    info = make_method(method)[1]
    assert (info["id"], info["preset"]) == (name, preset)


def test_a_list_of_prompts_is_explained_one_by_one_when_read() -> None:
    model = waits_for(1, 0)
    several = explain(model, ["w1 w2", "w3 w4"], max_new_tokens=1, replacer="random")
    assert len(several) == 2
    assert model.meter.forward_passes == 0
    assert several[-1].prompt == "w3 w4"
    assert [why.prompt for why in several] == ["w1 w2", "w3 w4"]
    passes = model.meter.forward_passes
    assert several[0] is several[:1][0]
    assert model.meter.forward_passes == passes


def test_a_list_of_prompts_has_a_list_of_targets() -> None:
    model = waits_for(1, 0)
    several = explain(model, ["w1 w2", "w3 w4"], target=[" w5", None], max_new_tokens=1, replacer="random")
    assert several[0].completion == " w5"
    with pytest.raises(InputError, match="2 prompts and 1 targets"):
        explain(model, ["w1 w2", "w3 w4"], target=[" w5"], replacer="random")
    with pytest.raises(InputError, match="the prompt is empty"):
        explain(model, ["w1 w2", ""], replacer="random")


def test_a_tuple_of_prompts_is_a_list_of_prompts() -> None:
    several = explain(waits_for(1, 0), ("w1 w2", "w3 w4"), max_new_tokens=1, replacer="random")
    assert [why.prompt for why in several] == ["w1 w2", "w3 w4"]


@pytest.mark.parametrize(
    ("prompt", "complaint"),
    [
        (iter(["w1 w2"]), "a list of texts or a list of messages, got a list_iterator: make a list of it"),
        ((text for text in ["w1 w2"]), "got a generator: make a list of it"),
        ({"role": "user", "content": "w1"}, "got a dict: put it into a list"),
        (None, "`prompt` must be a text, a list of texts or a list of messages, got a NoneType"),
        ([], "the list of prompts is empty: give at least one text or chat"),
        ((), "the list of prompts is empty"),
    ],
)
def test_a_prompt_of_another_kind_is_refused(prompt: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        explain(waits_for(1, 0), prompt, replacer="random")


def test_the_progress_of_a_list_names_the_prompt() -> None:
    seen = []
    several = explain(waits_for(1, 0), ["w1 w2", "w3 w4"], max_new_tokens=1, replacer="random", on_progress=seen.append)
    list(several)
    assert {(progress.prompt, progress.prompts) for progress in seen} == {(0, 2), (1, 2)}
    with pytest.raises(InputError, match="must contain only texts and chats"):
        explain(waits_for(1, 0), ["w1 w2", 3])
    with pytest.raises(InputError, match="`target` must be a text or a list of texts"):
        explain(waits_for(1, 0), ["w1 w2"], target=3)


def test_spans_are_checked_before_a_model_is_loaded() -> None:
    with pytest.raises(InputError, match="leaves the text"):
        explain("no such model", "w1 w2", prompt_spans=[(0, 50)])


def test_a_plain_object_is_a_method_too() -> None:
    class Uniform:
        replaces, info = False, {}

        def attribute(self, model: Any, case: Any, *_: Any) -> Attribution:
            del model
            rows = [np.full(len(case.input) + t, 1 / (len(case.input) + t)) for t in range(len(case.output))]
            count = len(rows)
            return Attribution(rows, [0] * count, ["fixed"] * count, [[] for _ in rows], 0, 0)

    why = explain(waits_for(1, 0), "w1 w2", max_new_tokens=1, method=Uniform())
    assert (why.method["id"], why.scores) == ("Uniform", ((0.5, 0.5),))
    with pytest.raises(InputError, match="explain has no argument 'probes'"):
        explain(waits_for(1, 0), "w1 w2", method=Uniform(), probes=3)


class Grouping:
    """Uniform scores; the first and the last unit are a group, and one unit alone is not sufficient."""

    replaces, info = False, {}

    def for_level(self, *_: int) -> "Grouping":
        return self

    def attribute(self, model: Any, case: Any, *_: Any) -> Attribution:
        del model
        rows = [np.full(len(case.input) + t, 1 / (len(case.input) + t)) for t in range(len(case.output))]
        count, last = len(rows), len(case.input) - 1
        group = Group(units=(0, last), kind="redundant", effect=2.0, stderr=None, single=0.5)
        test = Sufficiency(units=(0,), effect=1.0, stderr=None, total=2.0, rank=3, passed=False)
        return Attribution(
            rows, [0] * count, ["insufficient"] * count, [[] for _ in rows], 0, 0,
            groups=[[group]] * count, sufficiency=[test] * count,
        )  # fmt: skip


def test_groups_and_sufficiency_of_a_method_reach_the_explanation() -> None:
    why = explain(waits_for(1, 0), "w1 w2", max_new_tokens=3, method=Grouping())
    assert [[group.units for group in row.groups] for row in why] == [[(0, 1)]] * 3
    assert [row.sufficiency and row.sufficiency.rank for row in why] == [3, 3, 3]
    assert len(why.warnings) == 3
    strided = explain(waits_for(1, 0), "w1 w2", max_new_tokens=3, stride=2, method=Grouping())
    assert [len(row.groups) for row in strided] == [1, 0, 1]
    assert [row.sufficiency is None for row in strided] == [False, True, False]


def test_several_levels_report_the_groups_of_the_finest() -> None:
    why = explain(waits_for(1, 0), "w1 w2. w3 w4", max_new_tokens=1, units=["sentence", "word"], method=Grouping())
    assert why.groups[0][0].units == (0, len(why.input) - 1)
    assert why.cost.stopped == ("insufficient",)


def test_compared_methods_share_a_drawn_seed() -> None:
    both = compare(waits_for(1, 0), "w1 w2", ["random", "reagent"], max_new_tokens=1, seed=None, replacer="random")
    assert both[0].seed == both[1].seed
    with pytest.raises(InputError, match="a list with at least one method"):
        compare(waits_for(1, 0), "w1 w2", ReagentFast())


@pytest.mark.parametrize("group", ["methods", "replacers", "metrics", "datasets"])
def test_a_plugin_that_cannot_be_loaded_disturbs_nothing_else(
    group: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from importlib.metadata import EntryPoint

    from reagent import plugins
    from reagent.data import list_datasets
    from reagent.methods import list_methods
    from reagent.metrics import list_metrics
    from reagent.replacers import list_replacers

    broken = EntryPoint("broken", "no_such_module:Thing", f"reagent.{group}")
    monkeypatch.setattr(
        plugins,
        "entry_points",
        lambda group, name="broken": [broken] if (group, name) == (broken.group, "broken") else [],
    )
    lists = {
        "methods": list_methods, "replacers": list_replacers, "metrics": list_metrics, "datasets": list_datasets,
    }  # fmt: skip
    assert "broken" not in lists[group]()
    assert f"the {group} plugin 'broken'" in caplog.text
    why = explain(waits_for(1, 0), "w1 w2", max_new_tokens=1, method=ReagentFast(probes=8), replacer="random")
    assert why.method["id"] == "reagent"
