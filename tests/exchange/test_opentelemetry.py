"""A span of OpenTelemetry: its attributes, its events, and its parent."""

import json
from typing import Any

import pytest

from views.samples import make

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def recorded(effects: bool) -> list[Any]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("chat"):
        make(effects=effects).to_opentelemetry(tracer)
    return list(exporter.get_finished_spans())


@pytest.mark.parametrize("effects", [False, True])
def test_a_span_has_the_question_the_method_and_the_best_units(effects: bool) -> None:
    span, parent = recorded(effects)
    assert span.parent.span_id == parent.context.span_id
    assert span.attributes["openinference.span.kind"] == "EVALUATOR"
    why = make(effects=effects)
    assert (span.attributes["input.value"], span.attributes["output.value"]) == (why.prompt, why.completion)
    assert json.loads(span.attributes["metadata"])["method"]["id"] == why.method["id"]
    best = span.events[0].attributes
    assert (best["reagent.unit.text"], best["reagent.unit.rank"]) == (" Japan", 1)
    assert ("reagent.unit.effect" in best) == effects
    assert len(span.events) == 10


def test_without_a_provider_nothing_happens() -> None:
    make().to_opentelemetry()
