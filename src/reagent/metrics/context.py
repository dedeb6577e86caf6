"""EvaluationContext: everything that a metric needs to measure explanations of one text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from reagent.case import Case, Floats, Mask
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.methods.base import Progress, ProgressCallback, no_progress
from reagent.metrics.explained_case import case_of, check_same_text, reread, split_into_tokens
from reagent.models.base import Model
from reagent.removal import Remover, make_remover
from reagent.replacers.base import Proposals, Replacer, no_proposals

if TYPE_CHECKING:  # the config imports the metrics, which import this file
    from reagent.metrics.config import EvaluationConfig

# Every use of random numbers has its own stream: the draws of a metric do not depend on the other metrics.
STREAMS = ("soft", "random", "proposals", "replacement", "ties", "probes", "bootstrap")
T = TypeVar("T")


@dataclass
class PassProgress:
    """Counts the forward passes of all metrics for a progress callback."""

    on_progress: ProgressCallback = no_progress
    done: int = 0

    def advance(self, passes: int, remaining: int) -> None:
        """Report `passes` more; `remaining` is the largest number that the present metric still makes."""
        self.done += passes
        self.on_progress(Progress(self.done, self.done + remaining, "passes"))


@dataclass(frozen=True)
class EvaluationContext:
    """Explanations of one text, cut into the same units, and the targets at which they are measured."""

    model: Model
    case: Case  # with log-probabilities of `model`
    tokens: Case  # the same text, cut into single tokens
    explanations: tuple[Explanation, ...]
    targets: tuple[int, ...]  # output units
    config: "EvaluationConfig"
    metrics: tuple[str, ...] = ()  # ids of all metrics that are computed
    progress: PassProgress = field(default_factory=PassProgress)
    _shared: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    def rng(self, stream: str, *more: int) -> np.random.Generator:
        """The random generator of one use; `explain` uses none of these. A plugin names its own stream."""
        key = [STREAMS.index(stream)] if stream in STREAMS else [len(STREAMS), *stream.encode()]
        return np.random.default_rng([self.config.own_seed, *key, *more])

    def shared(self, key: str, compute: Callable[[], T]) -> T:
        """The result of `compute`, which runs once: metrics of a family share their forward passes with it."""
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]  # type: ignore[return-value]

    def requested(self, family: Iterable[str]) -> list[str]:
        """The metrics of a family that are computed, in the order of the request."""
        members = set(family)
        return [name for name in self.metrics if name in members]

    # --- the text ---

    def units_before(self, t: int) -> int:
        """The number of units before output unit `t`."""
        return len(self.case.input) + t

    def unprotected(self, t: int) -> Mask:
        """Which units before output unit `t` are not protected."""
        return ~self.case.protected[: self.units_before(t)]

    # --- attributions ---

    def scores(self, t: int) -> Floats:
        """Row `t` of every explanation, with 0 for protected units; [explanations, units]."""
        rows = np.array([explanation.scores[t] for explanation in self.explanations])
        return np.asarray(np.where(self.unprotected(t), rows, 0.0))

    def effects(self, t: int) -> Floats:
        """The same for the effects, or the scores of a method without effects."""
        rows = [e.scores[t] if e.effects is None else e.effects[t] for e in self.explanations]
        return np.asarray(np.where(self.unprotected(t), np.array(rows), 0.0))

    def random_scores(self, t: int, count: int) -> Floats:
        """Random attributions: uniform random numbers, divided by their sum; [count, units]."""
        numbers = (1 - self.rng("random", t).random((count, self.units_before(t)))) * self.unprotected(t)
        return np.asarray(numbers / numbers.sum(1, keepdims=True))

    # --- removal ---

    @cached_property
    def replacer(self) -> Replacer:
        return self.config.make_replacer(self.model)

    @cached_property
    def proposals(self) -> Proposals:
        """Replacements for all units; the same for all metrics and explanations."""
        rng = self.rng("proposals")
        return self.replacer.propose(self.model, self.tokens, rng).grouped(self.case, rng)

    def remover(self, removal: str, case: Case) -> Remover:
        """Removes units of `case`, which is the case of all targets or of one; only replacement needs proposals."""
        proposals = self.proposals if removal == "replace" else no_proposals(case)
        return make_remover(removal, self.model, case, proposals)

    def drops(self, t: int, replaced: Mask) -> Floats:
        """The drop in the log-probability of output unit `t` (nats) when marked units are replaced; [texts].

        `replaced` is [texts, units before t]. Units without proposals stay as they are. Text i uses the i-th random
        replacement of every unit, so that explanations are compared on equal replacements.
        """
        case, table = self.case.for_target(t), self.proposals
        units = np.flatnonzero(table.replaceable[: self.units_before(t)])
        uniform = self.rng("replacement").random((len(replaced), len(table.weights)))[:, units]
        texts = table.apply(replaced[:, units], table.choose(uniform, units), units)[:, : len(case.ids)]
        values = case.score_outputs(self.model, texts).value[:, 0]
        self.progress.advance(len(texts), 0)
        return np.asarray(self.case.values[t] - values)


def make_context(
    model: Model,
    explanations: Sequence[Explanation],
    config: "EvaluationConfig",
    metrics: Sequence[str] = (),
    on_progress: ProgressCallback = no_progress,
) -> EvaluationContext:
    """Check that the explanations belong together and to the model; makes one forward pass."""
    first = explanations[0]
    case = case_of(first)
    for other in explanations[1:]:
        check_same_text(first, other)
    tokens = split_into_tokens(case, reread(model, case))
    if hasattr(model, "register_text"):  # an API without token ids maps only texts that it has seen
        model.register_text(case.completion + ("" if case.contrast is None else case.contrast.token.text))
    targets = tuple(config.targets) if config.targets is not None else default_targets(first, config.stride)
    for t in targets:
        first.context(t)  # raises for a target that does not exist
    targets = tuple(dict.fromkeys(t % len(case.output) for t in targets))
    if not targets:
        raise InputError("there is no target to measure: give at least one output token, or leave the targets out")
    return EvaluationContext(
        model, case.with_logprobs(model), tokens, tuple(explanations), targets, config, tuple(metrics),
        PassProgress(on_progress),
    )  # fmt: skip


def default_targets(explanation: Explanation, stride: int) -> tuple[int, ...]:
    """The explained target; of a whole continuation, every `stride`-th token, starting with the first.

    These are the paper's token level and sequence level.
    """
    if "index" in explanation.target or len(explanation.output) == 1:
        return (explanation.focus,)
    return tuple(range(0, len(explanation.output), stride))
