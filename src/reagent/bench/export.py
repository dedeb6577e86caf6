"""Explanations as JSON lines, and the results of several shards in one file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reagent.atomic_io import atomic_write
from reagent.bench.records import Cell, ModelRecord
from reagent.bench.store import Store
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation, Token


def write_jsonl(path: str | Path, out: str | Path) -> Path:
    """The explanations of a file of results as JSON, one per line, in the order of their examples."""
    with Store.open(path) as store:
        lines = [cell.explanation.to_json() for cell in store.cells() if cell.explanation is not None]
    return atomic_write(out, "".join(line + "\n" for line in lines))


def merge(paths: Sequence[str | Path], out: str | Path, texts: bool = True) -> int:
    """Merge the results of shards of one suite into `out`; returns the number of cells.

    Without `texts`, only numbers are kept: no prompt, output or token. For texts that may not be redistributed.
    """
    if Path(out).resolve() in [Path(path).resolve() for path in paths]:
        raise InputError(f"{str(out)!r} is one of the files to merge: give another file")
    with Store.open(out, write=True) as joined:
        missing = _count_missing(joined)
        for path in paths:
            with Store.open(path) as part:
                _add(part, joined, texts)
                missing += _count_missing(part)
        count = len(joined.states())
        joined.begin({"planned": count + missing})
        return count


def _count_missing(store: Store) -> int:
    """The planned cells that are not computed yet."""
    return max(0, int(store.facts().get("planned", 0)) - len(store.states()))


def _add(part: Store, joined: Store, texts: bool) -> None:
    theirs, ours = dict(part.facts()), joined.facts()
    for name in ("suite", "text"):
        if ours.get(name, theirs.get(name)) != theirs.get(name):
            raise FileError(
                f"{str(part.path)!r} belongs to another suite than the others: merge shards of one suite, unchanged"
            )
    records = joined.models()
    for model, record in part.models().items():
        if model in records and records[model].info != record.info:
            raise FileError(
                f"{model!r} is not the same model in {str(part.path)!r} as in the others ({dict(record.info)}, not "
                f"{dict(records[model].info)}): merge shards of the same models"
            )
        joined.put_model(model, record if texts else _without_targets(record))
    cost = theirs.pop("cost", {})
    theirs.pop("models", None)
    if not ours.get("suite"):
        joined.begin(theirs)
    cells = part.cells(None)
    joined.put(cells if texts else map(_without_texts, cells), cost)


def _without_texts(cell: Cell) -> Cell:
    why, evaluation = cell.explanation, cell.evaluation
    return replace(
        cell,
        error=cell.error and "failed",  # error messages may quote the text
        explanation=why and _numbers_of(why),
        evaluation=evaluation and replace(evaluation, warnings=()),
    )


def _numbers_of(why: Explanation) -> Explanation:
    return replace(
        why,
        prompt="",
        completion="",
        input=_without_text(why.input),
        output=_without_text(why.output),
        target={name: value for name, value in why.target.items() if name in ("kind", "index", "logprob")},
        levels=tuple(replace(level, units=_without_text(level.units)) for level in why.levels),
        messages=(),
        what_if=(),
    )


def _without_text(tokens: Sequence[Token]) -> tuple[Token, ...]:
    return tuple(replace(token, ids=(), text="", start=0, end=0) for token in tokens)


def _without_targets(record: ModelRecord) -> ModelRecord:
    """The targets of examples are texts too."""
    return replace(record, examples={name: tuple((i, None) for i, _ in kept) for name, kept in record.examples.items()})
