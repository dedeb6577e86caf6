"""A user's own prompts: one per line, or a table with `prompt` and optionally `target` and other fields."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reagent.data.base import Dataset, Example, revision_of
from reagent.data.readers import TABLES, Row, read_examples, read_rows, read_text
from reagent.errors import FileError, InputError
from reagent.metrics.rationale import Annotation
from reagent.segmentation import Span

FIELDS = ("id", "prompt", "target", "group", "antecedent", "distractor", "plain")


def looks_like_file(name: str) -> bool:
    """Whether a name is meant as a file."""
    return Path(name).expanduser().exists() or Path(name).suffix != "" or "/" in name or "\\" in name


def load_file(path: Path) -> Dataset:
    """The prompts of a file."""
    path = path.expanduser()
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a folder: give a file of prompts, one per line, or {', '.join(TABLES)}")
    rows = read_rows(path) if path.suffix.lower() in TABLES else _lines(path)
    examples = read_examples(path.name, rows, read_example)
    return Dataset(
        id=path.name,
        source=str(path),
        revision=revision_of(examples),
        licence="yours",
        level="token" if all(example.target is not None for example in examples) else "sequence",
        max_new_tokens=10,
        stride=1,
        examples=examples,
    )


def read_example(row: Row) -> Example | None:
    """One row as an example; without an `id`, its number is its id."""
    prompt = row.text("prompt")
    if prompt is None:
        return None
    texts = {name: row.text(name) for name in ("target", "plain") if name in row.fields}
    return Example(
        id=str(_optional_field(row, "id", row.number)),
        prompt=prompt,
        target=texts.get("target"),
        group=str(_optional_field(row, "group", "")),
        antecedent=_spans(row, "antecedent", prompt),
        distractor=_spans(row, "distractor", prompt),
        plain=texts.get("plain"),
    )


def _optional_field(row: Row, name: str, otherwise: Any) -> Any:
    value = row.fields.get(name)
    return otherwise if value is None or value == "" else value


def _spans(row: Row, name: str, prompt: str) -> tuple[Span, ...]:
    """Marked parts of the prompt: as [start, end], as a text that occurs once, or as a list of either."""
    given = _optional_field(row, name, [])
    parts = [given] if isinstance(given, str) or _is_span(given) else given
    if not isinstance(parts, Sequence):
        raise FileError(f"{row.where}: {name!r} must be a part of the prompt or [start, end], got {given!r}")
    return tuple(_span(row, name, prompt, part) for part in parts)


def _span(row: Row, name: str, prompt: str, part: Any) -> Span:
    if isinstance(part, str):
        try:
            return Annotation.of_texts(prompt, part).antecedent[0]
        except InputError as error:
            raise FileError(f"{row.where}: {name!r}: {error}") from error
    if not _is_span(part) or not 0 <= part[0] < part[1] <= len(prompt):
        raise FileError(
            f"{row.where}: {name!r} must be a part of the prompt or [start, end] within its {len(prompt)} characters, "
            f"got {part!r}"
        )
    return int(part[0]), int(part[1])


def _is_span(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(end) is int for end in value)


def _lines(path: Path) -> list[Row]:
    lines = enumerate(read_text(path).splitlines(), start=1)
    return [Row(f"{path.name}, line {n}", n, {"prompt": line}) for n, line in lines if line.strip()]
