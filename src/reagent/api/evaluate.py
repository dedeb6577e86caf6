"""`evaluate`: how faithful an explanation is to a model, by every metric that can be computed."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from reagent.errors import InputError
from reagent.evaluation import Evaluation, Result, Skipped
from reagent.explanation import Explanation, censoring_warnings
from reagent.methods.base import ProgressCallback, no_progress
from reagent.metrics import METRICS, Metric
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.context import EvaluationContext, make_context
from reagent.metrics.explained_case import model_differences
from reagent.models.base import Model, require_logprobs
from reagent.models.load import load_model
from reagent.validation import with_options


def evaluate(
    model: Model | Any,
    explanation: Explanation,
    metrics: Sequence[str | Metric] | None = None,
    *,
    on_progress: ProgressCallback | None = None,
    **settings: Any,
) -> Evaluation:
    """How faithful is `explanation` to `model`?

    `metrics` are names or objects with the interface of `reagent.metrics.Metric`. The default is every built-in metric
    that the model allows, with `ante` and `no_d` if there is an `annotation`; the others are listed as skipped.
    `settings` are the fields of EvaluationConfig, such as `draws` and `stride`.

    >>> from reagent.api.explain import explain
    >>> from reagent.testing.scripted import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == [0, 1, 2]))
    >>> evaluation = evaluate(echo, explain(echo, "c a b", max_new_tokens=1), draws=8)
    >>> [(r.metric, r.measure) for r in evaluation.results]
    [('comprehensiveness', 'nats'), ('sufficiency', 'nats'), ('lds', 'spearman'), ('lds', 'pearson')]
    """
    config = with_options(EvaluationConfig(metrics=metrics), settings, "evaluate")
    return evaluate_together(model, [explanation], config, on_progress)[0]


def evaluate_together(
    model: Model | Any,
    explanations: Sequence[Explanation],
    config: EvaluationConfig | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Evaluation]:
    """Evaluate several explanations of one text, on equal draws and in common batches."""
    for explanation in explanations:
        if not isinstance(explanation, Explanation):
            raise InputError(f"evaluate needs an Explanation, got a {type(explanation).__name__}")
    if not explanations:
        raise InputError("there is no explanation to evaluate: give at least one")
    config = config or EvaluationConfig()
    loaded: Model = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    require_logprobs(loaded, "evaluate")
    metrics, skipped = _choose_metrics(loaded, config)
    start, before = time.perf_counter(), replace(loaded.meter)
    names = [metric.id for metric in metrics]
    context = make_context(loaded, explanations, config, names, on_progress or no_progress)
    results = _measure(context, metrics)
    cost = {
        **{name: count - getattr(before, name) for name, count in asdict(loaded.meter).items()},
        "seconds": round(time.perf_counter() - start, 3),
    }
    differences = model_differences(loaded, context.case, explanations, context.targets)
    return [
        Evaluation(
            explanation=_identity(explanation),
            model=dict(loaded.info),
            level="token" if len(context.targets) == 1 else "sequence",
            targets=context.targets,
            results=tuple(results[e]),
            skipped=tuple(skipped),
            settings=config.info | {"replacer": dict(context.replacer.info)},
            cost=cost,
            warnings=(*differences, *censoring_warnings(cost["censored"]), *explanation.warnings),
        )
        for e, explanation in enumerate(explanations)
    ]


def _choose_metrics(model: Model, config: EvaluationConfig) -> tuple[list[Metric], list[Skipped]]:
    """The metrics to compute. A metric that was requested by name must be possible; the default skips the others."""
    problems = config.find_problems(model)
    if config.metrics is not None and problems:
        raise next(iter(problems.values()))
    metrics = [metric for metric in config.requested_metrics if metric.id not in problems]
    return metrics, [
        Skipped(name, str(problem).removeprefix(f"metric {name!r} ")) for name, problem in problems.items()
    ]


def _measure(context: EvaluationContext, metrics: Sequence[Metric]) -> list[list[Result]]:
    """All results of each explanation, in the order of the request."""
    built_in = list(METRICS)
    # One order of computation, whatever the request, so that the state of a model's caches is the same.
    order = sorted(metrics, key=lambda metric: built_in.index(metric.id) if metric.id in METRICS else len(built_in))
    measured = {metric.id: _checked(metric, context) for metric in order}
    return [
        [result for metric in metrics for result in measured[metric.id][e]] for e in range(len(context.explanations))
    ]


def _checked(metric: Metric, context: EvaluationContext) -> list[list[Result]]:
    """The results of a metric, which may come from another package."""
    results = metric.measure(context)
    if len(results) != len(context.explanations):
        raise InputError(
            f"metric {metric.id!r} returned {len(results)} lists of results for {len(context.explanations)} "
            "explanations: measure must return one list for each"
        )
    for result in (result for row in results for result in row):
        if result.metric != metric.id:
            raise InputError(f"metric {metric.id!r} returned a result of {result.metric!r}: both must be the same name")
    return results


def _identity(explanation: Explanation) -> dict[str, Any]:
    """Enough to find the explanation again and to know how its scores were made."""
    keys = ("version", "created", "prompt", "completion", "model", "method", "replacer", "seed", "target", "unit")
    data = json.loads(explanation.to_json())
    return {key: data[key] for key in keys}
