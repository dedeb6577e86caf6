"""`evaluate`: how faithful an explanation is to a model, by every metric that applies."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from reagent.errors import InputError, ReagentError
from reagent.evaluation import Evaluation, Result, Skipped
from reagent.explanation import Explanation, censoring_warnings
from reagent.methods.base import Progress
from reagent.metrics import METRICS, check_metrics
from reagent.metrics.context import EvaluationContext, differences, subject
from reagent.metrics.lds import PROBES, RATIO, lds
from reagent.metrics.monte_carlo import Draws
from reagent.metrics.rationale import RATIONALE, Annotation, rationale
from reagent.metrics.replacement import BLACK_BOX_DRAWS, REPLACEMENT, replacement
from reagent.metrics.replacement import DRAWS as REPLACEMENT_DRAWS
from reagent.metrics.soft import DRAWS as SOFT_DRAWS
from reagent.metrics.soft import PI, SOFT, soft
from reagent.models.base import HasEmbeddings, Model, capability_error, find_distributions, find_embeddings
from reagent.models.load import load_model
from reagent.replacers import Replacer, automatic, make_replacer
from reagent.validation import check_integer, check_range, with_options


@dataclass(frozen=True)
class EvaluationConfig:
    """What to measure, where, and how precisely."""

    metrics: Sequence[str] | None = None  # by default all that the model allows
    annotation: Annotation | None = None  # of the prompt, for ante and no_d
    targets: Sequence[int] | None = None  # output tokens; by default the one asked about, or every `stride`-th of many
    stride: int = 5
    draws: int | None = None  # exactly so many perturbed inputs; by default until the standard error is 0.01
    pi: float | Sequence[float] = PI  # of several, the first gives the number and all of them a curve
    probes: int = PROBES  # lds: so many replacements
    ratio: float = RATIO  # lds: of this share of the units
    rationale: int | None = None  # units in a rationale; by default what a greedy search found, else 5
    replacer: str = "auto"
    replacer_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        owner = "the evaluation"
        if isinstance(self.metrics, str):
            raise InputError(f"metrics are a list of names, as [{self.metrics!r}]")
        if self.metrics is not None and not self.metrics:
            raise InputError("there is no metric to compute: give at least one, or leave metrics out for all")
        check_metrics(self.metrics or ())
        for name, low in (("stride", 1), ("draws", 2), ("probes", 4), ("rationale", 1)):
            if getattr(self, name) is not None:
                check_integer(owner, name, getattr(self, name), low)
        check_integer(owner, "seed", self.seed, 0, 2**63)
        check_range(owner, "ratio", self.ratio, 1e-9, 1)
        if not self.pis:
            raise InputError("there is no π: give at least one share, as 0.3")
        for pi in self.pis:
            check_range(owner, "pi", pi, 1e-6, 1 - 1e-6)

    @property
    def pis(self) -> tuple[float, ...]:
        return tuple(self.pi) if isinstance(self.pi, Sequence) else (self.pi,)

    @property
    def info(self) -> dict[str, Any]:
        """Provenance."""
        return {
            "stride": self.stride,
            "draws": self.draws,
            "pi": list(self.pis),
            "probes": self.probes,
            "ratio": self.ratio,
            "rationale": self.rationale,
            "annotation": self.annotation
            and {name: [list(span) for span in spans] for name, spans in vars(self.annotation).items()},
            "seed": self.seed,
        }


def evaluate(
    model: Model | Any,
    explanation: Explanation,
    metrics: Sequence[str] | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Evaluation:
    """How faithful is `explanation` to `model`? `settings` are those of EvaluationConfig, such as `draws` and `stride`.

    By default every metric that the model allows, and `ante` and `no_d` where an `annotation` says what should be
    found; the others are listed as skipped.

    >>> from reagent.api.explain import explain
    >>> from reagent.testing.scripted import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == [0, 1, 2]))
    >>> found = evaluate(echo, explain(echo, "c a b", max_new_tokens=1), draws=8)
    >>> [(r.metric, r.measure) for r in found.results]
    [('comprehensiveness', 'nats'), ('sufficiency', 'nats'), ('lds', 'spearman'), ('lds', 'pearson')]
    """
    chosen = with_options(EvaluationConfig(metrics=metrics), settings, "evaluate")
    return evaluate_together(model, [explanation], chosen, progress)[0]


def evaluate_together(
    model: Model | Any,
    explanations: Sequence[Explanation],
    settings: EvaluationConfig | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Evaluation]:
    """As `evaluate`, of several explanations of one text: on equal draws, in common batches, against one random."""
    if not explanations:
        raise InputError("there is no explanation to evaluate: give at least one")
    settings = settings or EvaluationConfig()
    substitute = make_replacer(settings.replacer, **settings.replacer_options)
    known: Model = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    if settings.replacer == "auto":
        substitute = make_replacer(automatic(known), **settings.replacer_options)
    names, skipped = _chosen(known, settings)

    begin, before = time.perf_counter(), replace(known.meter)
    about = subject(known, explanations, settings.targets, settings.stride, settings.seed)
    work = _Work(known, about, names, settings, progress)
    found = [*work.soft(), *work.replacing(substitute), *work.rationale()]
    cost = {
        **{name: count - getattr(before, name) for name, count in asdict(known.meter).items()},
        "seconds": round(time.perf_counter() - begin, 3),
    }
    return [
        Evaluation(
            explanation=_which(explanation),
            model=dict(known.info),
            level="token" if len(about.targets) == 1 else "sequence",
            targets=about.targets,
            results=tuple(sorted((r for of in found for r in of[e]), key=lambda r: names.index(r.metric))),
            skipped=tuple(skipped),
            settings=settings.info | {"replacer": dict(substitute.info)},
            cost=cost,
            warnings=(*differences(known, about), *censoring_warnings(cost["censored"]), *explanation.warnings),
        )
        for e, explanation in enumerate(explanations)
    ]


@dataclass
class _Work:
    """The families of metrics one after another, and how far they are; each has one list for every explanation."""

    model: Model
    about: EvaluationContext
    names: list[str]
    settings: EvaluationConfig
    progress: Callable[[Progress], None] | None
    done: int = 0

    def soft(self) -> list[list[list[Result]]]:
        names = [name for name in self.names if name in SOFT]
        reader = find_embeddings(self.model)
        if not names or reader is None:
            return []
        return [soft(reader, self.about, names, self._draws(SOFT_DRAWS), self.settings.pis, self._advance)]

    def replacing(self, substitute: Replacer) -> list[list[list[Result]]]:
        names = [name for name in self.names if name in REPLACEMENT]
        if not names and "lds" not in self.names:
            return []
        table = self.about.proposals(self.model, substitute)
        found = []
        if names:
            full = find_distributions(self.model)
            draws = self._draws(REPLACEMENT_DRAWS if full else BLACK_BOX_DRAWS)
            found.append(replacement(self.model, full, self.about, table, names, draws, advance=self._advance))
        if "lds" in self.names:
            probes, ratio = self.settings.probes, self.settings.ratio
            found.append(lds(self.model, self.about, table, probes, ratio, self._advance))
        return found

    def rationale(self) -> list[list[list[Result]]]:
        names = [name for name in self.names if name in RATIONALE]
        marked = self.settings.annotation
        return [rationale(self.about, names, marked, self.settings.rationale)] if names and marked else []

    def _draws(self, usual: Draws) -> Draws:
        return usual if self.settings.draws is None else replace(usual, fixed=self.settings.draws)

    def _advance(self, made: int, left: int) -> None:
        """Passes of one family; those of later ones are not known before they begin."""
        self.done += made
        if self.progress is not None:
            self.progress(Progress(self.done, self.done + left, "passes"))


def _chosen(model: Model, settings: EvaluationConfig) -> tuple[list[str], list[Skipped]]:
    """Which metrics to compute; by default all that can be, and why not the others."""
    marked = settings.annotation.metrics if settings.annotation else ()
    problems: dict[str, ReagentError] = {}
    if find_embeddings(model) is None:
        problems |= {name: capability_error(model, HasEmbeddings, f"metric {name!r}", "metric") for name in SOFT}
    problems |= {
        name: InputError(f"metric {name!r} needs an annotation: which characters of the prompt are the {what}")
        for name, what in zip(RATIONALE, ("antecedent", "distractor"), strict=True)
        if name not in marked
    }
    if settings.metrics is None:
        return [n for n in METRICS if n not in problems], [
            Skipped(name, str(problem).removeprefix(f"metric {name!r} ")) for name, problem in problems.items()
        ]
    for name in settings.metrics:
        if name in problems:
            raise problems[name]
    return list(dict.fromkeys(settings.metrics)), []


def _which(explanation: Explanation) -> dict[str, Any]:
    """Which explanation it was: enough to find it again and to know how its scores were made."""
    keys = ("version", "created", "prompt", "completion", "model", "method", "replacer", "seed", "target", "unit")
    whole = json.loads(explanation.to_json())
    return {key: whole[key] for key in keys}
