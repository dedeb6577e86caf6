"""The parts of an explanation: tokens, messages, groups, sufficiency, whole answer, trace, counterfactuals and cost.

`explanation.py` puts them together and exports their names. The dataclasses also define the JSON form.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from annotated_types import Ge

from reagent.errors import InputError, UnknownNameError
from reagent.serialization import Count, JsonSchema, Without

Row = tuple[float, ...]
Rows = tuple[Row, ...]
Score = Annotated[float, JsonSchema(minimum=0, maximum=1.000001)]
Scores = tuple[tuple[Score, ...], ...]
StandardError = Annotated[float, Ge(0)]
StepUnit = Literal["sentence", "token"]
GROUP_KINDS = ("redundant", "complementary")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the prompt or of the output, or a larger unit with several ids: a word, a sentence, a phrase.

    Tokens that are parts of one character (bytes of an emoji) all have that character and its span. A special token
    outside the text has an empty span and its own name as text.
    """

    ids: Annotated[tuple[Count, ...], JsonSchema(minItems=1)]
    text: str
    """The characters from `start` to `end` of the prompt or completion."""
    start: Count
    end: Count
    protected: bool = False
    """Never removed; its scores are 0."""
    logprob: Annotated[float, JsonSchema(maximum=0.000001)] | None = None
    """Log-probability of an output token, in nats."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat: its role, and its characters in the prompt."""

    role: str
    start: Count
    end: Count
    name: str | None = None
    """Of the tool that gave this result, if it is known."""


@dataclass(frozen=True, slots=True)
class Group:
    """Units that act together on one output token."""

    units: Annotated[tuple[Count, ...], JsonSchema(minItems=2)]
    """Positions before the output token, ascending."""
    kind: Literal["redundant", "complementary"]
    """redundant: any one of the units is enough; complementary: each of them is needed."""
    effect: float
    """Joint effect: what the target loses when all units are removed together."""
    stderr: StandardError | None
    """Standard error of the joint effect."""
    single: float
    """Sum of the effects of the single units."""

    def __post_init__(self) -> None:
        if self.kind not in GROUP_KINDS:
            raise UnknownNameError("kind of group", self.kind, GROUP_KINDS)
        if len(self.units) < 2 or any(a >= b for a, b in pairwise(self.units)):
            raise InputError(f"a group must have at least two units in ascending order, got {list(self.units)}")
        _check_numbers("a group", self.effect, self.stderr, self.single)


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """The result of a test: the model keeps only the important units, and predicts one output token."""

    units: tuple[Count, ...]
    """The important units: positions before the output token."""
    effect: float
    """What the target loses when only these units are kept."""
    stderr: StandardError | None
    """Standard error of `effect`."""
    total: float
    """What the target loses when every unit is removed."""
    rank: Count | None
    """Rank of the target with only these units; 0 is the most likely token."""
    passed: bool
    """Whether the units are sufficient."""

    def __post_init__(self) -> None:
        if len(set(self.units)) < len(self.units):
            raise InputError(f"the units of sufficiency must be different, got {list(self.units)}")
        _check_numbers("sufficiency", self.effect, self.stderr, self.total)

    @property
    def share(self) -> float | None:
        """The share of the answer that the units carry alone, from 0 to 1; None if removing everything costs nothing.

        >>> Sufficiency(units=(4,), effect=0.5, stderr=None, total=2.0, rank=0, passed=True).share
        0.75
        """
        return min(1.0, max(0.0, 1.0 - self.effect / self.total)) if self.total > 0 else None


def _check_numbers(name: str, effect: float, stderr: float | None, reference: float) -> None:
    if not all(math.isfinite(value) for value in (effect, stderr or 0.0, reference)):
        raise InputError(f"the numbers of {name} must be finite")
    if stderr is not None and stderr < 0:
        raise InputError(f"stderr of {name} must not be negative, got {stderr}")


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The explanation of the answer as a whole: what removing units of the prompt does to its log-probability.

    The answer is fixed, and only the prompt is changed. The log-probability of the answer is the sum over its tokens.
    """

    scores: tuple[Score, ...]
    """One number for each unit of the prompt; they sum to 1."""
    effects: Row | None
    stderr: Row | None
    groups: tuple[Group, ...]
    sufficiency: Sufficiency | None
    stopped: str
    """Why the search ended."""
    shapley_values: Row | None = None
    """Signed, in the unit of the effects; null if the scores do not come from them."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """A sentence of the prompt or of the reasoning, or the answer, in a trace."""

    text: str
    start: Count
    """In the prompt; for reasoning and answer, in the completion."""
    end: Count
    share: Score
    """The share of the answer that comes from this part of the prompt, or passes through this part of the reasoning."""


@dataclass(frozen=True, slots=True)
class TraceFlow:
    """The share of the answer that goes from one part of a trace directly to a later one."""

    source: Count
    """A number of a part: first the sources, then the steps, then the answer."""
    target: Count
    share: Score


@dataclass(frozen=True, slots=True)
class TraceCheck:
    """What the model says after a part of the prompt was deleted, with new reasoning: a total effect."""

    start: Count
    """Of the deleted characters in the prompt."""
    end: Count
    text: str
    share: Score
    """The traced share of this part."""
    completion: str
    """What the model generates without it."""
    produced: bool
    """Whether the answer is in it."""
    logprob: float
    """Log-probability of the answer after the new reasoning, in nats."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The answer, traced through the generated text before it to the prompt (see tracing.py)."""

    answer: TracePart
    logprob: float | None
    """Log-probability of the answer, in nats."""
    step_unit: StepUnit
    """What paths lead through: sentences of the reasoning as wholes, or single tokens."""
    steps: tuple[TracePart, ...]
    """The sentences of the reasoning."""
    sources: tuple[TracePart, ...]
    """The sentences of the prompt, the words of a single sentence, or units that are larger than words."""
    flows: tuple[TraceFlow, ...]
    direct: tuple[Score, ...]
    """For each unit of the prompt, its share in the answer past the reasoning."""
    traced: tuple[Score, ...]
    """For each unit of the prompt, its share in the answer by all paths; they sum to 1."""
    unreliable: Score
    """The share of the answer that passes through output tokens whose scores are meaningless."""
    checks: tuple[TraceCheck, ...] = ()
    """For some of the sources, what the model says without them."""

    def __post_init__(self) -> None:
        parts = len(self.sources) + len(self.steps) + 1
        if any(not flow.source < flow.target < parts for flow in self.flows):
            raise InputError("the flows of a trace must lead from one of its parts to a later one")
        numbers = (*self.direct, *self.traced, *(flow.share for flow in self.flows), self.unreliable)
        if any(not 0 <= number <= 1 + 1e-6 for number in numbers):
            raise InputError("the shares of a trace must lie between 0 and 1")
        logprobs = (self.logprob or 0.0, *(check.logprob for check in self.checks))
        if not all(map(math.isfinite, logprobs)):
            raise InputError("log-probabilities of a trace must be finite numbers")


@dataclass(frozen=True, slots=True)
class Cost:
    """The work that an explanation took, without loading the model and without generating the completion."""

    forward_passes: Count
    """Of the explained model: one for each sequence, whatever the batches."""
    tokens: Count
    seconds: Annotated[float, Ge(0)]
    probes: Count
    stopping_tests: Count
    proposals: Count
    """Passes for the proposals: of the explained model, or of the masked language model that made them."""
    steps: tuple[Count, ...]
    """For each target, over all runs."""
    stopped: tuple[str, ...]
    """For each target, why the search ended."""
    runs: tuple[tuple[Count, ...], ...] = ()
    """For each target, the steps of each run."""
    requests: Count = 0
    """To a server; answers from the cache are not counted."""
    censored: Count = 0
    """Answers that give only a bound, because the server did not list the target."""
    unlisted: Count = 0
    """Output tokens that the server does not list even for the unchanged text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A token that the model predicts, with its probability."""

    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The prediction in place of output token `target` under the strongest replacement of unit `position`."""

    target: Count
    position: Count
    replacement: str
    """The text in place of the unit."""
    probability: Annotated[float, JsonSchema(minimum=0, maximum=1.000001)]
    """Of the target, after the replacement."""
    answers: tuple[Answer, ...]
    """The most probable tokens after the replacement, the best first."""


@dataclass(frozen=True, slots=True)
class Screening:
    """Units of a long prompt that were set aside before the others were measured, in the text without them."""

    units: Count
    """How many units could be removed."""
    discarded: tuple[Count, ...]
    """Those that were set aside, as indices into the units of the coarsest level; their scores are 0."""
    effect: float
    """What the output loses when all of them are removed, in nats."""
    finest_effect: float
    """What it loses in the text of the finest level, which may contain only the units that were expanded."""


@dataclass(frozen=True, slots=True)
class Level:
    """A coarser explanation of the same prompt, from which the finer one continued; rows as in an Explanation."""

    unit: str
    units: Annotated[tuple[Token, ...], Without("logprob"), JsonSchema(minItems=1)]
    scores: Scores
    effects: Rows | None
    stderr: Rows | None
    answer: WholeAnswer | None = None
