"""How faithful is an explanation? One file per family of metrics.

base.py            Metric: the interface of every metric
registry.py        METRICS: metrics by name, built in or from other packages
config.py          EvaluationConfig: the validated request of an evaluation
context.py         EvaluationContext: everything that a metric needs to measure explanations of one text
explained_case.py  the case of an explanation, rebuilt for the model that evaluates it
soft.py            `soft_ns`, `soft_nc`, `pi_soft_ns`, `pi_soft_nc`: embedding elements removed at random
replacement.py     `comprehensiveness`, `sufficiency`: units removed, by replacement or deletion
lds.py             `lds`: whether effects and groups predict the drops under random removals
rationale.py       `ante`, `no_d`: comparison with annotations by people
hellinger.py       the distance between distributions
monte_carlo.py     from values of single draws to results with standard errors
statistics.py      many cases: tests, intervals, effect sizes
"""

from reagent.metrics.base import Metric
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.context import EvaluationContext
from reagent.metrics.monte_carlo import measure_scores
from reagent.metrics.registry import METRICS, find_metric, list_metrics, metric_names

__all__ = [
    "METRICS",
    "EvaluationConfig",
    "EvaluationContext",
    "Metric",
    "find_metric",
    "list_metrics",
    "measure_scores",
    "metric_names",
]
