"""An explanation as a span of OpenTelemetry, with the attributes of OpenInference where it has a name for them."""

import json
from typing import TYPE_CHECKING, Any

from reagent.errors import InputError
from reagent.explanation import Explanation

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

TOP = 10  # units in a span


def to_opentelemetry(explanation: Explanation, tracer: "Tracer | None" = None) -> None:
    """Record a span that begins and ends now, as a child of the current one.

    The application chooses where spans go; without a configured provider, nothing happens.
    """
    tracer = tracer or _trace().get_tracer("reagent", explanation.version)
    with tracer.start_as_current_span("reagent.explanation", attributes=_attributes(explanation)) as span:
        for rank, one in enumerate(explanation.top(TOP), 1):
            values: dict[str, Any] = {"rank": rank, "text": one.token.text, "start": one.token.start}
            values |= {"end": one.token.end, "score": one.score, "effect": one.effect, "stderr": one.stderr}
            known = {name: value for name, value in values.items() if value is not None}
            span.add_event("reagent.unit", {f"reagent.unit.{name}": value for name, value in known.items()})


def _attributes(why: Explanation) -> dict[str, Any]:
    parameters = {name: value for name, value in why.method.items() if value is not None}
    attributes = {
        "openinference.span.kind": "EVALUATOR",
        "input.value": why.prompt,
        "input.mime_type": "text/plain",
        "output.value": why.completion,
        "output.mime_type": "text/plain",
        "llm.model_name": str(why.model.get("id")),
        "metadata": json.dumps({"method": parameters, "target": dict(why.target)}, default=str),
        "reagent.version": why.version,
        "reagent.method": str(why.method.get("id")),
        "reagent.seed": why.seed,
        "reagent.unit": why.unit,
        "reagent.effect_unit": why.effect_unit,
        "reagent.forward_passes": why.cost.forward_passes,
        "reagent.seconds": why.cost.seconds,
        "reagent.warnings": list(why.warnings),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _trace() -> Any:
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise InputError(
            "a span needs opentelemetry-api, which is not installed; run: pip install 'reagent-lm[opentelemetry]'"
        ) from error
    return trace
