"""Servers that break their promises: a valid explanation, or one clear line."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from hostile.scripted_server import Rejection, ScriptedServer, endless, gzip_bomb, running, trickle
from hostile.server_attacks import ATTACKS, BRISK, PROMPT, assert_one_line
from reagent.errors import ServerError


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_tokens_of_an_echo_are_plain(tmp_path: Path) -> None:
    with running(ScriptedServer()) as url:
        why = reagent.explain(reagent.load_model(url), PROMPT, max_new_tokens=2, probes=8)
    assert why.model["tokens"] == "of the server, by their text"
    numbers = [number for token in (*why.input, *why.output) for number in (*token.ids, token.start, token.end)]
    assert {type(number) for number in numbers} == {int}
    assert reagent.load(why.save(tmp_path / "why.json")) == why


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_end_in_an_explanation_or_in_one_line(name: str) -> None:
    for seed in range(2):
        ATTACKS[name](np.random.default_rng(seed))


def spoiled_after_start(change: Any, **kind: bool) -> Any:
    """The error of an explanation whose replies are spoiled once the model is connected."""
    server = ScriptedServer(**kind)
    with running(server) as url:
        model = reagent.load_model(url, **BRISK)
        server.spoil = lambda _path, reply: change(reply)
        with pytest.raises(ServerError) as caught:
            reagent.explain(model, PROMPT, max_new_tokens=2, probes=8)
    assert_one_line(str(caught.value))
    return caught


def with_logprobs(**changes: Any) -> Any:
    def change(reply: Any) -> Any:
        logprobs = reply["choices"][0]["logprobs"]
        reply["choices"][0]["logprobs"] = logprobs | {name: act(logprobs[name]) for name, act in changes.items()}
        return reply

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: endless, "returned more than 1 MB: the server is faulty"),
        (lambda _: gzip_bomb(64 * 2**20), "returned more than 1 MB: the server is faulty"),
        (lambda _: b"[" * 10**5, "nested too deeply"),
        (lambda _: b'{"choices": [{"text": "\\ud800"}]}', "lone surrogate"),
        (lambda _: {"choices": [{"text": 3}]}, "is not that of an OpenAI-compatible API"),
        (with_logprobs(text_offset=lambda given: list(map(str, given))), "is not that of an OpenAI-compatible API"),
        (with_logprobs(text_offset=lambda given: [-1 for _ in given]), "is not that of an OpenAI-compatible API"),
        (with_logprobs(token_logprobs=lambda given: [False for _ in given]), "is not that of an OpenAI"),
        (with_logprobs(token_logprobs=lambda given: [10**400 for _ in given]), "returned a huge number as a log-prob"),
        (with_logprobs(tokens=lambda given: ["x" * len(token) for token in given]), "do not spell the prompt: 'xxx'"),
        (with_logprobs(tokens=lambda given: given[1:]), "is not that of an OpenAI-compatible API"),
    ],
)
def test_malformed_replies_are_one_clear_line(change: Any, message: str) -> None:
    assert message in str(spoiled_after_start(change).value)


def test_a_body_without_end_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        for endless_reply in (endless, gzip_bomb(256 * 2**20)):
            tracemalloc.reset_peak()
            spoiled_after_start(lambda _, reply=endless_reply: reply)
            assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


def test_a_body_that_trickles_ends_at_the_deadline() -> None:
    server = ScriptedServer(spoil=lambda _path, _reply: trickle(0.02))
    with running(server) as url, pytest.raises(ServerError, match=r"did not finish its response within 0\.2 s"):
        reagent.load_model(url, **BRISK | {"deadline": 0.2})


def test_escape_codes_of_a_server_are_not_shown() -> None:
    def refuse(_path: str, _reply: Any) -> Any:
        raise Rejection(400, "no \x1b[31mred\x1b[0m\n\x07and \u202e")

    with running(ScriptedServer(spoil=refuse)) as url, pytest.raises(ServerError, match=r"no .*red.* .and") as caught:
        reagent.load_model(url, **BRISK)
    assert_one_line(str(caught.value))


def test_a_server_that_writes_more_than_was_asked_for() -> None:
    server = ScriptedServer(echo=False)
    with running(server) as url:
        model = reagent.load_model(url, **BRISK)
        server.spoil = lambda _path, reply: with_logprobs(
            tokens=double, token_logprobs=double, top_logprobs=double, text_offset=double
        )(reply)
        with pytest.raises(ServerError, match="returned 4 tokens where 2 were requested"):
            reagent.explain(model, PROMPT, max_new_tokens=2, probes=8)


def double(values: list[Any]) -> list[Any]:
    return values * 2
