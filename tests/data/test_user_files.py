"""A user's own prompts, and what is said when something is wrong with them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reagent.data import load_dataset
from reagent.data.readers import LONGEST
from reagent.errors import FileError, InputError, UnknownNameError

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def call(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return call


def test_one_prompt_per_line(write: Write) -> None:
    path = write("prompts.txt", "\ufeffThe first,\r\n\n  \nThe second, with “quotes” and a\ttab\n")
    found = load_dataset(path)
    assert [(e.id, e.prompt) for e in found.examples] == [
        ("1", "The first,"),
        ("4", "The second, with “quotes” and a\ttab"),
    ]
    assert all(e.target is None for e in found.examples)
    assert (found.id, found.source, found.level, found.stride) == ("prompts.txt", path, "sequence", 1)


def test_json_lines_with_targets_and_marks(write: Write) -> None:
    rows = [
        {"prompt": "We love Japan. (It rains). The capital,", "target": " Tokyo", "antecedent": "Japan",
         "distractor": [[15, 26]], "group": "cities", "id": "jp"},
        {"prompt": "In Peru,", "target": " we", "antecedent": [3, 7], "distractor": [], "note": "ignored"},
    ]  # fmt: skip
    found = load_dataset(write("own.jsonl", "\n".join(map(json.dumps, rows))))
    first, second = found.examples
    assert (first.id, first.group, first.target) == ("jp", "cities", " Tokyo")
    assert first.prompt[slice(*first.antecedent[0])] == "Japan"
    assert first.prompt[slice(*first.distractor[0])] == "(It rains)."
    assert second.prompt[slice(*second.antecedent[0])] == "Peru"
    assert (second.id, second.distractor) == ("2", ())
    assert found.level == "token", "every row has its target"
    assert first.plain is None, "only LongRA is filtered by what a model knows"


ROWS = [{"prompt": "One day, a\nfox", "target": " ran"}, {"prompt": 'He said "no",', "target": " and"}]


def as_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["prompt", "target"])
        writer.writeheader()
        writer.writerows(ROWS)


def as_parquet(path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(ROWS), path)


WRITERS = {
    "a.csv": as_csv,
    "a.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8"),
    "a.json": lambda path: path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8"),
    "b.json": lambda path: path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8"),
    "a.parquet": as_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_table_says_the_same(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    found = load_dataset(str(tmp_path / name))
    assert [(e.prompt, e.target) for e in found.examples] == [(row["prompt"], row["target"]) for row in ROWS]


def test_an_empty_target_is_none(write: Write) -> None:
    found = load_dataset(write("a.csv", "prompt,target\nOne day,\nOne night, it was\n"))
    assert [e.target for e in found.examples] == [None, " it was"]
    assert found.level == "sequence"


def test_rows_that_cannot_be_used_are_left_out_with_a_word(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["", "A fine day,", "   ", "x" * (LONGEST + 1), None]
    found = load_dataset(write("a.jsonl", "\n".join(json.dumps({"prompt": row}) for row in rows)))
    assert [e.prompt for e in found.examples] == ["A fine day,"]
    log = caplog.text
    assert "left out, since they are empty: a.jsonl, line 1; a.jsonl, line 3; a.jsonl, line 5\n" in log
    assert "left out, since they are longer than 100,000 characters: a.jsonl, line 4\n" in log


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "a.txt holds no example: it is empty"),
        ("a.txt", "\n \n", "a.txt holds no example: it is empty"),
        ("a.jsonl", '{"prompt": ""}\n', "a.jsonl holds no example: all its rows are empty or too long"),
        ("a.csv", "", "a.csv holds no example: it is empty"),
        ("a.jsonl", '{"prompt": "One"}\n{"text": "Two"}\n', "a.jsonl, line 2 has no field 'prompt'; it has: text"),
        ("a.jsonl", '{"prompt": "One"}\n\n{"prompt": \n', "a.jsonl, line 3 is not JSON .*one JSON object per line"),
        ("a.jsonl", '["One"]\n', "a.jsonl, line 1 is not a JSON object"),
        ("a.json", '[{"prompt": "One"}, 7]', "a.json, entry 2 is not a JSON object"),
        ("a.json", "[{", "a.json' is not JSON"),
        ("a.jsonl", '{"prompt": 7}\n', "a.jsonl, line 1: 'prompt' must be text, got 7"),
        ("a.jsonl", '{"prompt": "One", "target": [" x"]}\n', "a.jsonl, line 1: 'target' must be text"),
        ("a.jsonl", '{"prompt": "One", "antecedent": "Two"}\n', "line 1: 'antecedent': 'Two' occurs .* 0 times"),
        (
            "a.jsonl",
            '{"prompt": "One", "distractor": [[1, 9]]}\n',
            r"line 1: 'distractor' .* 3 characters, got \[1",
        ),
        ("a.jsonl", '{"prompt": "One", "distractor": 5}\n', "line 1: 'distractor' must be a part of the prompt"),
        ("a.jsonl", '{"prompt": "A", "id": "x"}\n{"prompt": "B", "id": "x"}\n', "'x' occurs twice"),
        ("a.csv", "prompt\nOne, two\n", "a.csv, line 2 has more cells than the 1 names"),
        ("a.csv", 'prompt\n"One\n', "a.csv, line 2 cannot be read"),
        ("a.csv", "text\nOne\n", "a.csv, line 2 has no field 'prompt'; it has: text"),
        ("a.txt", "good\ncaf\xe9\n".encode("latin-1"), "a.txt', line 2, is not UTF-8 .*save the file as UTF-8"),
        ("a.txt", "One day".encode("utf-16"), "a.txt', line 1, is not UTF-8"),
        ("a.jsonl", b'{"prompt": "\xff"}', "a.jsonl', line 1, is not UTF-8"),
        ("a.parquet", b"PAR1 is not enough", "a.parquet' is not a readable Parquet file"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(write: Write, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_dataset(write(name, content))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*none.jsonl': No such file"):
        load_dataset(str(tmp_path / "none.jsonl"))
    with pytest.raises(FileError, match="is a folder: give a file of prompts"):
        load_dataset(str(tmp_path))


def test_a_name_that_nothing_answers_to() -> None:
    with pytest.raises(UnknownNameError, match="unknown dataset 'longro', did you mean 'longra'"):
        load_dataset("longro")


def test_a_file_has_no_other_source(write: Write) -> None:
    with pytest.raises(InputError, match="is a file: leave out the source"):
        load_dataset(write("a.txt", "One day,"), "hub")
