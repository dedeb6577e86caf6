"""The embedded model, behind a server that echoes and behind llama.cpp's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import reagent
from models.http.servers import Can, Echoing, serving
from reagent.models.http.model import HttpModel
from reagent.models.huggingface import HuggingFaceModel

pytestmark = pytest.mark.xdist_group("real servers")  # one worker starts them

PROBES: dict[str, Any] = {"max_new_tokens": 1, "preset": "leave-one-out", "replacer": "self", "probes": 16}


@pytest.fixture(scope="module")
def here(smollm2: HuggingFaceModel, prompt: str) -> reagent.Explanation:
    return reagent.explain(smollm2, prompt, **PROBES)


@pytest.fixture(scope="module")
def echoing(smollm2: HuggingFaceModel) -> Iterator[str]:
    with serving(Echoing(smollm2.network, smollm2.tokenizer, Can(name="smollm2"))) as url:
        yield url


def test_an_echo_gives_the_same_explanation_for_the_same_seed(
    echoing: str, here: reagent.Explanation, prompt: str
) -> None:
    there = reagent.explain(reagent.load_model(echoing, tokenizer="smollm2"), prompt, **PROBES)
    assert there.completion == here.completion == " Tokyo"
    for name in ("scores", "effects", "stderr"):
        np.testing.assert_allclose(getattr(there, name)[0], getattr(here, name)[0], atol=1e-3)
    assert there.cost.requests == PROBES["probes"] + 3


def test_llama_cpp_is_what_it_says_it_is(llama: str) -> None:
    model = reagent.load_model(llama)
    assert isinstance(model, HttpModel)
    assert model.server.tokenizes
    assert model.info["tokens"] == "of the server"
    assert model.info["backend"] == "http (next token)"


def test_llama_cpp_has_the_tokens_of_the_model(llama: str, smollm2: HuggingFaceModel, prompt: str) -> None:
    model = reagent.load_model(llama)
    assert isinstance(model, HttpModel)
    for text in (prompt, "a 🙂 b\n\n\tc  漢字 é"):
        here, there = smollm2.case(text, target=" Tokyo, yes"), model.case(text, target=" Tokyo, yes")
        assert [t.ids for t in here.units] == [t.ids for t in there.units]
    assert [(t.start, t.end) for t in model.case(prompt, " x").units] == [
        (t.start, t.end) for t in smollm2.case(prompt, " x").units
    ]
    assert model.ordinary_ids.tolist() == smollm2.ordinary_ids.tolist()
    assert model.ordinary_texts == smollm2.ordinary_texts


def test_through_llama_cpp_the_top_five_agree(llama: str, smollm2: HuggingFaceModel, prompt: str) -> None:
    """The same replacements, in quantised arithmetic; `self` would propose others where two are about as likely."""
    asked = PROBES | {"replacer": "random", "probes": 24}
    prompt = prompt[: prompt.index(" (")] + prompt[prompt.index(")") + 2 :]  # two sentences are enough
    here = reagent.explain(smollm2, prompt, **asked)
    there = reagent.explain(reagent.load_model(llama, top=2000), prompt, **asked)
    assert there.completion == " Tokyo"
    assert {c.position for c in there.top(5)} == {c.position for c in here.top(5)}
    assert np.corrcoef(there.effects[0], here.effects[0])[0, 1] > 0.97


def test_a_bias_recovers_what_llama_cpp_does_not_list(llama: str, smollm2: HuggingFaceModel, prompt: str) -> None:
    case = smollm2.case(prompt, target=" Seoul")
    few, exact = reagent.load_model(llama, top=5), reagent.load_model(llama, top=5, recover=True)
    whole = reagent.load_model(llama, top=2000)
    bound, value, real = (
        float(model.score(case.ids[None], case.positions, case.targets).logprob[0, 0]) for model in (few, exact, whole)
    )
    assert value == pytest.approx(real, abs=0.02)
    assert bound > real + 0.1
    assert (few.meter.censored, exact.meter.censored, whole.meter.censored) == (1, 0, 0)


def test_llama_cpp_chats(llama: str) -> None:
    model = reagent.load_model(llama)
    messages = [{"role": "user", "content": "Which city is the capital of Japan?"}]
    why = reagent.explain(model, messages, max_new_tokens=2, replacer="self", probes=8)
    assert len(why.output) == 2
    assert why.model["backend"] == "http chat (next token)"
    assert why.messages[0].role == "user"
