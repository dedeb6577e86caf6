"""The interface of all metrics, built in or of other packages."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from reagent.evaluation import Result
from reagent.models.base import Model

if TYPE_CHECKING:  # both import the metrics
    from reagent.metrics.config import EvaluationConfig
    from reagent.metrics.context import EvaluationContext


@runtime_checkable
class Metric(Protocol):
    """A measurement of how faithful an explanation is, in one or more measures."""

    @property
    def id(self) -> str:
        """The name by which it is requested and under which its results are stored."""
        ...

    @property
    def summary(self) -> str:
        """What it measures, in one line."""
        ...

    @property
    def higher_is_better(self) -> bool: ...

    @property
    def needs(self) -> str:
        """Its input besides the explanation: probabilities, embeddings or annotations."""
        ...

    @property
    def blind_to(self) -> str:
        """What it cannot detect, in one line."""
        ...

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        """Raise a CapabilityError or an InputError if the metric cannot be computed; make no forward pass."""
        ...

    def measure(self, context: "EvaluationContext") -> list[list[Result]]:
        """One list of results for each of `context.explanations`, in their order; `Result.metric` is `id`."""
        ...


@runtime_checkable
class EstimatesPasses(Protocol):
    """A metric that can predict its cost; the benchmark counts the others as free."""

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        """The approximate number of forward passes for explanations of one text."""
        ...


def results_of(metric: str, results: list[list[Result]]) -> list[list[Result]]:
    """The results of one metric among those of a family that was measured together."""
    return [[result for result in row if result.metric == metric] for row in results]
