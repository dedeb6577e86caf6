"""Out of a store, and from several into one."""

from collections.abc import Sequence
from pathlib import Path

from reagent.bench.store import Store
from reagent.errors import FileError, InputError
from reagent.files import write_whole


def write_lines(path: str | Path, out: str | Path) -> Path:
    """The explanations of a file of results as JSON, one per line, in the order of their examples."""
    with Store.open(path) as store:
        lines = [cell.explanation.to_json() for cell in store.cells() if cell.explanation is not None]
    return write_whole(out, "".join(line + "\n" for line in lines))


def merge(paths: Sequence[str | Path], out: str | Path) -> int:
    """Join the results of shards of one suite; what stands in `out` already stays. How many cells there are then."""
    if Path(out).resolve() in [Path(path).resolve() for path in paths]:
        raise InputError(f"{str(out)!r} is one of the files to join: give another file")
    with Store.open(out, write=True) as joined:
        for path in paths:
            with Store.open(path) as part:
                _add(part, joined)
        return len(joined.states())


def _add(part: Store, joined: Store) -> None:
    theirs, ours = dict(part.facts()), joined.facts()
    for name in ("suite", "text"):
        if ours.get(name, theirs.get(name)) != theirs.get(name):
            raise FileError(
                f"{str(part.path)!r} is of another suite than the others: join shards of one suite, unchanged"
            )
    known = joined.known()
    for model, found in part.known().items():
        if model in known and known[model].info != found.info:
            raise FileError(
                f"{model!r} is not the same model in {str(part.path)!r} as in the others ({dict(found.info)}, not "
                f"{dict(known[model].info)}): join shards of the same models"
            )
        joined.meet(model, found)
    cost = theirs.pop("cost", {})
    theirs.pop("models", None)
    if not ours.get("suite"):
        joined.begin(theirs)
    joined.put(part.cells(None), cost)
