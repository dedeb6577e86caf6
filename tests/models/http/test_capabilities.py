"""What a server can do is found out, with few requests and without guessing from its name."""

from collections.abc import Callable
from typing import Any

import pytest

from models.http.conftest import Truth
from reagent import load_model
from reagent.errors import InputError, ServerError, UnknownNameError
from reagent.models.base import Meter
from reagent.models.http.capabilities import (
    ChatCapabilities,
    CompletionCapabilities,
    detect_chat,
    detect_completions,
    detect_server,
)
from reagent.models.http.client import Client
from reagent.models.http.config import ServerAddress, ServerOptions
from reagent.models.http.tokenizers import load_tokenizer


@pytest.fixture
def detect(server: Callable[..., Any], truth: Truth) -> Callable[..., Any]:
    codec = load_tokenizer(str(truth.folder))

    def ask(top: int = 20, **can: Any) -> tuple[CompletionCapabilities | None, ChatCapabilities | None, int]:
        url, app = server(**can)
        client = Client(ServerAddress.parse(url), ServerOptions(top=top), Meter())
        known = detect_server(client)
        text = detect_completions(client, known.model, known.ids, codec.find_id, bias=True)
        return text, detect_chat(client, known.model), len(app.seen)

    return ask


def test_what_servers_can_do_is_found_out(detect: Callable[..., Any]) -> None:
    usual = CompletionCapabilities(top=20, echo="echo", accepts_ids=True)
    assert detect()[0] == usual
    assert detect(echo=False)[0] == CompletionCapabilities(top=20, accepts_ids=True)
    assert detect(ids=False)[0] == CompletionCapabilities(top=20, echo="echo")
    assert detect(most=5)[0] == CompletionCapabilities(top=5, echo="echo", accepts_ids=True)
    assert detect(top=3)[0] == CompletionCapabilities(top=3, echo="echo", accepts_ids=True)
    for bias in ("biased", "unbiased"):
        assert detect(bias=bias)[0] == CompletionCapabilities(top=20, echo="echo", accepts_ids=True, bias=bias)
    named = detect(reports_ids_on_request=True, prompt_logprobs=True)[0]
    assert named == CompletionCapabilities(
        top=20, echo="prompt_logprobs", accepts_ids=True, reports_ids_on_request=True
    )


def test_chats_are_told_from_completions(detect: Callable[..., Any]) -> None:
    assert detect()[1] is None
    assert detect(completions=False, chat=True)[:2] == (None, ChatCapabilities(top=20, continues=True))
    assert detect(chat=True, continues=False, most=5)[1] == ChatCapabilities(top=5, continues=False)


def test_a_few_small_requests_are_enough(server: Callable[..., Any]) -> None:
    url, app = server()
    load_model(url)
    bodies = [body for _, body, _ in app.seen if body and "max_tokens" in body]
    assert len(bodies) <= 3
    assert all(body["max_tokens"] == 1 for body in bodies)


def test_which_model_is_asked(server: Callable[..., Any]) -> None:
    url, _ = server(name="org/one")
    assert load_model(url).info["id"] == load_model(f"{url}/v1#org/one").info["id"] == f"{url}#org/one"
    with pytest.raises(UnknownNameError, match=r"unknown model on .* 'org/on', did you mean 'org/one'\?"):
        load_model(f"{url}#org/on")


def test_a_server_that_lists_no_models(server: Callable[..., Any]) -> None:
    url, _ = server(lists_models=False)
    with pytest.raises(InputError, match=r"name the model on this server, as .*#NAME: it does not list its models"):
        load_model(url)
    assert load_model(f"{url}#tiny").info["id"] == f"{url}#tiny"
    with pytest.raises(InputError, match=r"does not exist.*'other'"):
        load_model(f"{url}#other")


def test_a_server_without_log_probabilities(server: Callable[..., Any]) -> None:
    url, _ = server(completions=False)
    with pytest.raises(ServerError, match="returns no log-probabilities, neither for completions nor for chats"):
        load_model(url)


def test_a_tokenizer_of_another_model_is_refused(server: Callable[..., Any]) -> None:
    url, _ = server()
    with pytest.raises(InputError, match="is not that of 'tiny'"):
        load_model(url, tokenizer="smollm2", retries=0)


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder"])
def test_a_tokenizer_that_is_not_there(server: Callable[..., Any], name: str) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        load_model(server()[0], tokenizer=name)


def test_recovering_needs_a_server_that_can(server: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="cannot recover exact values"):
        load_model(server(echo=False)[0], recover=True)
