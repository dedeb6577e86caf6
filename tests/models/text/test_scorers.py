"""Responses of answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import reagent
from reagent.case import Case
from reagent.errors import InputError
from reagent.models.text.likelihood import MixedScorer
from reagent.models.text.scorers import AnswerScorer, PairScorer, find_label, make_scorer
from reagent.models.text.similarity import chrf, word_f1
from reagent.testing import ScriptedModel


def score(name: object, answers: list[str], reference: str) -> list[float]:
    scorer = make_scorer(name)
    scorer.check("", reference)
    return [round(float(value), 3) for value in scorer.score([], answers, reference)]


def test_similarity_is_one_for_equal_texts_and_zero_for_unrelated_ones() -> None:
    for compare in (word_f1, chrf):
        assert compare("Das  ist\ngut.", "das ist gut.") == 1
        assert compare("東京 です", "東京 です") == 1
        assert compare("xyz", "abc") == 0
        assert compare("", "abc") == 0
        assert compare("", "") == 1


def test_similarity_grows_with_what_is_shared() -> None:
    for compare in (word_f1, chrf):
        values = [compare(text, "the green tea is hot") for text in ("a stone", "the tea", "the green tea is cold")]
        assert values == sorted(values)
        assert 0 < values[1] < values[2] < 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", [1.0, 0.0]),
        ("exact", [1.0, 0.0]),
        ("label", [1.0, 0.0]),
        ("label:yes,no", [1.0, 0.0]),
        ("regex:(?i)^yes", [1.0, 0.0]),
        (lambda answer, reference: float(answer == reference), [1.0, 0.0]),
    ],
)
def test_every_scorer_tells_the_same_answer_from_another(name: object, expected: list[float]) -> None:
    assert score(name, ["Yes", "no"], "Yes") == expected


def test_a_label_is_the_first_of_those_given() -> None:
    answers = ["It is POSITIVE.", "negative, not positive", "I cannot say", "positively"]
    assert score("label:positive,negative", answers, "positive") == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("texts", "did you mean 'text'"),
        ("regex", "unknown scorer"),
        ("regex:(", "not a regular expression"),
        ("text:3", "unknown scorer"),
        (3, "must be one of"),
    ],
)
def test_a_bad_scorer_is_one_line(name: object, message: str) -> None:
    with pytest.raises(reagent.InputError, match=message):
        make_scorer(name)


def test_a_scorer_must_accept_the_original_answer_and_stay_between_0_and_1() -> None:
    with pytest.raises(reagent.InputError, match="gives 0 to the original answer"):
        make_scorer("regex:^no").check("", "yes")
    with pytest.raises(reagent.InputError, match="numbers from 0 to 1"):
        make_scorer(lambda _a, _b: 7.0).check("", "yes")


@pytest.fixture
def embeddings() -> Iterator[str]:
    """A server whose embedding of a text counts its letters, in reversed order of the inputs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            data = [{"index": i, "embedding": [text.count(letter) for letter in "abc"]} for i, text in enumerate(texts)]
            body = json.dumps({"data": data[::-1]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}#letters"
    server.shutdown()
    server.server_close()


def test_embeddings_of_a_server_are_compared_by_their_cosine(embeddings: str) -> None:
    assert score(f"embedding:{embeddings}", ["aaa", "ab", "b", "xyz"], "a") == [1.0, 0.707, 0.0, 0.0]
    with pytest.raises(reagent.InputError, match="is 0"):
        make_scorer(f"embedding:{embeddings}").check("", "xyz")


def test_the_likelihood_under_a_proxy_needs_no_answers() -> None:
    words = ["a", "b", "c"]
    proxy = ScriptedModel(words, lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return " c"

    scorer = make_scorer("proxy:unused")
    scorer.model = proxy  # type: ignore[attr-defined]
    assert isinstance(scorer, AnswerScorer)
    why = reagent.explain(reagent.load_model(answer, score=scorer), "c a b a b", max_new_tokens=1)
    assert why.top(1)[0].token.text == "c"
    assert why.effect_unit == "nats under the proxy"
    assert asked == ["c a b a b"]
    assert why[0].top(1)[0].effect == pytest.approx(5.0, abs=0.2)


def test_words_count_in_their_order() -> None:
    assert word_f1("the dog bites the man", "the man bites the dog") < 0.7
    assert word_f1("a b c", "a b c d e") == pytest.approx(0.75)  # precision 1, recall 0.6
    assert chrf("Tokyo.", "Tokyo") > chrf("Kyoto", "Tokyo")


def test_a_mixture_tells_answers_apart_that_are_all_unrelated() -> None:
    """Without a, b or c the answer is another one; the proxy says how much each of them matters."""
    words = ["a", "b", "c", "d", "x"]
    weights = {0: 3.0, 1: 1.0, 2: 0.3}
    proxy = ScriptedModel(
        words,
        lambda context: (
            np.array([[sum(w * (row == i).any() for i, w in weights.items())] for row in context]) * (np.arange(5) == 4)
        ),
    )
    scorer = make_scorer("text+proxy:unused")
    assert isinstance(scorer, MixedScorer)
    scorer.proxy.model = proxy  # type: ignore[misc]
    model = reagent.load_model(lambda prompt: " x" if all(w in prompt for w in "abc") else " z", score=scorer)
    why = reagent.explain(model, "d c d b d a d", max_new_tokens=1)
    assert [row.token.text.strip() for row in why.top(3)] == ["a", "b", "c"]
    assert why.effect_unit == "similarity and likelihood"
    effects = dict(zip((unit.text.strip() for unit in why.input), why.effects[0], strict=True))
    assert effects["a"] > effects["b"] > effects["c"] > 0.5 > effects["d"] == 0
    assert scorer.score(["d c d b d a d"], [" x"], " x") == [1.0]


def test_a_proxy_without_a_chat_template_reads_messages_as_text() -> None:
    seen: list[str] = []

    class Texts(ScriptedModel):
        def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
            seen.append(prompt)
            return super().case(prompt.replace("\n", " "), target, max_new_tokens)

    scorer = make_scorer("proxy:unused")
    scorer.model = Texts(["a", "b"], lambda context: np.zeros((len(context), 2)))  # type: ignore[attr-defined]
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    scorer.score([chat, "a", "a "], [], "b")
    assert seen == ["a\n\nb\n\n", "a\n\n", "a "]


def test_a_label_may_end_with_a_sign() -> None:
    assert find_label("I would use C++.", ["c++", "c#"]) == "c++"
    assert find_label("abc++", ["c++"]) is None


def test_a_function_that_gives_no_number_is_named() -> None:
    with pytest.raises(InputError, match="must give numbers from 0 to 1, got None"):
        PairScorer("mine", lambda answer, reference: None).check("", "a")  # type: ignore[arg-type,return-value]  # noqa: ARG005
