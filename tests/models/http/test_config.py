"""Addresses, options and keys."""

import subprocess
import sys

import pytest

from models.http.servers import a_port_where_nobody_listens
from reagent import load_model
from reagent.errors import InputError, ReagentError, ServerError
from reagent.models.http.config import ServerAddress


@pytest.mark.parametrize(
    ("url", "root", "api", "model"),
    [
        ("http://h:8000", "http://h:8000", "http://h:8000/v1", None),
        ("http://h:8000/", "http://h:8000", "http://h:8000/v1", None),
        ("http://h:8000/v1", "http://h:8000", "http://h:8000/v1", None),
        ("http://h/v1/#org/model:7b", "http://h", "http://h/v1", "org/model:7b"),
        ("https://h/openai/v1", "https://h/openai", "https://h/openai/v1", None),
        ("https://h/api/v3#m", "https://h/api", "https://h/api/v3", "m"),
    ],
)
def test_addresses(url: str, root: str, api: str, model: str | None) -> None:
    assert ServerAddress.parse(url) == ServerAddress(root, api, model)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://", "names no host"),
        ("http://h:port", "is not a URL"),
        ("http://h:99999", "is not a URL"),
        ("http://me:hunter2@h", "no password"),
        ("http://h/v1?key=hunter2", "no query"),
    ],
)
def test_bad_addresses_are_one_line_without_secrets(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_model(url)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "`concurrency` of a server must be a whole number from 1"),
        ({"rate": 0}, "`rate` of a server must be at least"),
        ({"timeout": -1}, "`timeout` of a server must be"),
        ({"retries": 1.5}, "`retries` of a server must be a whole number"),
        ({"colour": 1}, "has no option 'colour'. It has: tokenizer, cache, concurrency, rate"),
        ({"device": "cpu"}, "a server has its own device"),
        ({"revision": "main"}, "a server has its own revision"),
    ],
)
def test_bad_options_are_found_before_anything_is_asked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(f"http://127.0.0.1:{a_port_where_nobody_listens()}", **options)


def test_options_of_a_server_are_refused_elsewhere() -> None:
    with pytest.raises(InputError, match="only a server has the option 'cache'"):
        load_model("smollm2", cache="x.sqlite")


def test_a_server_that_is_not_there_is_one_line_at_once() -> None:
    port = a_port_where_nobody_listens()
    with pytest.raises(ServerError, match=rf"127\.0\.0\.1:{port}/v1 cannot be reached.*is it running") as caught:
        load_model(f"http://127.0.0.1:{port}", backoff=1000.0)
    assert caught.value.exit_code == 1
    assert isinstance(caught.value, ReagentError)


def test_where_the_key_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    here, safe, open_air = (
        ServerAddress.parse(url) for url in ("http://localhost:1", "https://h", "http://192.168.0.7")
    )
    assert [address.key() for address in (here, safe, open_air)] == [None] * 3
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    assert [address.key() for address in (here, safe, open_air)] == ["sk-theirs", "sk-theirs", None]
    monkeypatch.setenv("REAGENT_API_KEY", " rg-mine\n")
    assert [address.key() for address in (here, safe, open_air)] == ["rg-mine"] * 3
    monkeypatch.setenv("REAGENT_API_KEY", "clé")
    with pytest.raises(InputError, match="cannot be sent") as caught:
        safe.key()
    assert "clé" not in str(caught.value)


def test_a_plain_import_loads_no_http_library() -> None:
    check = (
        "import reagent, reagent.cli.app, reagent.cli.catalog, reagent.models, sys; "
        "assert not {'httpx2', 'sqlite3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
