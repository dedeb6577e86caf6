"""A worker holds a model and runs jobs, one after another. An error in a cell fails that cell only."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reagent.api.evaluate import evaluate_together
from reagent.api.run import run
from reagent.bench import codec
from reagent.bench.plan import Job, PlannedCell, Source
from reagent.bench.records import Cell, ModelRecord
from reagent.bench.suite import MethodConfig, ModelConfig
from reagent.data import filter_examples
from reagent.errors import FileError
from reagent.evaluation import Evaluation
from reagent.explanation import Explanation
from reagent.methods.base import Progress
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.rationale import Annotation
from reagent.models.base import Model as Loaded
from reagent.models.load import load_model
from reagent.request import ExplainRequest


class ModelLoadError(Exception):
    """A model cannot be loaded or does not answer: all its cells fail, other models go on."""


@dataclass(frozen=True)
class JobResult:
    """The cells of a finished job, and its cost."""

    cells: tuple[Cell, ...]
    cost: Mapping[str, float]


@dataclass
class Worker:
    """Loads its model on first use and keeps it."""

    model: ModelConfig
    loaded: Loaded | None = field(default=None, repr=False)

    def inspect(self, sources: Sequence[tuple[str, Source, int | None]]) -> ModelRecord:
        """The provenance of the model and its examples of filtered datasets; `sources` are (name, source, size)."""
        model = self._load()
        try:
            kept = {name: filter_examples(source.dataset, model, size, source.seed) for name, source, size in sources}
        except Exception as error:  # a model that loads but does not answer
            raise ModelLoadError(describe_error(error)) from error
        return ModelRecord(
            dict(model.info),
            {name: tuple((one.id, one.target) for one in examples.examples) for name, examples in kept.items()},
        )

    def do(self, job: Job) -> JobResult:
        """Compute the explanations that are not stored yet, then evaluate all of them together."""
        model = self._load()
        self.check_info(model, job.info)
        begin, before = time.perf_counter(), replace(model.meter)
        explanations, failed, seconds = _explain_all(model, job)
        middle = time.perf_counter()
        evaluated = _evaluate_all(model, job, explanations, failed) if job.metrics else {}
        cost = {
            "explaining_seconds": middle - begin,
            "evaluating_seconds": time.perf_counter() - middle,
            "forward_passes": model.meter.forward_passes - before.forward_passes,
            "tokens": model.meter.tokens - before.tokens,
        }
        cells = (
            make_cell(
                job, cell, explanations.get(label), evaluated.get(label), failed.get(label), seconds.get(label, 0.0)
            )
            for cell in job.cells
            if (label := cell.config.label)
        )
        return JobResult(tuple(cells), cost)

    @staticmethod
    def fail(job: Job, error: str) -> JobResult:
        """The cells of a job that could not be done."""
        return JobResult(tuple(make_cell(job, cell, None, None, error) for cell in job.cells), {})

    def check_info(self, model: Loaded, expected: Mapping[str, Any]) -> None:
        """Raise an error if another model was loaded than that of the earlier results."""
        if dict(model.info) != dict(expected):
            raise FileError(
                f"{self.model.id!r} is not the model that this file was started with ({_describe_model(expected)}, now "
                f"{_describe_model(model.info)}): give another file, or the same revision and dtype"
            )

    def _load(self) -> Loaded:
        if self.loaded is None:
            config = self.model
            try:
                self.loaded = load_model(config.id, device=config.device, dtype=config.dtype, revision=config.revision)
            except Exception as error:  # any error of any model
                raise ModelLoadError(describe_error(error)) from error
            if config.batch_size is not None and hasattr(self.loaded, "tokens_at_once"):
                self.loaded.tokens_at_once = config.batch_size
        return self.loaded


def make_cell(
    job: Job,
    cell: PlannedCell,
    why: Explanation | None,
    evaluation: Evaluation | None,
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
        method=cell.config.method,
        label=cell.config.label,
        options=cell.config.info,
        seed=job.seed,
        status="done" if error is None else "failed",
        error=error,
        explanation=why,
        evaluation=evaluation,
        seconds=seconds,
        explained=cell.explained,
    )


def describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


# --- explaining ---


def _explain_all(model: Loaded, job: Job) -> tuple[dict[str, Explanation], dict[str, str], dict[str, float]]:
    """By label: explanations, errors, and seconds."""
    explanations, failed = dict(job.stored_explanations), dict[str, str]()
    seconds = {label: why.cost.seconds for label, why in explanations.items()}
    missing = [cell.config for cell in job.cells if cell.config.label not in explanations]
    if missing:
        job = _with_generated_target(model, job)
    for config in sorted(missing, key=lambda config: -int(config.options.get("max_steps", 0))):
        if config.label in explanations:  # a prefix of a longer run of the same method
            continue
        shorter = {e.options["max_steps"]: e for e in missing if e is not config and _is_prefix(e, config)}
        try:
            whole, earlier = _explain(model, job, config, shorter)
        except Exception as error:
            failed[config.label] = describe_error(error)
            continue
        for one, why in ((config, whole), *earlier):
            # Evaluate the explanation as it is stored, so that a later evaluation gives the same numbers.
            explanations[one.label] = codec.unpack_explanation(*codec.pack_explanation(why))
            seconds[one.label] = why.cost.seconds
    return explanations, failed, seconds


def _with_generated_target(model: Loaded, job: Job) -> Job:
    """With the model's own continuation as the target, so that it is generated once for all methods.

    Only if its text is tokenized to the same tokens; an error here occurs in every cell too.
    """
    example = job.example
    if example.target is not None:
        return job
    try:
        generated = model.case(example.prompt, None, job.max_new_tokens)
        again = model.case(example.prompt, generated.completion)
    except Exception:
        return job
    same = [unit.ids for unit in generated.output] == [unit.ids for unit in again.output]
    return replace(job, example=replace(example, target=generated.completion)) if same else job


def _explain(
    model: Loaded, job: Job, config: MethodConfig, shorter: Mapping[int, MethodConfig]
) -> tuple[Explanation, list[tuple[MethodConfig, Explanation]]]:
    """The explanation, and those of shorter runs of the same method, which are its prefixes."""
    if hasattr(model, "clear_cache"):
        model.clear_cache()
    earlier: list[tuple[MethodConfig, Explanation]] = []

    def on_progress(now: Progress) -> None:
        if isinstance(now.partial, Explanation) and now.done in shorter:
            method = {**now.partial.method, "max_steps": now.done}
            earlier.append((shorter[now.done], replace(now.partial, method=method)))

    request = ExplainRequest.build(
        job.example.prompt,
        target=job.example.target,
        max_new_tokens=job.max_new_tokens,
        stride=job.stride,
        units=("token",),
        attribute_target=True,  # as published: each output token is explained by its whole context
        seed=job.own_seed,
        **config.arguments(),
    )
    why = run(model, request, on_progress)
    return why, earlier


def _is_prefix(short: MethodConfig, long: MethodConfig) -> bool:
    """Whether `short` is `long` after fewer steps."""

    def rest(config: MethodConfig) -> Any:
        return config.arguments() | {"options": {**config.options, "max_steps": None}}

    both = short.options.get("stop") is False and short.options.get("runs") == 1
    return both and rest(short) == rest(long) and short.options["max_steps"] < long.options["max_steps"]


# --- evaluating ---


def _evaluate_all(
    model: Loaded, job: Job, explanations: Mapping[str, Explanation], failed: dict[str, str]
) -> dict[str, Evaluation]:
    """Evaluate all explanations together; if that fails, one by one, so that one error does not affect the others."""
    if not explanations:
        return {}
    labels = [cell.config.label for cell in job.cells if cell.config.label in explanations]
    config = _evaluation_config(model, job)
    if config is None:
        return {}

    def evaluate(some: Sequence[str]) -> dict[str, Evaluation]:
        if hasattr(model, "clear_cache"):
            model.clear_cache()
        evaluations = evaluate_together(model, [explanations[label] for label in some], config)
        return dict(zip(some, evaluations, strict=True))

    try:
        return evaluate(labels)
    except Exception as error:
        if len(labels) == 1:
            failed[labels[0]] = describe_error(error)
            return {}
    evaluated: dict[str, Evaluation] = {}
    for label in labels:
        try:
            evaluated |= evaluate([label])
        except Exception as error:
            failed[label] = describe_error(error)
    return evaluated


def _evaluation_config(model: Loaded, job: Job) -> EvaluationConfig | None:
    """The metrics of the suite that this model and this example allow; None if there is none."""
    marks = Annotation(job.example.antecedent, job.example.distractor)
    config = EvaluationConfig(
        metrics=job.metrics, annotation=marks, stride=job.stride, seed=job.own_seed, **dict(job.settings)
    )
    problems = config.find_problems(model)
    names = [name for name in job.metrics if name not in problems]
    return replace(config, metrics=names) if names else None


def _describe_model(info: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {info.get(name)}" for name in ("revision", "dtype", "backend"))
