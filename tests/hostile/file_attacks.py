"""Attacks by files: each ends in a valid result, or in one clear line.

`ATTACKS` has a function for each kind of file, which draws its damage from a random generator.
"""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hostile.mutations import ODD_VALUES, Random, assert_one_line, choose, mutate_bytes, mutate_document, to_json
from reagent import Citations, Comparison, Evaluation, Explanation, explain
from reagent.atomic_io import atomic_write
from reagent.bench.records import Cell, ModelRecord
from reagent.bench.store import Store
from reagent.bench.suite import parse, suites
from reagent.data.user_files import load_file
from reagent.documents import load_documents
from reagent.errors import ReagentError
from reagent.models.gguf.config import build_config
from reagent.models.gguf.header import read_header
from reagent.models.http.response_cache import ResponseCache
from reagent.views.html import to_view_data

Attack = Callable[[Random], None]
REPLIES = {f"key {i}": {"choices": [{"text": "a" * i, "logprob": -i / 7}]} for i in range(20)}


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder in which nothing half-written may stay."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        assert not list(Path(name).rglob("*.part")), "a half-written file"


@contextmanager
def one_line() -> Iterator[None]:
    """Any error inside must be one of reagent's, in one line."""
    try:
        yield
    except ReagentError as error:
        assert_one_line(error)


# --- JSON files of results ---


@cache
def explanation_json() -> dict[str, Any]:
    from web.service import PROMPT, capital_model

    return explain(capital_model(), PROMPT, max_new_tokens=2, what_if=True).to_dict()


@cache
def samples_json() -> tuple[dict[str, Any], ...]:
    """Explanations of every kind: chats, groups, tests, levels, phrases, contrasts."""
    from views.samples import every_kind

    return (explanation_json(), *(why.to_dict() for why in every_kind().values()))


@cache
def citations_json() -> dict[str, Any]:
    from views.citation_samples import make_citations

    return make_citations().to_dict()


@cache
def evaluation_json() -> dict[str, Any]:
    from reagent import evaluate
    from web.service import capital_model

    why = Explanation.from_dict(explanation_json())
    return evaluate(
        capital_model(), why, metrics=["lds", "sufficiency"], draws=2, probes=8, replacer="random"
    ).to_dict()


def explanation_file(rng: Random) -> None:
    _attack_result(
        choose(rng, samples_json()), Explanation, rng, lambda why: (to_view_data(why), str(why), why.warnings)
    )


def citations_file(rng: Random) -> None:
    _attack_result(citations_json(), Citations, rng, lambda cited: (cited.to_html(), cited.to_markdown(), str(cited)))


def evaluation_file(rng: Random) -> None:
    _attack_result(evaluation_json(), Evaluation, rng, str)


def comparison_file(rng: Random) -> None:
    data = [explanation_json(), explanation_json()]
    _attack_result(data, Comparison, rng, lambda compared: compared.to_html())


def _attack_result(data: Any, kind: Any, rng: Random, use: Callable[[Any], Any]) -> None:
    """What is loaded can be shown, saved, and loaded again."""
    content = to_json(mutate_document(data, rng)) if rng.random() < 0.7 else mutate_bytes(to_json(data), rng)
    with temporary_folder() as folder, one_line():
        (folder / "result.json").write_bytes(content)
        loaded = kind.load(folder / "result.json")
        use(loaded)
        loaded.save(folder / "again.json")
        assert to_json(_plain(kind.load(folder / "again.json"))) == to_json(_plain(loaded))


def _plain(result: Any) -> Any:
    return json.loads(result.to_json())


# --- models, suites, prompts and documents ---


@cache
def gguf_bytes() -> bytes:
    """The header of a small model, without most of its weights."""
    from gguf_files import write_model

    with tempfile.TemporaryDirectory() as name:
        return write_model(Path(name) / "a.gguf", "llama", quantisation="Q4_0").read_bytes()


def gguf_header(rng: Random) -> None:
    data, size = gguf_bytes(), 12_000
    with temporary_folder() as folder, one_line():
        path = folder / "a.gguf"
        with path.open("wb") as file:
            file.write(mutate_bytes(data[:size], rng))
            file.truncate(max(file.tell(), len(data) - int(rng.integers(2)) * 1000))
        build_config(read_header(path))


SUITE: dict[str, Any] = {
    "name": "x", "kind": "study", "summary": "s", "seeds": [0, 1], "sample_seed": 0, "needs": "",
    "models": [{"id": "smollm2", "dtype": "float32", "batch_size": 9, "parameters": 0.1, "device": "cpu"}],
    "datasets": [{"id": "longra", "size": 3, "max_new_tokens": 2, "stride": 1, "source": "bundled"}],
    "methods": [
        {"method": "reagent", "preset": "paper", "label": "a", "options": {"max_steps": 5}, "replacer": "random"},
        {"method": "occlusion", "options": {}, "replacer_options": {}, "datasets": ["longra"], "sizes": {"longra": 2}},
    ],
    "metrics": {"names": ["lds", "soft_nc"], "draws": 2, "pi": [0.3], "probes": 8, "ratio": 0.1, "replacer": "auto"},
}  # fmt: skip


def suite_file(rng: Random) -> None:
    if rng.random() < 0.8:
        text = "\n".join(f"{key} = {_toml(value)}" for key, value in mutate_document(SUITE, rng).items() if key)
    else:
        text = mutate_bytes(choose(rng, list(suites().values())).encode(), rng).decode("utf-8", "replace")
    with one_line():
        parse(text, "x")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if value is None:
        return "1979-05-27"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def prompts_file(rng: Random) -> None:
    rows = [{"id": "1", "prompt": "My aunt moved to Japan.", "target": "a", "antecedent": [3, 7]}, {"prompt": "b c"}]
    suffix = choose(rng, (".jsonl", ".json", ".csv", ".tsv", ".txt"))
    if suffix in (".csv", ".tsv"):
        content = b"id,prompt,target\n1,My aunt,a\n2,b,\n".replace(b",", b"\t" if suffix == ".tsv" else b",")
        content = mutate_bytes(content, rng)
    else:
        changed = [mutate_document(row, rng) for row in rows]
        content = to_json(changed) if suffix == ".json" else b"\n".join(map(to_json, changed))
        content = mutate_bytes(content, rng) if rng.random() < 0.3 else content
    with temporary_folder() as folder, one_line():
        (folder / f"a{suffix}").write_bytes(content)
        load_file(folder / f"a{suffix}")


def document_folder(rng: Random) -> None:
    """A folder with odd names, damaged files, and links in circles."""
    with temporary_folder() as folder, one_line():
        (folder / "a.txt").write_bytes(mutate_bytes(b"It is Ann. She left.", rng))
        lines = [to_json(mutate_document({"id": "x", "text": "One. Two."}, rng)) for _ in range(3)]
        (folder / "b.jsonl").write_bytes(b"\n".join(lines))
        (folder / "deep").mkdir()
        for name, target in (("deep/up", ".."), ("self.txt", "self.txt"), ("c.md", "d.md"), ("d.md", "c.md")):
            if rng.random() < 0.5:
                (folder / name).symlink_to(target)
        if rng.random() < 0.3:
            os.mkdir(folder / "folder.txt")
        paths = [folder, folder / "self.txt", folder / "c.md", folder / "deep", folder / "folder.txt", folder / "a.txt"]
        load_documents([choose(rng, paths)])


def written_path(rng: Random) -> None:
    """A result is written whole, or there is one clear line and the old file stays."""
    why = Explanation.from_dict(explanation_json())
    with temporary_folder() as folder, one_line():
        (folder / "old.json").write_text("old")
        (folder / "loop").symlink_to("loop")
        (folder / "link.json").symlink_to("old.json")
        name = choose(
            rng, ("old.json", "loop", "loop/a.json", "link.json", ".", "no/a.json", "a" * 300, "a\0b", "\ud800")
        )
        text = why.to_json() if rng.random() < 0.5 else str(choose(rng, ODD_VALUES))
        atomic_write(folder / name, text)
        assert (folder / name).read_text("utf-8") == text


# --- stores and caches ---


@cache
def store_bytes() -> tuple[bytes, list[Cell]]:
    why = Explanation.from_dict(explanation_json())
    measured = Evaluation.from_dict(evaluation_json())
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.sqlite"
        with Store.open(path, write=True) as store:
            store.begin({"suite": "s", "kind": "study", "planned": 6, "text": "t", "version": "1"})
            store.put_model("m", ModelRecord({"id": "m"}, {"d": (("1", "a"), ("2", None))}))
            store.put([_cell(str(i), why, measured if i % 2 else None) for i in range(6)], {"tokens": 5})
        with Store.open(path) as store:
            cells = list(store.cells(None))
        return path.read_bytes(), cells


def _cell(example: str, why: Explanation, measured: Evaluation | None) -> Cell:
    options = {"preset": "fast", "probes": 4}
    return Cell(
        f"key {example}", "s", "m", "d", "token", example, "g", "reagent", "reagent", options, 0, "done", None, why,
        measured, 1.5, f"explained {example}",
    )  # fmt: skip


def damaged_store(rng: Random) -> None:
    """Every change is found, or changes nothing that is read."""
    data, cells = store_bytes()
    with temporary_folder() as folder, one_line():
        path = folder / "a.sqlite"
        path.write_bytes(mutate_bytes(data, rng) if rng.random() < 0.5 else _flip_one_bit(data, rng))
        with Store.open(path, write=bool(rng.integers(2))) as store:
            assert list(store.cells(None)) == cells, "a changed cell was read"
            assert store.facts()["planned"] == 6
            assert set(store.states()) == {cell.place for cell in cells}
            for cell in cells:
                assert store.explanation(cell.explained) in (cell.explanation, None)


def damaged_old_store(rng: Random) -> None:
    """A store of an earlier version has checksums only of its compressed parts."""
    data, _ = store_bytes()
    with temporary_folder() as folder, one_line():
        path = folder / "a.sqlite"
        path.write_bytes(data)
        database = sqlite3.connect(path)
        for table in ("facts", "models", "cells"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        database.execute("PRAGMA user_version = 1")
        database.commit()
        database.close()
        path.write_bytes(_flip_one_bit(path.read_bytes(), rng))
        with Store.open(path) as store:
            list(store.cells(None))
            store.facts()
            store.states()
            store.explanation("explained 1")


@cache
def cache_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        replies = ResponseCache(Path(name) / "a.sqlite")
        for key, reply in REPLIES.items():
            replies.put(key, reply)
        replies.close()
        return (Path(name) / "a.sqlite").read_bytes()


def damaged_reply_cache(rng: Random) -> None:
    data = cache_bytes()
    with temporary_folder() as folder, one_line():
        path = folder / "a.sqlite"
        path.write_bytes(mutate_bytes(data, rng) if rng.random() < 0.5 else _flip_one_bit(data, rng))
        replies = ResponseCache(path)
        try:
            for key, reply in REPLIES.items():
                assert replies.get(key) in (reply, None), "a changed reply was read"
            replies.put("new", {"a": 1})
        finally:
            replies.close()


def _flip_one_bit(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        explanation_file, citations_file, evaluation_file, comparison_file, gguf_header, suite_file, prompts_file,
        document_folder, written_path, damaged_store, damaged_old_store, damaged_reply_cache,
    )
}  # fmt: skip
