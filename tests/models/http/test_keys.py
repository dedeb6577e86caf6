"""The key comes from the environment, and goes to the server and nowhere else."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reagent
from reagent.errors import ServerError
from reagent.models.http.model import HttpModel

KEY = "sk-very-secret-0123456789"
PROMPT = "My aunt moved to Japan."


@pytest.mark.parametrize("name", ["REAGENT_API_KEY", "OPENAI_API_KEY"])
def test_the_key_is_sent_and_left_nowhere(
    server: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.setenv(name, KEY)
    url, app = server(key=KEY)
    with caplog.at_level(logging.DEBUG):
        model = reagent.load_model(url, cache=tmp_path / "replies.sqlite")
        assert isinstance(model, HttpModel)
        why = reagent.explain(model, PROMPT, max_new_tokens=1, replacer="self", probes=8)
        found = reagent.evaluate(model, why, ["lds"], probes=8, replacer="self")
    assert all(headers.get("Authorization") == f"Bearer {KEY}" for _, _, headers in app.seen)
    why.save(tmp_path / "why.json")
    why.to_html(tmp_path / "why.html")
    why.show()
    found.save(tmp_path / "found.json")
    model.client.responses.close()
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), path
    printed = capsys.readouterr()
    for text in (caplog.text, printed.out, printed.err, repr(model), repr(vars(model)), repr(why), str(model.info)):
        assert KEY not in text


def test_a_server_that_repeats_the_key_in_an_error(server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_API_KEY", KEY)
    url, _ = server(key="another", answer_key=True)
    with pytest.raises(ServerError, match=r"answered 401: wrong key: Bearer \*\*\*; set the key") as caught:
        reagent.load_model(url)
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_without_a_key_the_error_says_where_to_put_it(server: Callable[..., Any]) -> None:
    with pytest.raises(ServerError, match="answered 401: wrong key; set the key of this server in the environment"):
        reagent.load_model(server(key=KEY)[0])
