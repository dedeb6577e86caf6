"""How faithful is an explanation? One file per family of metrics.

subject.py      what is evaluated: explanations of one text, and the case that they explain
soft.py         `soft_ns`, `soft_nc`, `pi_soft_ns`, `pi_soft_nc`: embeddings with elements removed at random
replacement.py  `comprehensiveness`, `sufficiency`: units replaced by what might stand there
lds.py          `lds`: whether effects predict what replacements do
rationale.py    `ante`, `no_d`: against what people have marked
hellinger.py, averages.py   the distance between distributions; draws, and what becomes of them
records.py      Result and Evaluation, and their JSON
statistics.py   many cases: tests, intervals, effect sizes
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reagent.errors import UnknownNameError


@dataclass(frozen=True)
class MetricEntry:
    """A metric as a person finds it in a list."""

    summary: str
    higher_is_better: bool
    needs: str  # from a model: probabilities, embeddings; annotations come from people
    blind_to: str


_SHARPNESS = "rewards peaked scores whatever their order; zeroed embeddings are unlike anything the model has read"
_ZEROS = "zeroed embeddings are unlike anything the model has read"
_PROPOSALS = "sees the ranking only, not how much; what stands in for a unit decides along with it"
_MARKS = "what people find important need not be what the model used"

METRICS: dict[str, MetricEntry] = {
    "soft_ns": MetricEntry(
        "what is left when elements are kept as likely as their token's score", True, "embeddings", _SHARPNESS
    ),
    "soft_nc": MetricEntry(
        "what is lost when elements are removed as likely as their token's score", True, "embeddings", _SHARPNESS
    ),
    "pi_soft_ns": MetricEntry("soft_ns at an equal share π of kept elements", True, "embeddings", _ZEROS),
    "pi_soft_nc": MetricEntry("soft_nc at an equal share π of removed elements", True, "embeddings", _ZEROS),
    "comprehensiveness": MetricEntry(
        "what is lost when the most important units are replaced", True, "probabilities", _PROPOSALS
    ),
    "sufficiency": MetricEntry(
        "what is lost when all but the most important units are replaced", False, "probabilities", _PROPOSALS
    ),
    "lds": MetricEntry(
        "how well the effects predict what random replacements do",
        True,
        "probabilities",
        "whatever does not add up over units; only as good as the proposals",
    ),
    "ante": MetricEntry("whether the rationale contains the antecedent", True, "annotations", _MARKS),
    "no_d": MetricEntry("whether the rationale avoids the distractor", True, "annotations", _MARKS),
}


def check_metrics(names: Iterable[str]) -> None:
    """Stop at a name that is not a metric."""
    for name in names:
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)


__all__ = ["METRICS", "MetricEntry", "check_metrics"]
