"""A server whose log-probabilities vary is noticed, and its noise is part of the standard errors."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from hostile.scripted_server import ScriptedServer, running
from reagent.api.estimate import estimate_requests
from reagent.explanation import Explanation
from reagent.request import ExplainRequest
from reagent.testing import ScriptedModel

PROMPT = "The moon rises in the east of Japan, and music is"
QUESTION: dict[str, Any] = {"target": " in the", "probes": 16}
KINDS = pytest.mark.parametrize("echo", [True, False])


def explain(echo: bool, noise: float, **options: Any) -> tuple[Explanation, int]:
    """The explanation, and the number of requests for it."""
    server = ScriptedServer(echo=echo, noise=noise, top=20)
    with running(server) as url:
        model = reagent.load_model(url, concurrency=1, **options)
        before = len(server.paths)
        why = reagent.explain(model, PROMPT, **QUESTION)
        return why, len(server.paths) - before


@KINDS
def test_a_constant_server_costs_one_request_more(echo: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    why, requests = explain(echo, 0.0)
    monkeypatch.setattr("reagent.api.run.measure_noise", lambda *_: None)
    without, fewer = explain(echo, 0.0)
    assert requests == fewer + 1
    assert why.cost.requests == without.cost.requests + 1
    assert (why.noise, without.noise) == (0.0, None)
    assert (why.stderr, why.effects) == (without.stderr, without.effects)
    assert why.warnings == without.warnings


@KINDS
def test_noise_is_told_and_carried_into_the_errors(echo: bool, caplog: pytest.LogCaptureFixture) -> None:
    exact, _ = explain(echo, 0.0)
    with caplog.at_level(logging.WARNING):
        why, _ = explain(echo, 0.3)
    assert why.noise == pytest.approx(0.3, rel=0.8)
    assert caplog.text.count("other log-probabilities for the same request") == 1
    assert any("other log-probabilities for the same request" in warning for warning in why.warnings)
    assert why.stderr is not None
    assert why.effects is not None
    assert exact.effects is not None
    off = np.array(why.effects[1]) - np.array(exact.effects[1])
    free = [not unit.protected for unit in why.context(1)]
    error = np.array(why.stderr[1])
    assert error[free].min() >= np.sqrt(2) * 0.1
    assert np.mean(np.abs(off[free]) <= 2.5 * error[free]) > 0.9
    assert np.abs(off[free]).max() > 0.1  # without the noise in the errors, this would be many of them
    assert why.answer is not None
    assert why.answer.stderr is not None
    assert max(why.answer.stderr) > 0.1


@KINDS
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_estimate_counts_the_repetitions(echo: bool, noise: float) -> None:
    server = ScriptedServer(echo=echo, noise=noise, top=20)
    with running(server) as url:
        model = reagent.load_model(url)
        request = ExplainRequest.build(PROMPT, target=" in the", options={"probes": 16})
        estimate = estimate_requests(model, request).requests
        before = len(server.paths)
        estimated = len(server.paths)
        assert estimated == before  # no request
        why = reagent.explain(model, PROMPT, **QUESTION)
    assert why.cost.requests <= estimate


def test_repetitions_are_stored_like_all_responses(tmp_path: Path) -> None:
    cache = tmp_path / "responses.sqlite"
    server = ScriptedServer(noise=0.3)
    with running(server) as url:
        first = reagent.explain(reagent.load_model(url, cache=cache), PROMPT, **QUESTION)
        again = reagent.explain(reagent.load_model(url, cache=cache), PROMPT, **QUESTION)
    assert again.noise == first.noise
    assert again.stderr == first.stderr
    assert again.cost.requests < first.cost.requests / 2


def test_citations_have_the_noise_too() -> None:
    documents = ["The sun rises in the east.", "The moon is in Japan."]
    with running(ScriptedServer(noise=0.3, top=20, chats=True)) as url:
        citations = reagent.cite(reagent.load_model(url), "Where?", documents, "in")
    assert citations.noise == pytest.approx(0.3, rel=0.9)
    assert min(source.stderr or 0.0 for source in citations.whole.documents) > 0.05


def test_a_model_on_this_machine_is_not_repeated() -> None:
    model = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    assert reagent.explain(model, "c a b", max_new_tokens=1).noise is None
