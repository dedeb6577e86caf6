"""A worker: it holds a model and does jobs, one after another. What goes wrong in a cell stays in that cell."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reagent.api.evaluate import EvaluationConfig, evaluate_together
from reagent.api.explain import run
from reagent.bench import codec
from reagent.bench.plan import Job, Planned, Source
from reagent.bench.records import Cell, Known
from reagent.bench.suite import MethodConfig, Model
from reagent.data import filter_examples
from reagent.errors import FileError
from reagent.evaluation import Evaluation
from reagent.explanation import Explanation
from reagent.methods.base import Progress
from reagent.metrics.rationale import RATIONALE, Annotation
from reagent.metrics.soft import SOFT
from reagent.models.base import Model as Loaded
from reagent.models.base import find_embeddings
from reagent.models.load import load_model
from reagent.request import ExplainRequest


class ModelLoadError(Exception):
    """A model that cannot be loaded or asked: nothing of it can be done, and all else can."""


@dataclass(frozen=True)
class Done:
    """What became of a job."""

    cells: tuple[Cell, ...]
    cost: Mapping[str, float]


@dataclass
class Worker:
    """Loads its model when it is first needed, and keeps it."""

    model: Model
    loaded: Loaded | None = field(default=None, repr=False)

    def known(self, sources: Sequence[tuple[str, Source, int | None]]) -> Known:
        """What the model is, and which examples of filtered datasets it gets; `sources` are (name, source, size)."""
        model = self._load()
        try:
            kept = {name: filter_examples(source.whole, model, size, source.seed) for name, source, size in sources}
        except Exception as error:  # a model that loads, and answers nothing
            raise ModelLoadError(one_line(error)) from error
        return Known(
            dict(model.info),
            {name: tuple((one.id, one.target) for one in examples.examples) for name, examples in kept.items()},
        )

    def do(self, job: Job) -> Done:
        """Explain what was not explained before, then evaluate everything together."""
        model = self._load()
        if dict(model.info) != dict(job.info):
            raise FileError(
                f"{self.model.id!r} is not the model that this file was begun with ({_said(job.info)}, now "
                f"{_said(model.info)}): give another file, or the same revision and dtype"
            )
        begin, before = time.perf_counter(), replace(model.meter)
        found, failed, seconds = _explained(model, job)
        middle = time.perf_counter()
        evaluated = _evaluated(model, job, found, failed) if job.metrics else {}
        cost = {
            "explaining_seconds": middle - begin,
            "evaluating_seconds": time.perf_counter() - middle,
            "forward_passes": model.meter.forward_passes - before.forward_passes,
            "tokens": model.meter.tokens - before.tokens,
        }
        cells = (
            cell_of(job, cell, found.get(label), evaluated.get(label), failed.get(label), seconds.get(label, 0.0))
            for cell in job.cells
            if (label := cell.entry.label)
        )
        return Done(tuple(cells), cost)

    def _load(self) -> Loaded:
        if self.loaded is None:
            asked = self.model
            try:
                self.loaded = load_model(asked.id, device=asked.device, dtype=asked.dtype, revision=asked.revision)
            except Exception as error:  # whatever a stranger's model does when it is loaded
                raise ModelLoadError(one_line(error)) from error
            if asked.batch_size is not None and hasattr(self.loaded, "tokens_at_once"):
                self.loaded.tokens_at_once = asked.batch_size
        return self.loaded


def cell_of(
    job: Job,
    cell: Planned,
    why: Explanation | None,
    found: Evaluation | None,
    error: str | None,
    seconds: float = 0.0,
) -> Cell:
    """The record of one cell."""
    return Cell(
        key=cell.key,
        suite=job.suite,
        model=job.model.id,
        dataset=job.dataset,
        level=job.level,
        example=job.example.id,
        group=job.example.group,
        method=cell.entry.method,
        label=cell.entry.label,
        options=cell.entry.info,
        seed=job.seed,
        status="done" if error is None else "failed",
        error=error,
        explanation=why,
        evaluation=found,
        seconds=seconds,
        explained=cell.explained,
    )


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


# --- explaining ---


def _explained(model: Loaded, job: Job) -> tuple[dict[str, Explanation], dict[str, str], dict[str, float]]:
    """By label: explanations, errors, and seconds."""
    found, failed = dict(job.given), dict[str, str]()
    seconds = {label: why.cost.seconds for label, why in found.items()}
    missing = [cell.entry for cell in job.cells if cell.entry.label not in found]
    if missing:
        job = _answered(model, job)
    for entry in sorted(missing, key=lambda entry: -int(entry.options.get("max_steps", 0))):
        if entry.label in found:  # on the way to a longer run of the same
            continue
        shorter = {e.options["max_steps"]: e for e in missing if e is not entry and _on_the_way(e, entry)}
        try:
            whole, earlier = _explain(model, job, entry, shorter)
        except Exception as error:
            failed[entry.label] = one_line(error)
            continue
        for one, why in ((entry, whole), *earlier):
            # What is evaluated is what will be in the store, so that a later evaluation sees the same.
            found[one.label] = codec.unpack_explanation(*codec.pack_explanation(why))
            seconds[one.label] = why.cost.seconds
    return found, failed, seconds


def _answered(model: Loaded, job: Job) -> Job:
    """With the model's own answer as the target, so that it is generated once and not for every method.

    Only if its text is read as the same tokens again; and what goes wrong here goes wrong in every cell too.
    """
    example = job.example
    if example.target is not None:
        return job
    try:
        said = model.case(example.prompt, None, job.max_new_tokens)
        again = model.case(example.prompt, said.completion)
    except Exception:
        return job
    same = [unit.ids for unit in said.output] == [unit.ids for unit in again.output]
    return replace(job, example=replace(example, target=said.completion)) if same else job


def _explain(
    model: Loaded, job: Job, entry: MethodConfig, shorter: Mapping[int, MethodConfig]
) -> tuple[Explanation, list[tuple[MethodConfig, Explanation]]]:
    """The explanation, and those of the entries that stop earlier on the same way."""
    if hasattr(model, "clear_cache"):
        model.clear_cache()
    earlier: list[tuple[MethodConfig, Explanation]] = []

    def look(now: Progress) -> None:
        if isinstance(now.partial, Explanation) and now.done in shorter:
            method = {**now.partial.method, "max_steps": now.done}
            earlier.append((shorter[now.done], replace(now.partial, method=method)))

    request = ExplainRequest.build(
        job.example.prompt,
        target=job.example.target,
        max_new_tokens=job.max_new_tokens,
        stride=job.stride,
        units=("token",),
        seed=job.own_seed,
        **entry.arguments(),
    )
    why = run(model, request, look)
    return why, earlier


def _on_the_way(short: MethodConfig, long: MethodConfig) -> bool:
    """Whether `short` is what `long` is after fewer steps."""

    def rest(entry: MethodConfig) -> Any:
        return entry.arguments() | {"options": {**entry.options, "max_steps": None}}

    both = short.options.get("stop") is False and short.options.get("runs") == 1
    return both and rest(short) == rest(long) and short.options["max_steps"] < long.options["max_steps"]


# --- evaluating ---


def _evaluated(
    model: Loaded, job: Job, found: Mapping[str, Explanation], failed: dict[str, str]
) -> dict[str, Evaluation]:
    """All explanations together; if that fails, each by itself, so that the others have their numbers."""
    if not found:
        return {}
    labels = [cell.entry.label for cell in job.cells if cell.entry.label in found]

    def evaluate(some: Sequence[str]) -> dict[str, Evaluation]:
        if hasattr(model, "clear_cache"):
            model.clear_cache()
        evaluations = evaluate_together(model, [found[label] for label in some], _settings(model, job))
        return dict(zip(some, evaluations, strict=True))

    try:
        return evaluate(labels)
    except Exception as error:
        if len(labels) == 1:
            failed[labels[0]] = one_line(error)
            return {}
    evaluated: dict[str, Evaluation] = {}
    for label in labels:
        try:
            evaluated |= evaluate([label])
        except Exception as error:
            failed[label] = one_line(error)
    return evaluated


def _settings(model: Loaded, job: Job) -> EvaluationConfig:
    """The suite's metrics, as far as this model and this example have them."""
    marks = Annotation(job.example.antecedent, job.example.distractor)
    refused = {name for name in RATIONALE if name not in marks.metrics}
    refused |= set(SOFT) if find_embeddings(model) is None else set()
    names = [name for name in job.metrics if name not in refused]
    return EvaluationConfig(
        metrics=names or None, annotation=marks, stride=job.stride, seed=job.own_seed, **dict(job.settings)
    )


def _said(info: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {info.get(name)}" for name in ("revision", "dtype", "backend"))
