"""Records with planted numbers, for which the right tables follow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reagent.bench.records import Cell
from reagent.bench.store import Store
from reagent.evaluation import Evaluation, Result
from reagent.explanation import Cost, Explanation, Token

PROMPT = "My aunt moved to Japan to teach music. (Her old piano stands in our garage). She lives in the capital,"
ANTECEDENT, DISTRACTOR = (17, 22), (39, 76)
Numbers = Mapping[str, tuple[float, float]]  # by metric: the value, and random's


@dataclass(frozen=True)
class ListRecords:
    """Records from a list instead of a store."""

    all: Sequence[Cell]
    about: Mapping[str, Any] = field(default_factory=lambda: {"suite": "planted", "kind": "study"})

    def cells(self, status: str = "done") -> Iterator[Cell]:
        return (cell for cell in self.all if cell.status == status)

    def facts(self) -> Mapping[str, Any]:
        return self.about


def words(text: str) -> tuple[Token, ...]:
    """One token for each word, with the space before it."""
    tokens, at = [], 0
    for i, word in enumerate(text.split(" ")):
        start = max(0, at - 1)
        tokens.append(Token((i,), text[start : at + len(word)], start, at + len(word)))
        at += len(word) + 1
    return tuple(tokens)


def make_explanation(
    prompt: str = PROMPT,
    output: str = " Tokyo",
    top: str = " Japan",
    method: Mapping[str, Any] | None = None,
    replacer: str | None = "self",
    steps: int = 64,
    runs: Sequence[int] = (),
    passes: int = 100,
    stopped: str = "condition",
) -> Explanation:
    """Every word counts 1, the top one 10."""
    inputs, outputs = words(prompt), words(output)[1:] if output.startswith(" ") else words(output)
    rows = []
    for t in range(len(outputs)):
        raw = [10.0 if token.text == top else 1.0 for token in (*inputs, *outputs[:t])]
        rows.append(tuple(value / sum(raw) for value in raw))
    count = len(outputs)
    all_runs = (tuple(runs),) * count if runs else ()
    cost = Cost(passes, 9, 0.5, passes, 0, 1, (sum(runs) if runs else steps,) * count, (stopped,) * count, all_runs)
    return Explanation(
        prompt=prompt,
        completion=output,
        input=inputs,
        output=outputs,
        scores=tuple(rows),
        model={"id": "planted", "revision": None, "dtype": "float32", "backend": "scripted"},
        method=method or {"id": "reagent", "preset": "fast"},
        replacer=None if replacer is None else {"id": replacer},
        seed=0,
        cost=cost,
    )


def result(metric: str, value: float, random: float, measure: str = "hellinger", higher: bool = True) -> Result:
    return Result(metric, measure, higher, value, 0.01, random, 0.01, draws=8, random_draws=8)


def make_evaluation(why: Explanation, numbers: Numbers, marked: bool = False, level: str = "token") -> Evaluation:
    measures = {"lds": "spearman", "ante": "found", "no_d": "found"}
    results = [
        result(metric, value, random, measures.get(metric, "hellinger"), metric != "sufficiency")
        for metric, (value, random) in numbers.items()
    ]
    marks = {"antecedent": [list(ANTECEDENT)], "distractor": [list(DISTRACTOR)]} if marked else None
    whole = why.to_dict()
    keys = ("version", "created", "prompt", "completion", "model", "method", "replacer", "seed", "target", "unit")
    return Evaluation(
        explanation={key: whole[key] for key in keys},
        model=why.model,
        level=level,
        targets=tuple(range(0, len(why.output), 5)),
        results=tuple(results),
        skipped=(),
        settings={"annotation": marks, "seed": 0},
        cost={"forward_passes": 10, "tokens": 10, "seconds": 0.1, "censored": 0},
    )


def cell(
    numbers: Numbers | None = None,
    *,
    model: str = "smollm2",
    dataset: str = "longra",
    level: str = "token",
    example: str | int = 0,
    method: str = "reagent",
    label: str | None = None,
    seed: int = 0,
    marked: bool = False,
    error: str | None = None,
    why: Explanation | None = None,
    **about: Any,
) -> Cell:
    """One cell; without numbers it has no evaluation, with an error it failed. `about` describes the explanation."""
    settings = dict(about.pop("settings", {}))
    if why is None and error is None:
        why = make_explanation(method={"id": method, **settings}, **about)
    named = label or method
    return Cell(
        key=f"{model}/{dataset}/{example}/{named}/{seed}",
        suite="planted",
        model=model,
        dataset=dataset,
        level=level,
        example=str(example),
        group="",
        method=method,
        label=named,
        options={},
        seed=seed,
        status="failed" if error is not None else "done",
        error=error,
        explanation=why,
        evaluation=None if why is None or numbers is None else make_evaluation(why, numbers, marked, level),
        seconds=0.5,
    )


def several(count: int, numbers: Iterable[Numbers], **about: Any) -> list[Cell]:
    """The same entry on many examples, each with its numbers."""
    return [replace(cell(given, example=i, **about)) for i, given in zip(range(count), numbers, strict=True)]


def write_store(path: Path, cells: Sequence[Cell], facts: Mapping[str, Any] | None = None) -> Path:
    """A real file with these cells."""
    with Store.open(path, write=True) as store:
        store.begin(facts or {"suite": "planted", "kind": "study", "created": "2026-01-01T00:00:00+00:00"})
        store.put(cells)
    return path
