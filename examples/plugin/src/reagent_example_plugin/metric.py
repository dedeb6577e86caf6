"""A metric: the drop in log-probability when the most important unit is replaced."""

from dataclasses import dataclass

from reagent.case import Floats
from reagent.evaluation import Result
from reagent.metrics import EvaluationConfig, EvaluationContext, measure_scores
from reagent.models import Model


@dataclass(frozen=True)
class TopDrop:
    """How much less likely the output is without the most important unit."""

    id: str = "top_drop"
    higher_is_better: bool = True
    needs: str = "probabilities"
    summary: str = "drop in log-probability when the most important unit is replaced"
    blind_to: str = "all other units"

    def check(self, model: Model, config: EvaluationConfig) -> None:
        """Every model gives probabilities."""

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        def drop(t: int, scores: Floats) -> Floats:  # [draws, units before output token t] → [draws]
            return context.drops(t, scores == scores.max(1, keepdims=True))

        return measure_scores(context, self, "nats", drop)
