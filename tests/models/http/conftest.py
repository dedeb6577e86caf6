"""Servers for the tests of black boxes. All of them listen on the loopback device only."""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tiny
from models.http.servers import Can, Echoing, llama_cpp, serving
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.tokenization import TokenizerCodec, is_ordinary


class Truth(NamedTuple):
    """What a server should say: the model behind it, on this side."""

    network: Any
    tokenizer: Any
    folder: Path

    @property
    def local(self) -> HuggingFaceModel:
        return HuggingFaceModel(self.network, self.tokenizer, name="tiny")


@pytest.fixture(autouse=True)
def _no_keys_and_no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REAGENT_API_KEY", "OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """A tiny network that says whole characters only: half of one has no text that a server could write."""
    network, tokenizer = copy.deepcopy(tiny.network_of("gpt2")), tiny.tokenizer_of("gpt2")
    token_texts = TokenizerCodec(tokenizer).token_texts
    unsayable = [i for i in range(len(tokenizer)) if not is_ordinary(token_texts.get(i, ""))]

    def hush(_module: Any, _given: Any, logits: Any) -> Any:
        logits = logits.clone()
        logits[..., unsayable] -= 30
        return logits

    network.lm_head.register_forward_hook(hush)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return Truth(network, tokenizer, folder)


@pytest.fixture
def server(truth: Truth) -> Iterator[Callable[..., tuple[str, Echoing]]]:
    """Starts servers that can do what they are told to; they end with the test."""
    with ExitStack() as running:

        def start(**can: Any) -> tuple[str, Echoing]:
            app = Echoing(truth.network, truth.tokenizer, Can(**can))
            return running.enter_context(serving(app)), app

        yield start


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    from reagent.models.bundled import fetch_gguf

    with llama_cpp(fetch_gguf("smollm2")) as url:
        yield url
