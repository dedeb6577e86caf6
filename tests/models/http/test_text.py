"""Servers that return only text: a scripted chat, and llama.cpp behind a proxy that takes log-probabilities away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import reagent
from models.http.conftest import Truth
from models.http.servers import Proxy, Refusal, changed, proxied, serving
from reagent.cli import main
from reagent.errors import CapabilityError
from reagent.models.text import TextModel

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)


@dataclass
class Talking:
    """A server that answers Tokyo if both words are there, and refuses what hosted services refuse."""

    completions: bool = False
    limit: str = "max_tokens"
    continues: str | None = None  # what the last message of the assistant needs, so that it is continued
    temperature: bool = True  # whether it may be given
    logprobs: bool = True  # whether they may be requested; never returned
    seen: list[tuple[str, Any]] = field(default_factory=list)

    def get(self, path: str, _headers: dict[str, str]) -> Any:
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": "talker"}]}
        raise Refusal(404, "Not Found")

    def post(self, path: str, body: Any, _headers: dict[str, str]) -> Any:
        self.seen.append((path, body))
        if path == "/v1/completions" and self.completions:
            text, begun, begin = body["prompt"].partition("capital,")
            return {"choices": [{"text": self._say(text + begun)[len(begin) :]}]}
        if path != "/v1/chat/completions":
            raise Refusal(404, "Not Found")
        unknown = {"max_tokens", "max_completion_tokens"} - {self.limit}
        if unknown & set(body):
            raise Refusal(400, f"Unsupported parameter: {unknown & set(body)}")
        if "temperature" in body and not self.temperature:
            raise Refusal(400, "Unsupported value: temperature")
        if not all(message["content"].strip() for message in body["messages"]):
            raise Refusal(400, "messages must not be empty")
        *_, last = messages = body["messages"]
        begin = last["content"] if last["role"] == "assistant" else ""
        text = " ".join(message["content"] for message in messages[: -1 if begin else None])
        continues = begin and (self.continues == "nothing" or self.continues in {*body, *last})
        said = self._say(text)[len(begin) :] if continues else self._say(text)
        return {"choices": [{"message": {"role": "assistant", "content": said}}]}

    def _say(self, text: str) -> str:
        return "Tokyo" if "Japan" in text and "capital" in text else "I do not know"


@pytest.fixture
def talking() -> Iterator[Callable[..., tuple[str, Talking]]]:
    with ExitStack() as running:

        def start(**options: Any) -> tuple[str, Talking]:
            app = Talking(**options)
            return running.enter_context(serving(app)), app  # type: ignore[arg-type]

        yield start


@pytest.mark.parametrize("options", [{}, {"completions": True}, {"limit": "max_completion_tokens"}])
def test_the_words_that_decide_the_answer_are_found(talking: Callable[..., Any], options: dict[str, Any]) -> None:
    url, app = talking(**options)
    why = reagent.explain(reagent.load_model(url, score="text"), PROMPT)
    assert {row.token.text.strip() for row in why.top(2)} == {"Japan", "capital"}
    assert why.completion == "Tokyo"
    path = "/v1/completions" if options.get("completions") else "/v1/chat/completions"
    bodies = [body for path_of, body in app.seen if path_of == path]
    assert len(bodies) - why.cost.requests <= 3  # the answer, and two requests that find out the endpoint
    assert all(body["temperature"] == 0 and "logprobs" not in body for body in bodies[1:] if "temperature" in body)


def test_a_server_that_takes_no_temperature_is_asked_without(
    talking: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    url, app = talking(temperature=False, limit="max_completion_tokens")
    why = reagent.explain(reagent.load_model(url, score="text"), PROMPT, probes=40)
    assert {row.token.text.strip() for row in why.top(2)} == {"Japan", "capital"}
    assert "refuses temperature 0 and samples" in caplog.text
    assert not [body for _, body in app.seen[-20:] if "temperature" in body]
    with pytest.raises(reagent.InputError, match=r"refuses temperature 0\.7: leave it out"):
        reagent.explain(reagent.load_model(url, score="text", temperature=0.7), PROMPT)


def test_without_score_the_error_says_what_to_do(talking: Callable[..., Any]) -> None:
    url, _ = talking()
    with pytest.raises(reagent.ReagentError, match="--score text"):
        reagent.load_model(url)


def test_samples_have_seeds_and_responses_are_cached(talking: Callable[..., Any], tmp_path: Any) -> None:
    url, app = talking()
    options = {"score": "exact", "temperature": 0.7, "cache": tmp_path / "responses.sqlite"}
    why = reagent.explain(reagent.load_model(url, **options), PROMPT, probes=40)
    bodies = [body for _, body in app.seen if "seed" in body]
    assert all(body["temperature"] == 0.7 for body in bodies)
    asked = [(str(body["messages"]), body["seed"]) for body in bodies]
    assert len(asked) == len(set(asked)) == why.cost.requests + 3
    assert min(why.stderr[0]) > 0
    count = len(app.seen)
    again = reagent.explain(reagent.load_model(url, **options), PROMPT, probes=40)
    assert again.scores == why.scores
    assert len(app.seen) - count <= 3  # only what finds out the endpoint


def test_the_command_line_counts_the_cost_before(talking: Callable[..., Any], capsys: Any) -> None:
    url, app = talking()
    asked = ["explain", PROMPT, "--model", url, "--score", "text", "--answers", "3", "--quiet"]
    with pytest.raises(SystemExit) as stop:
        main([*asked, "--dry-run", "--price", "1,10", "--set", "probes=50"])
    assert stop.value.code in (0, None)
    line = " ".join(capsys.readouterr().out.split())
    assert "at most 165 requests for answers" in line  # 50 probes of three, and fifteen for the whole prompt
    assert "1,650 received" in line
    assert "cost about 0.0" in line
    assert not [path for path, _ in app.seen if path.startswith("/v1/chat")]


@pytest.mark.parametrize("need", ["continue_final_message", "nothing", "prefix"])
def test_a_chat_continues_its_answer(talking: Callable[..., Any], need: str) -> None:
    url, app = talking(continues=need)
    why = reagent.explain(reagent.load_model(url, score="text", parts=2), PROMPT, probes=40)
    assert {row.token.text.strip() for row in why.top(2)} == {"Japan", "capital"}
    begun = [body for _, body in app.seen if body.get("messages", [{}])[-1].get("content") == "To"]
    assert len(begun) > 20
    assert all(need == "nothing" or need in {*body, *body["messages"][-1]} for body in begun)
    assert why.cost.requests <= 2 * 41


def test_a_completed_text_is_continued_after_the_beginning(talking: Callable[..., Any]) -> None:
    url, app = talking(completions=True)
    why = reagent.explain(reagent.load_model(url, score="text", parts=2), PROMPT, probes=40)
    assert {row.token.text.strip() for row in why.top(2)} == {"Japan", "capital"}
    assert f"{PROMPT}To" in [body.get("prompt") for _, body in app.seen]


def test_parts_are_refused_where_answers_are_not_continued(talking: Callable[..., Any]) -> None:
    url, _ = talking()
    with pytest.raises(CapabilityError, match="does not continue an unfinished answer: leave out `parts`"):
        reagent.explain(reagent.load_model(url, score="text", parts=2), PROMPT)


def test_methods_are_compared_by_answers(talking: Callable[..., Any], tmp_path: Path) -> None:
    url, _ = talking()
    file = tmp_path / "methods.json"
    settings = ["--methods", "reagent,greedy", "--set", "greedy.removal=delete", "--json", str(file)]
    with pytest.raises(SystemExit) as stop:
        main(["compare", PROMPT, "--model", url, "--score", "text", *settings])
    assert stop.value.code in (0, None)
    ours, greedy = reagent.Comparison.load(file)
    assert {row.token.text.strip() for row in ours.top(2)} == {"Japan", "capital"}
    assert greedy.model["score"] == "text"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--answers", "3"], "--answers is for --score"),
        (["--score", "text", "--price", "3"], "--price is for --dry-run"),
        (["--score", "text", "--price", "3", "--dry-run"], "two numbers"),
        (["--score", "texts"], "did you mean 'text'"),
    ],
)
def test_bad_options_are_one_line(talking: Callable[..., Any], capsys: Any, more: list[str], message: str) -> None:
    url, _ = talking()
    with pytest.raises(SystemExit) as stop:
        main(["explain", PROMPT, "--model", url, *more])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_random_network_is_refused_as_a_proxy(
    talking: Callable[..., Any], truth: Truth, tmp_path: Path, capsys: Any
) -> None:
    url, app = talking()
    truth.network.save_pretrained(tmp_path)
    truth.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["explain", PROMPT, "--model", url, "--score", "text", "--proxy", str(tmp_path), "--quiet"])
    assert stop.value.code == 1
    assert "does not behave like" in " ".join(capsys.readouterr().err.split())
    assert len(app.seen) < 70


def _without_logprobs(reply: Any) -> Any:
    for choice in reply["choices"]:
        choice.pop("logprobs", None)
        choice.pop("prompt_logprobs", None)
    reply.pop("completion_probabilities", None)
    return reply


@pytest.mark.xdist_group("real servers")
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_llama_cpp_without_log_probabilities(llama: str, temperature: float) -> None:
    """The sentence that carries the answer with log-probabilities is found without them."""
    prompt = (
        "My aunt moved to Japan. Her old piano is in our garage. The cat is asleep. She rents a flat in the capital,"
    )
    with proxied(Proxy(llama, always=changed(_without_logprobs))) as url:
        with pytest.raises(reagent.ReagentError, match="no log-probabilities"):
            reagent.load_model(url)
        model = reagent.load_model(url, score="regex:Tokyo", temperature=temperature)
        assert isinstance(model, TextModel)
        why = reagent.explain(model, prompt, target=" Tokyo", max_new_tokens=2, units="sentence", probes=10)
    assert [row.token.text.strip() for row in why.top(2) if "Japan" in row.token.text]
    assert why.effect_unit == "share of matching answers"
    errors = why.stderr
    assert errors is not None
    assert not temperature or max(errors[0]) > 0
