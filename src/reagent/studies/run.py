"""`study`: which parts of a template matter over many inputs, and which can go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from reagent._version import __version__
from reagent.bench.engines import Engine, LocalEngine
from reagent.bench.runner import RunProgress
from reagent.bench.store import Store
from reagent.bench.suite import ModelConfig
from reagent.bench.worker import ModelLoadError
from reagent.errors import FileError, InputError
from reagent.metrics.statistics import LEVEL
from reagent.models.base import Model
from reagent.models.load import load_model
from reagent.prompt_study import (
    FailedInput,
    MeanEffect,
    PartGroup,
    Removable,
    Study,
    StudyCost,
    StudyInput,
    StudyPart,
    Verdict,
)
from reagent.studies.effects import judge, mean_effect, share_that_matters
from reagent.studies.measuring import NOTHING, Measurements, Parts
from reagent.studies.request import SHARE, StudyRequest
from reagent.studies.search import find_pairs, find_removable
from reagent.studies.worker import StudyWorker

LEAST_THRESHOLD = 0.1  # nats
KIND = "study"  # in the file of results


def study(
    model: Any,
    template: Any,
    inputs: Any,
    *,
    metric: str | None = None,
    threshold: float | None = None,
    alternatives: Mapping[str, Sequence[str]] | None = None,
    max_new_tokens: int = 32,
    limit: int | None = None,
    chat: bool | None = None,
    max_cost: int | None = None,
    pairs: bool = False,
    out: str | Path | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> Study:
    """Study which parts of a prompt template matter over many inputs, and which can go.

    `template` is a text or the path of a file with slots `{{ name }}`; `inputs` are mappings of slots to values, or the
    path of a JSONL, CSV or Parquet file. With the field `answer` in every input, the log-probability of this answer is
    measured (`metric="answer"`), otherwise that of the model's own answer (`metric="own"`).

    Parts whose effect lies between −`threshold` and `threshold` are idle; by default it is 5 % of what the answers lose
    without all parts. A slot with `alternatives` is not removed, but takes each of these values. `chat=False` gives the
    prompt as plain text to a model that has a chat template. A study that would read more than about `max_cost` tokens
    is refused. With `pairs`, all pairs of parts are removed too, to find those that say the same although neither is
    idle. `out` is a file of results, with which an interrupted study continues.
    """
    request = StudyRequest.build(
        template,
        inputs,
        metric=metric,
        threshold=threshold,
        alternatives=alternatives,
        max_new_tokens=max_new_tokens,
        limit=limit,
        chat=chat,
        max_cost=max_cost,
        pairs=pairs,
    )
    loaded = load_model(model)
    return run(request, ModelConfig(str(loaded.info["id"])), out, local_engine(loaded), on_progress)


def local_engine(loaded: Model) -> LocalEngine:
    """An engine with a model that is loaded already."""
    return LocalEngine(StudyWorker(ModelConfig(str(loaded.info["id"])), loaded), StudyWorker)


def run(
    request: StudyRequest,
    model: ModelConfig,
    out: str | Path | None = None,
    engine: Engine | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> Study:
    """Answer a checked request; every number is kept in the file `out`."""
    if out is None:
        with TemporaryDirectory(prefix="reagent-") as folder:
            return run(request, model, Path(folder) / "study.sqlite", engine, on_progress)
    with Store.open(out, write=True) as store, engine or LocalEngine(kind=StudyWorker) as workers:
        _write_facts(store, request)
        try:
            return _Builder(Measurements(request, model, store, workers, on_progress or (lambda _: None))).build()
        except ModelLoadError as error:
            raise InputError(f"the model {model.id!r} cannot be loaded: {error}") from error


def _write_facts(store: Store, request: StudyRequest) -> None:
    """Record what is studied; a file of a benchmark or of another template is an error."""
    facts, name = store.facts(), request.template.name
    if facts.get("kind", KIND) != KIND or facts.get("suite", name) != name:
        raise FileError(
            f"{str(store.path)!r} holds results of {facts['suite']!r}, not of a study of {name!r}: give another file"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.begin({"suite": name, "kind": KIND, "version": __version__, "created": facts.get("created", now)})


@dataclass
class _Builder:
    """Measures in steps, since what is measured next depends on what was found, and makes the Study."""

    measurements: Measurements

    @property
    def request(self) -> StudyRequest:
        return self.measurements.request

    def build(self) -> Study:
        parts = self.request.template.parts
        singles = [frozenset([i]) for i in range(len(parts))]
        text = frozenset(i for i, part in enumerate(parts) if part.kind != "slot")
        self.measurements.measure([NOTHING, *singles, text])
        first = self._first_measured()
        worth = self._effect(text)
        threshold = self.request.threshold
        if threshold is None:
            threshold = max(SHARE * (worth.mean or 0.0), LEAST_THRESHOLD * first["nat"])
        effects = [self._effect(one) for one in singles]
        verdicts = [judge(effect, threshold) for effect in effects]
        idle = {i: effect for i, effect in enumerate(effects) if verdicts[i] == "idle"}
        removable, groups = find_removable(idle, self._effect_measured_now, threshold)
        for i in set(idle) - set(removable):
            verdicts[i] = "redundant" if any(i in group.parts for group in groups) else "borderline"
        groups += self._pairs(threshold, [group.parts for group in groups]) if self.request.pairs else []
        return self._study(first, worth, threshold, verdicts, removable, groups)

    def _study(
        self,
        first: Mapping[str, Any],
        worth: MeanEffect,
        threshold: float,
        verdicts: Sequence[Verdict],
        removable: Sequence[int],
        groups: Sequence[PartGroup],
    ) -> Study:
        request, cost = self.request, self.measurements.store.facts().get("cost", {})
        inputs = self._measured_inputs()
        return Study(
            name=request.template.name,
            template=request.template.source,
            metric=request.metric,  # type: ignore[arg-type]
            unit=first["unit"],
            threshold=threshold,
            level=LEVEL,
            worth=worth,
            parts=tuple(self._part(i, verdict, threshold, list(inputs)) for i, verdict in enumerate(verdicts)),
            removable=self._removable(frozenset(removable)),
            groups=tuple(groups),
            inputs=tuple(
                StudyInput(request.inputs[i].id, one["answer"], one["value"], one["tokens"])
                for i, one in inputs.items()
            ),
            failed=tuple(
                FailedInput(one.id, self.measurements.error(i) or "")
                for i, one in enumerate(request.inputs)
                if i not in inputs
            ),
            alternatives={request.template.parts[i].name: list(texts) for i, texts in request.alternatives.items()},
            chat=first["chat"],
            model=dict(self.measurements.info),
            cost=StudyCost(cost.get("forward_passes", 0), cost.get("tokens", 0), cost.get("seconds", 0.0)),
        )

    def _pairs(self, threshold: float, known: Sequence[Sequence[int]]) -> list[PartGroup]:
        """The pairs that say the same, without those of groups that are known."""
        numbers = range(len(self.request.template.parts))
        self.measurements.measure([frozenset(pair) for pair in combinations(numbers, 2)])
        effects = [self.measurements.effects(frozenset([i])) for i in numbers]
        pairs = find_pairs(effects, self.measurements.effects, threshold)
        return [pair for pair in pairs if not any(set(pair.parts) <= set(group) for group in known)]

    def _part(self, number: int, verdict: Verdict, threshold: float, inputs: Sequence[int]) -> StudyPart:
        part, only = self.request.template.parts[number], frozenset([number])
        every = self.measurements.effects(only)
        effects = [every[i] for i in inputs]
        share, low, high = share_that_matters(effects, threshold)
        return StudyPart(
            name=part.name,
            kind=part.kind,
            text=part.text,
            tokens=_mean(self.measurements.tokens(only)),
            effect=mean_effect(effects),
            matters=share,
            matters_low=low,
            matters_high=high,
            verdict=verdict,
            effects=tuple(effects),
        )

    def _removable(self, parts: Parts) -> Removable:
        return Removable(tuple(sorted(parts)), self._effect_measured_now(parts), _mean(self.measurements.tokens(parts)))

    def _effect(self, parts: Parts) -> MeanEffect:
        return mean_effect(self.measurements.effects(parts))

    def _effect_measured_now(self, parts: Parts) -> MeanEffect:
        if parts:
            self.measurements.measure([parts])
        return self._effect(parts)

    def _measured_inputs(self) -> dict[int, dict[str, Any]]:
        every = ((i, self.measurements.measured(i, NOTHING)) for i in range(len(self.request.inputs)))
        return {i: one for i, one in every if one is not None}

    def _first_measured(self) -> dict[str, Any]:
        measured = self._measured_inputs()
        if not measured:
            raise InputError(f"no input could be measured: {self.measurements.error(0)}")
        return next(iter(measured.values()))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
