"""Servers that break their promises: a valid explanation, or one clear line."""

from pathlib import Path

import pytest

import reagent
from hostile.scripted_server import ScriptedServer, running

PROMPT = "The moon rises in the east of Japan, and music is"


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
