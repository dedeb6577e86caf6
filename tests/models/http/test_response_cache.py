"""Replies are found again, whatever happens to the file."""

import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reagent.errors import FileError
from reagent.models.http.response_cache import ResponseCache


def test_a_reply_is_found_again_by_server_model_parameters_and_prompt(tmp_path: Path) -> None:
    body = {"model": "m", "prompt": [1, 2], "logprobs": 5}
    key = ResponseCache.request_key("http://a/v1/completions", body)
    store = ResponseCache(tmp_path / "c.sqlite")
    store.put(key, {"choices": ["é"]})
    store.close()
    again = ResponseCache(tmp_path / "c.sqlite")
    assert again.get(key) == {"choices": ["é"]}
    others = [body | {"model": "n"}, body | {"prompt": [1, 3]}, body | {"logprobs": 6}]
    assert [again.get(ResponseCache.request_key("http://a/v1/completions", other)) for other in others] == [None] * 3
    assert again.get(ResponseCache.request_key("http://b/v1/completions", body)) is None


def test_two_at_once_may_write(tmp_path: Path) -> None:
    stores = [ResponseCache(tmp_path / "c.sqlite") for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: stores[i % 2].put(str(i), i), range(200)))
    assert [stores[1].get(str(i)) for i in range(200)] == list(range(200))


def test_what_is_no_cache_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look like a file " * 40)
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    for path, message in (
        (tmp_path / "text", "cannot use the cache"),
        (tmp_path / "other.sqlite", "is a database of another program"),
        (tmp_path / "no" / "such.sqlite", "cannot use the cache"),
        (tmp_path, "cannot use the cache"),
    ):
        with pytest.raises(FileError, match=message) as caught:
            ResponseCache(path)
        assert "\n" not in str(caught.value)
    assert sqlite3.connect(tmp_path / "other.sqlite").execute("SELECT count(*) FROM mine").fetchone() == (0,)


def test_a_damaged_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = ResponseCache(path)
    for i in range(300):
        store.put(str(i), "x" * 100)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    with pytest.raises(FileError, match="may be damaged"):
        ResponseCache(path).get("7")


@pytest.mark.parametrize("reply", [b"", b"x", zlib.compress(b"{}")[:-1], zlib.compress(b"{"), "text", 5])
def test_a_damaged_row_is_one_clear_line(tmp_path: Path, reply: object) -> None:
    path = tmp_path / "cache.sqlite"
    cache = ResponseCache(path)
    cache.put("key", {"a": 1})
    cache.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE replies SET reply = ?", (reply,))
    database.close()
    cache = ResponseCache(path)
    with pytest.raises(FileError, match="may be damaged"):
        cache.get("key")
    cache.close()
