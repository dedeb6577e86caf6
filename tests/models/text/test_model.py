"""Models that only answer with text, with known sets of words that decide the answer."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from reagent.models.base import Meter
from reagent.models.text import Request, TextModel
from reagent.models.text.model import split_parts

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)
OTHER = "a small town"


def needs(*words: str) -> Any:
    """A function that answers Tokyo if each of the words is in the prompt; `a|b` means either."""

    def answer(prompt: Any) -> str:
        text = prompt if isinstance(prompt, str) else " ".join(message["content"] for message in prompt)
        return "Tokyo" if all(any(word in text for word in either.split("|")) for either in words) else OTHER

    return answer


def top(why: reagent.Explanation, n: int) -> set[str]:
    return {row.token.text.strip() for row in why.top(n)}


def test_a_function_is_explained_by_the_words_that_decide_its_answer() -> None:
    why = reagent.explain(needs("Japan", "capital"), PROMPT)
    assert why.completion == "Tokyo"
    assert top(why, 2) == {"Japan", "capital"}
    assert why.effect_unit == "similarity"
    assert why.model["id"].startswith("python:")
    assert why.model["score"] == "text"
    assert why.output[0].logprob is None
    effects = np.array(why.effects[0])
    assert (effects > 0.9).sum() == 2
    assert np.abs(effects[effects < 0.9]).max() == 0
    assert why.sufficiency is not None
    assert why.sufficiency[0] is not None
    assert why.sufficiency[0].passed
    assert why.sufficiency[0].total > 0.9


def test_a_fact_that_is_stated_twice_is_a_group() -> None:
    prompt = PROMPT.replace("teach music", "teach music and Nippon songs")
    why = reagent.explain(needs("Japan|Nippon", "capital"), prompt)
    (group,) = [group for group in why.groups[0] if group.kind == "redundant"]
    assert {why.input[i].text.strip() for i in group.units} == {"Japan", "Nippon"}
    assert group.effect > 0.9
    assert group.single == 0
    assert top(why, 3) == {"Japan", "Nippon", "capital"}


def test_units_are_ranked_by_their_own_effects() -> None:
    """Words that change the answer a little come after words that change it more, however many others there are."""
    kept = {"red": "blue", "boat": "car", "sea": "land sky"}

    def answer(prompt: str) -> str:
        answer = "the red boat sails over the wide cold sea today"
        for word, other in kept.items():
            answer = answer if word in prompt else answer.replace(word, other)
        return answer if "paint" in prompt else "no"

    prompt = "please paint one red picture of any boat that you saw at sea once in July"
    why = reagent.explain(answer, prompt, probes=60)
    order = [row.token.text.strip() for row in why.top(4)]
    assert order[0] == "paint"
    assert set(order[1:]) == set(kept)
    effects = np.array(why.effects[0])
    assert (np.argsort(-effects)[:4] == np.argsort(-np.array(why.scores[0]))[:4]).all()
    assert why.shapley_values is None


def test_every_unit_is_removed_alone_when_requests_are_few() -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return needs("Japan", "capital")(prompt)

    why = reagent.explain(answer, PROMPT, probes=len(PROMPT.split()) + 20)
    alone = [PROMPT.replace(word, "", 1).split() for word in ("Japan", "piano", "rents")]
    assert all(words in [text.split() for text in asked] for words in alone)
    assert top(why, 2) == {"Japan", "capital"}


class Storyteller:
    """Answers with six words; each depends on a word of the prompt, and after a wrong one all others are wrong too."""

    at_once = 8
    info = {"id": "storyteller", "revision": None, "dtype": None, "backend": "scripted"}  # noqa: RUF012
    needed = ("king", "queen", "ship", "storm", "island", "gold")
    story = ("one", "two", "three", "four", "five", "six")

    def __init__(self) -> None:
        self.meter, self.seen = Meter(), list[Request]()

    def answer(self, requests: list[Request]) -> list[str]:
        self.meter.requests += len(requests)
        self.seen += requests
        return [self._continue(str(request.prompt), request.begin) for request in requests]

    def _continue(self, prompt: str, begin: str) -> str:
        text = begin
        for word, said in list(zip(self.needed, self.story, strict=True))[len(begin.split()) :]:
            wrong = text.split() != list(self.story[: len(text.split())])
            text += f" {said}" if word in prompt and not wrong else " never"
        return text[len(begin) :]


def test_parts_tell_a_changed_word_from_what_follows_it() -> None:
    """Without `king` only the first word differs after the true beginnings; without both last words two do."""
    prompt = "tell me of king and queen and ship with storm then island or gold"
    source = Storyteller()
    whole = reagent.explain(reagent.load_model(Storyteller(), score="text"), prompt, probes=30)
    parts = reagent.explain(reagent.load_model(source, score="text", parts=6), prompt, probes=30)
    words = [unit.text.strip() for unit in parts.input]
    king, gold = words.index("king"), words.index("gold")
    assert whole.effects[0][king] > 5 * whole.effects[0][gold]
    assert 1 < parts.effects[0][king] / parts.effects[0][gold] < 5
    assert top(parts, 6) == set(source.needed)
    assert parts.model["parts"] == 6
    assert {request.begin for request in source.seen} == {"", " one", " one two", " one two three"} | {
        " one two three four",
        " one two three four five",
    }
    assert source.meter.requests <= 6 * 31


@pytest.mark.parametrize(
    ("answer", "count", "parts"),
    [
        ("a big red boat", 2, ("a big", " red boat")),
        (" Tokyo", 3, (" To", "k", "yo")),
        ("はい", 5, ("は", "い")),
        ("one two three", 1, ("one two three",)),
    ],
)
def test_an_answer_is_cut_between_words(answer: str, count: int, parts: tuple[str, ...]) -> None:
    assert split_parts(answer, count) == parts


def test_parts_need_a_model_that_continues_and_a_scorer_that_compares_them() -> None:
    with pytest.raises(reagent.InputError, match="a function does not continue an answer"):
        reagent.load_model(needs("Japan"), score="text", parts=3)
    with pytest.raises(reagent.InputError, match="'label' does not compare parts"):
        reagent.load_model(Storyteller(), score="label", parts=3)
    with pytest.raises(reagent.InputError, match="parts"):
        reagent.load_model(Storyteller(), parts=0)


@pytest.mark.parametrize("method", ["shapley", "occlusion", "greedy"])
def test_other_methods_need_the_same_number_only(method: str) -> None:
    why = reagent.explain(needs("Japan"), "In Japan we ate rice there", method=method, removal="delete")
    assert top(why, 1) == {"Japan"}
    assert why.effect_unit == "similarity"


def test_a_contrast_asks_why_not_the_other_answer() -> None:
    why = reagent.explain(needs("Japan"), "In Japan we ate rice there", contrast=OTHER)
    assert top(why, 1) == {"Japan"}
    assert max(why.effects[0]) > 1.5  # likeness to one answer is lost, and likeness to the other one is won


def test_messages_are_explained_and_never_empty() -> None:
    seen: list[Any] = []

    def answer(messages: Any) -> str:
        seen.append(messages)
        return needs("Japan")(messages)

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where in Japan is she?"}]
    why = reagent.explain(answer, messages)
    assert top(why, 1) == {"Japan"}
    assert [message.role for message in why.messages] == ["system", "user"]
    assert seen[0] == messages
    assert all(message["content"].strip() for asked in seen for message in asked)
    assert [message["role"] for message in seen[-1]] == ["system", "user"]


def test_every_prompt_is_asked_once() -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return needs("Japan", "capital")(prompt)

    model = reagent.load_model(answer)
    first = reagent.explain(model, PROMPT)
    assert len(asked) == len(set(asked)) == first.cost.requests + 1  # the answer itself comes before
    count = len(asked)
    second = reagent.explain(model, PROMPT)
    assert second.scores == first.scores
    assert second.cost.requests == 0
    assert len(asked) - count <= 1


def test_a_budget_ends_the_search_with_a_result() -> None:
    model = reagent.load_model(needs("Japan", "capital"), max_requests=50)
    why = reagent.explain(model, PROMPT)
    assert model.meter.requests <= 50
    assert top(why, 2) == {"Japan", "capital"}


def test_a_budget_that_ends_inside_a_long_prompt_leaves_the_result_so_far(caplog: pytest.LogCaptureFixture) -> None:
    filler = " ".join(f"The garden of house {i} has a gate and a tree of {i} years." for i in range(40))
    prompt = f"{PROMPT[:38]} {filler} She lives in the capital,"
    model = reagent.load_model(needs("Japan", "capital"), max_requests=28)
    why = reagent.explain(model, prompt)
    assert model.meter.requests == 28
    assert why.unit == "sentence"
    assert any("Japan" in row.token.text for row in why.top(2))
    assert "the result so far is returned" in caplog.text


def test_a_method_with_a_fixed_number_of_probes_stops_at_the_budget_and_keeps_its_answers() -> None:
    model = reagent.load_model(needs("Japan", "capital"), max_requests=20)
    with pytest.raises(reagent.ReagentError, match="max_requests") as caught:
        reagent.explain(model, PROMPT, method="shapley", removal="delete")
    assert caught.value.exit_code == 1
    assert model.meter.requests <= 20
    assert sum(map(len, model._answers.values())) == model.meter.requests


def test_a_long_prompt_is_screened_and_explained_from_sentences_to_words() -> None:
    filler = " ".join(f"The garden of house {i} has a gate and a tree of {i} years." for i in range(60))
    why = reagent.explain(needs("Japan", "capital"), f"{PROMPT[:38]} {filler} She lives in the capital,")
    assert top(why, 2) == {"Japan", "capital"}
    assert why.levels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "paper", "replacer": "random"}, "needs log-probabilities"),
        ({"target_span": "Tokyo"}, "`target_span` needs log-probabilities"),
        ({"answer_span": "Tokyo"}, "`answer_span` needs log-probabilities"),
    ],
)
def test_questions_that_need_probabilities_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(reagent.InputError, match=message):
        reagent.explain(needs("Japan"), PROMPT, **arguments)


def test_metrics_and_citations_are_refused() -> None:
    model = reagent.load_model(needs("Japan"))
    with pytest.raises(reagent.InputError, match="evaluate needs log-probabilities"):
        reagent.evaluate(model, reagent.explain(model, PROMPT))
    with pytest.raises(reagent.InputError, match="cite needs log-probabilities"):
        reagent.cite(model, "Where?", ["She is in Japan."])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.7}, "only a server has the option 'temperature'"),
        ({"answers": 0}, "whole number from 1"),
        ({"max_requests": 1}, "whole number from 2"),
        ({"score": "txt"}, "unknown scorer"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(reagent.InputError, match=message):
        reagent.load_model(needs("Japan"), **options)


def test_a_function_that_fails_is_named() -> None:
    def broken(_: str) -> str:
        raise RuntimeError("no quota")

    with pytest.raises(reagent.ReagentError, match=r"broken' failed on a prompt: RuntimeError: no quota"):
        reagent.explain(broken, PROMPT)
    with pytest.raises(reagent.InputError, match="must return a text"):
        reagent.explain(lambda _: 3, PROMPT)  # type: ignore[arg-type, return-value]
    with pytest.raises(reagent.InputError, match="ends the text"):
        reagent.explain(lambda _: "", PROMPT)


def test_views_name_the_unit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    why = reagent.explain(needs("Japan", "capital"), PROMPT)
    why.show()
    text = " ".join(capsys.readouterr().out.split())
    assert "effect (similarity)" in text
    assert "compared by text" in text
    assert "nats" not in text
    assert "0 to 1" in text
    why.save(tmp_path / "why.json")
    assert reagent.load(tmp_path / "why.json") == why
    page = tmp_path / "why.html"
    why.to_html(page)
    assert "nats" not in page.read_text(encoding="utf-8").partition("<script")[0]


# --- sampled answers ---


class Dice:
    """Answers Tokyo with a probability that falls by `drop` for each of the known words that is missing."""

    def __init__(self, drops: dict[str, float], seed: int, graded: bool = False) -> None:
        from reagent.models.base import Meter

        self.drops, self.graded, self.meter = drops, graded, Meter()
        self.rng = np.random.default_rng(seed)

    at_once = 64
    info = {"id": "dice", "revision": None, "dtype": None, "backend": "scripted"}  # noqa: RUF012

    def probability(self, prompt: str) -> float:
        return 0.9 - sum(drop for word, drop in self.drops.items() if word not in prompt.split())

    def answer(self, requests: list[Request]) -> list[str]:
        self.meter.requests += len(requests)
        said = self.rng.random(len(requests)) < [self.probability(str(r.prompt)) for r in requests]
        partly = ["b c", "b d"] if self.graded else ["no", "no"]
        return ["a b" if yes else partly[i % 2] for i, yes in enumerate(said)]


def coverage(answers: int, score: str, trials: int = 10) -> float:
    """How often the 95 % interval of an effect contains the true one, over units that matter and units that do not."""
    drops = {"w1": 0.7, "w4": 0.35, "w7": 0.15}
    prompt = " ".join(f"w{i}" for i in range(16))
    hits = []
    for seed in range(trials):
        model = TextModel(Dice(drops, seed, score == "text"), reagent_options(score, answers))
        why = reagent.explain(model, prompt, target="a b", probes=40, seed=seed)
        same = make_value(model, "a b", "a b")
        other = np.mean([make_value(model, text, "a b") for text in (("b c", "b d") if score == "text" else ("no",))])
        for unit, effect, error in zip(why.input, why.effects[0], why.stderr[0], strict=True):
            truth = drops.get(unit.text.strip(), 0.0) * (same - other)
            hits.append(abs(effect - truth) <= 1.96 * error + 1e-9)
    return float(np.mean(hits))


def reagent_options(score: str, answers: int) -> Any:
    from reagent.models.text import TextOptions

    return TextOptions(score=score, answers=answers)


def make_value(model: TextModel, answer: str, reference: str) -> float:
    return float(model.scorer.score([], [answer], reference)[0])


@pytest.mark.parametrize(("answers", "score"), [(3, "exact"), (4, "text")])
def test_intervals_cover_the_noise_of_sampled_answers(answers: int, score: str) -> None:
    """benchmarks/text_only.py measures it with many more trials: 90 to 98 %."""
    assert 0.88 <= coverage(answers, score) <= 0.99


def test_sampled_answers_have_standard_errors_and_a_typical_answer() -> None:
    model = TextModel(Dice({"w1": 0.7}, 0), reagent_options("exact", 4))
    why = reagent.explain(model, " ".join(f"w{i}" for i in range(16)))
    assert why.completion == "a b"  # nine of ten answers, though the first one may be another
    assert why.model["answers"] == 4
    assert min(why.stderr[0]) > 0
    assert top(why, 1) == {"w1"}


def test_other_models_answer_greedily(caplog: pytest.LogCaptureFixture) -> None:
    from reagent.testing import ScriptedModel

    caplog.set_level(logging.INFO)
    words = ["a", "b", "c"]
    echo = ScriptedModel(words, lambda context: 9.0 * (context[:, :1] == np.arange(3)))
    why = reagent.explain(reagent.load_model(echo, score="exact"), "c a b a b", max_new_tokens=2)
    assert why.completion == " c c"
    assert len(why.output) == 1
    assert top(why, 1) == {"c"}
    with pytest.raises(reagent.InputError, match="greedily"):
        reagent.load_model(echo, answers=3)
