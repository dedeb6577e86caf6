"""Metrics by name: the built-in ones, then those that other packages register in `reagent.metrics`."""

from reagent.errors import InputError, UnknownNameError
from reagent.metrics.base import Metric
from reagent.metrics.lds import LinearDatamodelingScore
from reagent.metrics.rationale import RATIONALE_METRICS
from reagent.metrics.replacement import REPLACEMENT_METRICS
from reagent.metrics.soft import SOFT_METRICS
from reagent.plugins import find_all, instantiate, load_plugin, plugin_names

# They are computed in this order, and then the others.
METRICS: dict[str, Metric] = {
    **SOFT_METRICS,
    **REPLACEMENT_METRICS,
    "lds": LinearDatamodelingScore(),
    **RATIONALE_METRICS,
}


def metric_names() -> list[str]:
    """Every name that `find_metric` accepts."""
    return [*METRICS, *(name for name in plugin_names("metrics") if name not in METRICS)]


def list_metrics() -> dict[str, Metric]:
    """All metrics by name; a plugin that cannot be loaded is left out with a warning."""
    return find_all(metric_names(), find_metric)


def find_metric(metric: str | Metric) -> Metric:
    """The metric of a name; an instance is checked and returned.

    >>> find_metric("lds").higher_is_better
    True
    """
    if not isinstance(metric, str):
        return _check(metric)
    if metric in METRICS:
        return METRICS[metric]
    plugin = load_plugin("metrics", metric)
    if plugin is None:
        raise UnknownNameError("metric", metric, metric_names())
    instance = _check(instantiate("metrics", metric, plugin))
    if instance.id != metric:
        raise InputError(f"the metrics plugin {metric!r} has the id {instance.id!r}: both must be the same name")
    return instance


def _check(metric: Metric) -> Metric:
    if isinstance(metric, type):
        metric = instantiate("metrics", metric.__name__, metric)
    if not isinstance(metric, Metric):
        raise InputError(
            f"{metric!r} is not a metric: give a name, or an object with id, summary, higher_is_better, needs, "
            "blind_to, check and measure"
        )
    if METRICS.get(metric.id, metric) != metric:
        raise InputError(f"{metric.id!r} is the id of a built-in metric: give {metric!r} another id")
    return metric
