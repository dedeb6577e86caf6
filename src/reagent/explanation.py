"""Explanation: the importance of each part of a prompt for each token of the output.

Row t of `scores` belongs to output token t. It has len(input) + t numbers: one for each unit of the prompt, then
one for each earlier output token. It is a distribution: it sums to 1, and protected units have 0. `effects` have the
same shape and are signed: positive means that removing the unit makes the target less likely. A unit is removed by
deletion, masking or replacement; `method` says how. `groups` are units that act together, and `sufficiency` is a test
of the important units alone; both have an entry for each output token.

The dataclasses here and in explanation_parts.py also define the JSON form; serialization.py reads and writes it. After
a change of a field, run `python -m reagent.schemas`.
"""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, overload

from annotated_types import Ge

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import InputError, UnknownNameError
from reagent.explanation_checks import check_places
from reagent.explanation_parts import (
    Answer,
    Cost,
    Group,
    Level,
    Message,
    Row,
    Rows,
    Scores,
    Screening,
    StandardError,
    StepUnit,
    Sufficiency,
    Token,
    Trace,
    TraceCheck,
    TraceFlow,
    TracePart,
    WhatIf,
    WholeAnswer,
)
from reagent.field_types import check_fields
from reagent.serialization import Count, JsonDocument, JsonSchema, Without
from reagent.validation import check_integer

if TYPE_CHECKING:
    import pandas
    import shap
    import shapiq
    from captum.attr._core.llm_attr import LLMAttributionResult
    from numpy import float64
    from numpy.typing import NDArray
    from opentelemetry.trace import Tracer

__all__ = [
    "STOP_REASONS", "Z_95", "Answer", "Contribution", "Cost", "Explanation", "Group", "Info", "Level", "Message", "Row",
    "Rows", "Screening", "StandardError", "StepUnit", "Sufficiency", "Token", "TokenExplanation", "Trace", "TraceCheck",
    "TraceFlow", "TracePart", "WhatIf", "WholeAnswer", "censoring_warnings", "control_token_warnings", "join_tokens",
    "load", "model_warnings", "noise_warnings", "warning_reasons",
]  # fmt: skip

Z_95 = 1.96  # half the width of a 95 % interval, in standard errors
NOISY = 0.01  # nats: rounding and batching cause less
FIELDS_WITH_ROWS = ("scores", "effects", "stderr")

Info = Mapping[str, Any]
ModelInfo = Annotated[
    Info,
    JsonSchema(
        required=["id", "revision", "dtype", "backend"],
        properties={
            "id": {"type": "string"},
            "revision": {"type": ["string", "null"]},
            "dtype": {"type": ["string", "null"]},
            "backend": {"type": "string"},
            "architecture": {"type": "string"},
        },
    ),
]
MethodInfo = Annotated[
    Info,
    JsonSchema(
        required=["id", "preset"], properties={"id": {"type": "string"}, "preset": {"type": ["string", "null"]}}
    ),
]
ReplacerInfo = Annotated[Info, JsonSchema(required=["id"], properties={"id": {"type": "string"}})]
TargetInfo = Annotated[
    Info, JsonSchema(required=["kind"], properties={"kind": {"enum": ["tokens", "span", "contrast"]}})
]

# Why the search for one target ended, and the warning for the reader of its row.
STOP_REASONS = {
    "condition": "",
    "single": "",
    "settled": "",
    "fixed": "",
    "unasked": "was not explained: its scores are uniform and meaningless",
    "insufficient": "depends on more than the important units: they alone do not lead to it, so something that matters "
    "was not found; give more probes",
    "unsettled": "has a ranking that was still open when the probes ran out: check the standard errors, "
    "or give more probes",
    "few": "has fewer than three replacements of each token: its standard errors are unreliable; give more probes",
    "flat": "was made more likely by no part of the context: its scores are uniform and meaningless",
    "incomplete": "has effects that do not sum to the total change: the model's output changes abruptly near zero "
    "embeddings, and the steps ran out",
    "partial": "has only part of the model's attention: some layers have none, or a sink that is no token takes some",
    "relaxed": "is not the model's prediction even with the whole context: its rationale only preserves its rank",
    "empty": "keeps its rank with everything replaced: it needs no token, so its scores are uniform and meaningless",
    "start": "stays among the most likely tokens with only a random part of the context kept, so at least one run "
    "stopped before its first step and has random scores; make the condition stricter (`keep`, `top_k`), switch it off "
    "(`stop`), or use another preset",
    "maximum": "did not meet the stopping condition within the maximum number of steps",
}


class Contribution(NamedTuple):
    """The importance of one context token for one output token."""

    position: int
    token: Token
    score: float
    effect: float | None
    stderr: float | None


@dataclass(frozen=True, slots=True)
class TokenExplanation:
    """The explanation of one output token: one number for each token of its context."""

    index: int
    token: Token
    context: tuple[Token, ...]
    scores: Row
    effects: Row | None
    stderr: Row | None
    groups: tuple[Group, ...] = ()
    sufficiency: Sufficiency | None = None
    shapley_values: Row | None = None

    def top(self, n: int = 5) -> list[Contribution]:
        """The `n` most important context tokens, the most important first. Protected tokens are left out.

        Equal scores are ordered by effect: a token without a score may make the target less likely, or do nothing.
        """
        effects = self.effects or self.scores
        order = sorted(range(len(self.context)), key=lambda i: (-self.scores[i], -effects[i]))
        return [self._contribution(i) for i in order if not self.context[i].protected][:n]

    @property
    def is_ranked_by_effect(self) -> bool:
        """Whether the scores order the units like their positive effects, so that errors of effects apply to ranks."""
        if self.effects is None:
            return False
        units = [
            (-self.scores[i], -max(0.0, self.effects[i])) for i, unit in enumerate(self.context) if not unit.protected
        ]
        return all(first[1] <= second[1] for first, second in pairwise(sorted(units)))

    def _contribution(self, i: int) -> Contribution:
        return Contribution(
            position=i,
            token=self.context[i],
            score=self.scores[i],
            effect=None if self.effects is None else self.effects[i],
            stderr=None if self.stderr is None else self.stderr[i],
        )


@dataclass(frozen=True, kw_only=True)
class Explanation(JsonDocument):
    """Why a language model generated its output: the importance of each context token for each output token."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.explanation/2"
    OLDER_SCHEMAS: ClassVar = {"reagent.explanation/1": frozenset({"groups", "sufficiency"})}
    ADDED_LATER: ClassVar = frozenset(
        {
            "unit",
            "display_unit",
            "attributes",
            "shapley_values",
            "answer",
            "answer.shapley_values",
            "levels",
            "levels.answer",
            "levels.answer.shapley_values",
            "screening",
            "messages",
            "messages.name",
            "control_tokens",
            "noise",
            "trace",
            "what_if",
            "cost.runs",
            "cost.requests",
            "cost.censored",
            "cost.unlisted",
        }
    )

    version: str = __version__
    """Version of reagent that made the explanation."""
    created: Annotated[str, JsonSchema(format="date-time")] = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    prompt: Annotated[str, JsonSchema(minLength=1)]
    completion: Annotated[str, JsonSchema(minLength=1)]
    model: ModelInfo
    method: MethodInfo
    replacer: ReplacerInfo | None
    seed: Count
    target: TargetInfo = field(default_factory=lambda: {"kind": "tokens"})
    unit: str = "token"
    """How the prompt was cut: token, word, sentence, paragraph or span."""
    display_unit: str | None = None
    """The larger unit in which views show tokens, as word; null: as they are."""
    attributes: Literal["context", "prompt"] = "context"
    """What was removed for an output token: units of its whole context, or only of the prompt."""
    effect_unit: str | None = None
    """nats, g, probability, …; null without effects."""
    input: Annotated[tuple[Token, ...], Without("logprob"), JsonSchema(minItems=1)]
    output: Annotated[tuple[Token, ...], Without("protected"), JsonSchema(minItems=1)]
    scores: Scores
    """Row t has len(input) + t numbers and sums to 1."""
    effects: Rows | None = None
    """Signed: positive means that removing the unit makes the target less likely."""
    stderr: Rows | None = None
    """Standard errors of the effects; 0 for an effect that was measured exactly."""
    shapley_values: Rows | None = None
    """Signed, in the unit of the effects; null if the scores do not come from them."""
    groups: tuple[tuple[Group, ...], ...] = ()
    """Units that act together: a list for each output token; empty if the method does not look for them."""
    sufficiency: tuple[Sufficiency | None, ...] | None = None
    """For each output token, whether the important units alone lead to it; null where that was not tested."""
    answer: WholeAnswer | None = None
    """The answer as a whole; null if it was not measured, or if there is only one output token."""
    levels: tuple[Level, ...] = ()
    """Coarser explanations of a long prompt, the coarsest first."""
    screening: Screening | None = None
    """What was set aside of a long prompt; null if every unit was measured."""
    messages: tuple[Message, ...] = ()
    """Of a chat. The rest of the prompt belongs to the chat template."""
    control_tokens: tuple[str, ...] = ()
    """Control tokens that the user wrote in the prompt or the target and the model read as such; never removed."""
    noise: Annotated[float, Ge(0)] | None = None
    """Standard deviation of the log-probability of an output token between responses to the same request; it is part of
    the standard errors. Null: the model is not on a server."""
    trace: Trace | None = None
    """The answer traced through the reasoning to the prompt; null if that was not asked."""
    what_if: tuple[WhatIf, ...] = ()
    """Predictions of the model after replacements."""
    cost: Cost

    def __post_init__(self) -> None:
        check_fields(self)
        for name in FIELDS_WITH_ROWS:
            _check_rows(name, getattr(self, name), len(self.input), len(self.output))
        _check_rows("shapley_values", self.shapley_values, len(self.input), len(self.output))
        for level in self.levels:
            for name in FIELDS_WITH_ROWS:
                _check_rows(f"{name} of level {level.unit!r}", getattr(level, name), len(level.units), len(self.output))
        if self.answer is not None:
            self._check_answer(self.answer)
        if any(not 0 <= value <= 1 + 1e-6 for row in self.scores for value in row):
            raise InputError("scores must lie between 0 and 1")
        if any(value < 0 for row in self.stderr or () for value in row):
            raise InputError("stderr must not be negative")
        if any(not 0 <= token.start <= token.end for token in self.input + self.output):
            raise InputError("tokens must begin at 0 or later and not end before they begin")
        if self.trace is not None and {len(self.trace.direct), len(self.trace.traced)} != {len(self.input)}:
            raise InputError("direct and traced shares of a trace must have one number for each unit of the prompt")
        _check_finite(self.target.get("logprob"), *(token.logprob for token in self.output), self.cost.seconds)
        self._check_references()

    def _check_answer(self, answer: WholeAnswer) -> None:
        for name in FIELDS_WITH_ROWS:
            row = getattr(answer, name)
            _check_rows(f"{name} of the answer", None if row is None else (row,), len(self.input), 1)
        if any(not 0 <= value <= 1 + 1e-6 for value in answer.scores) or any(v < 0 for v in answer.stderr or ()):
            raise InputError("scores of the answer must lie between 0 and 1, and its stderr must not be negative")
        values = answer.shapley_values
        _check_rows("shapley_values of the answer", None if values is None else (values,), len(self.input), 1)
        units = [i for group in answer.groups for i in group.units]
        units += answer.sufficiency.units if answer.sufficiency else ()
        if not all(0 <= i < len(self.input) for i in units):
            raise InputError("groups and sufficiency of the answer must refer to units of the prompt")

    def _check_references(self) -> None:
        """Numbers that refer to output tokens and units must refer to existing ones."""
        outputs = len(self.output)
        index = self.target.get("index", 0)
        if not isinstance(index, int) or (outputs and not 0 <= index < outputs):
            raise InputError(f"target.index must refer to one of the {outputs} output tokens")
        if any(not 0 <= w.target < outputs or not 0 <= w.position < len(self.input) + w.target for w in self.what_if):
            raise InputError("what_if must refer to output tokens and to units before them")
        if len(self.groups) not in (0, outputs) or (self.sufficiency is not None and len(self.sufficiency) != outputs):
            raise InputError("groups and sufficiency must have one entry for each output token")
        for t, units in self._units_of_groups_and_tests():
            if not all(0 <= i < len(self.input) + t for i in units):
                raise InputError("groups and sufficiency must refer to units before their output token")
        if len(self.cost.steps) != outputs or len(self.cost.stopped) != outputs:
            raise InputError("cost.steps and cost.stopped must have one entry for each output token")

    def _units_of_groups_and_tests(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each output token with the units of a group or of a sufficiency test."""
        yield from ((t, group.units) for t, groups in enumerate(self.groups) for group in groups)
        yield from ((t, test.units) for t, test in enumerate(self.sufficiency or ()) if test is not None)

    # --- one output token ---

    def __len__(self) -> int:
        """The number of output tokens."""
        return len(self.output)

    def __bool__(self) -> bool:
        return True  # also without output tokens

    @overload
    def __getitem__(self, index: int) -> TokenExplanation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TokenExplanation, ...]: ...
    def __getitem__(self, index: int | slice) -> TokenExplanation | tuple[TokenExplanation, ...]:
        """The explanation of one output token, or of a slice of them."""
        if isinstance(index, slice):
            return tuple(self[t] for t in range(*index.indices(len(self))))
        try:
            t = self._index(operator.index(index))
        except InputError as error:
            raise IndexError(str(error)) from None
        return TokenExplanation(
            index=t,
            token=self.output[t],
            context=self.context(t),
            scores=self.scores[t],
            effects=None if self.effects is None else self.effects[t],
            stderr=None if self.stderr is None else self.stderr[t],
            groups=self.groups[t] if self.groups else (),
            sufficiency=None if self.sufficiency is None else self.sufficiency[t],
            shapley_values=None if self.shapley_values is None else self.shapley_values[t],
        )

    def __iter__(self) -> Iterator[TokenExplanation]:
        return (self[t] for t in range(len(self)))

    @property
    def focus(self) -> int:
        """The index of the main output token: the phrase of a span, the target of a contrast, otherwise 0."""
        return int(self.target.get("index", 0))

    @property
    def has_separate_output(self) -> bool:
        """Whether the output is a text of its own: the model is an encoder–decoder, and the prompt its source."""
        return self.model.get("architecture") == "encoder-decoder"

    def context(self, target: int = 0) -> tuple[Token, ...]:
        """The tokens before output token `target`: the prompt, then the earlier output.

        Earlier output that was never removed counts as protected.
        """
        return self.input + self._output_as_context[: self._index(target)]

    @cached_property
    def _output_as_context(self) -> tuple[Token, ...]:
        if self.attributes == "context":
            return self.output
        return tuple(replace(token, protected=True) for token in self.output)

    def top(self, n: int = 5, target: int | None = None) -> list[Contribution]:
        """The `n` most important units for the answer as a whole, or for output token `target`, the best first.

        If the explanation has a trace, they are those for its answer, by their traced shares.
        """
        check_integer("top", "n", n, 0)
        if target is None and self.trace is not None:
            return self.traced()[0].top(n)
        if target is None and "index" not in self.target:
            return self.whole()[0].top(n) if self.output else []
        return self[self.focus if target is None else self._index(target)].top(n)

    def settled(self, target: int = 0) -> tuple[bool, ...] | None:
        """For each context token, whether its rank is significant; None without standard errors of the ranking.

        A rank is settled if the effect differs significantly (95 %) from the next larger and the next smaller
        effect. Protected tokens have no rank and count as settled. A ranking that does not follow the effects has no
        standard errors: the preset `fast` measures the order of importance, in which groups count as a whole.
        """
        row = self[self._index(target)]
        if row.effects is None or row.stderr is None or not row.is_ranked_by_effect:
            return None
        effects, errors = row.effects, row.stderr
        order = sorted((i for i, token in enumerate(row.context) if not token.protected), key=lambda i: -effects[i])
        apart = [effects[a] - effects[b] > Z_95 * math.hypot(errors[a], errors[b]) for a, b in pairwise(order)]
        ranks = dict(zip(order, map(all, zip([True, *apart], [*apart, True], strict=True)), strict=True))
        return tuple(ranks.get(i, True) for i in range(len(row.context)))

    def _index(self, target: int) -> int:
        if isinstance(target, bool) or not isinstance(target, Integral):
            raise InputError(f"`target` must be the number of an output token, got {target!r}")
        if not -len(self.output) <= target < len(self.output):
            raise InputError(f"there is no output token {target}: this explanation has {len(self.output)}")
        return int(target) % len(self.output)

    # --- all output tokens ---

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limits on how far the explanation can be trusted: a line for each affected output token, then for all."""
        rows = (
            f"{token.text!r} {STOP_REASONS[reason]}"
            for t, token in enumerate(self.output)
            for reason in warning_reasons(self, t)
        )
        return (*rows, *model_warnings(self))

    def to_numpy(self, name: str = "scores") -> "NDArray[float64]":
        """`scores`, `effects`, `stderr` or `shapley_values` as an array [outputs, inputs + outputs].

        It is NaN where the context of an output token ends: at the token itself and after it.
        """
        import numpy as np

        names = (*FIELDS_WITH_ROWS, "shapley_values")
        if name not in names:
            raise UnknownNameError("array", name, names)
        rows: Rows | None = getattr(self, name)
        if rows is None:
            raise InputError(f"this explanation has no {name}: method {self.method.get('id')!r} does not give them")
        array = np.full((len(self.output), len(self.input) + len(self.output)), np.nan)
        for t, row in enumerate(rows):
            array[t, : len(row)] = row
        return array

    def aggregate(self, unit: str, output: bool = False) -> "Explanation":
        """The same explanation with its tokens summed to words, sentences or paragraphs.

        The sum of the effects of tokens is not the effect of removing them together; `explain` measures that if it
        is given the unit. Standard errors are added as if they were independent. Groups and the important units of
        the sufficiency test are named by the units that contain them. With `output`, output tokens are summed too.
        """
        from reagent.aggregation import aggregate_units

        return aggregate_units(self, unit, output)

    def whole(self) -> "Explanation":
        """The explanation of the answer as a whole: one output unit, over the units of the prompt.

        If the method did not measure it (`answer` is None), it is summed up from the rows of the output tokens.
        """
        from reagent.aggregation import whole_answer

        return whole_answer(self)

    def traced(self, answer_span: str | None = None, step_unit: StepUnit | None = None) -> "Explanation":
        """The explanation of an answer through the generated text before it: one output unit, over the prompt.

        `answer_span` is the answer: the last place in the output where this text occurs. By default it is the phrase
        or contrast that was asked about, or the last sentence of the output. The text before it is the reasoning.
        Paths lead through its sentences (`step_unit` "sentence", the default) or its tokens ("token").
        The rows must be over the whole context: explain with `attribute_target=True`. tracing.py has the assumptions.
        """
        from reagent.tracing import traced_explanation

        return traced_explanation(self, answer_span, step_unit)

    # --- JSON ---

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`. Anything but a complete explanation of this schema is a FileError."""
        why = super().from_dict(data)
        check_places(why)
        return why

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self, target: int | None = None, unit: str | None = None) -> None:
        """Print to the terminal: the answer as a whole and its parts, or only output token `target`.

        `unit` is "token", "word" or "sentence"; by default words, unless other units were asked for.
        """
        from reagent.views.terminal import show

        show(self, target=target, unit=unit)

    def to_html(self, path: str | Path | None = None, unit: str | None = None) -> str:
        """One self-contained HTML page; also written to `path` where one is given. `unit` as in `show`."""
        from reagent.views.html import render_page

        text = render_page(self, unit)
        if path is not None:
            atomic_write(path, text)
        return text

    def to_png(self, path: str | Path, target: int | None = None, unit: str | None = None) -> Path:
        """A bar chart of the answer as a whole and a heat map of its parts, or bars of output token `target`."""
        from reagent.views.plots import save_png

        return save_png(self, path, target=target, unit=unit)

    def to_frame(self) -> "pandas.DataFrame":
        """A table with a row for each output token and each unit of its context."""
        from reagent.views.dataframe import to_frame

        return to_frame(self)

    def to_shapiq(self, target: int = 0, values: str | None = None) -> "shapiq.InteractionValues":
        """The units of one output token, and the pairs that were measured, for the plots of the package shapiq.

        `values` are "effects" in nats, which is the default if the method has them, "scores" or "shapley_values".
        """
        from reagent.views.interactions import to_shapiq

        return to_shapiq(self, target, values)

    def to_shap(self, values: str | None = None, per_token: bool = False) -> "shap.Explanation":
        """For the plots of the package shap: the answer as a whole, or with `per_token` each output token.

        `values` are "effects", which is the default if the method has them, "scores" or "shapley_values".
        """
        from reagent.exchange.shap import to_shap

        return to_shap(self, values, per_token)

    def to_opentelemetry(self, tracer: "Tracer | None" = None) -> None:
        """Record a span of OpenTelemetry with the attributes of OpenInference, as a child of the current span."""
        from reagent.exchange.opentelemetry import to_opentelemetry

        to_opentelemetry(self, tracer)

    def to_captum(self) -> "LLMAttributionResult":
        """As a result of captum's LLMAttribution: the units of the prompt, for the answer and each output token."""
        from reagent.exchange.captum import to_captum

        return to_captum(self)

    def to_inseq(self, path: str | Path | None = None) -> str:
        """The JSON of Inseq, for `inseq.FeatureAttributionOutput.load`; also written to `path` where one is given."""
        from reagent.exchange.inseq import to_inseq

        return to_inseq(self, path)

    def _repr_html_(self) -> str:
        from reagent.views.html import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        best = ", ".join(f"{c.token.text!r} {c.score:.2f}" for c in self.top(3)) if self.output else ""
        return f"<Explanation of {self.completion!r} by {self.method.get('id')} on {self.model.get('id')}: {best}>"


def load(path: str | Path) -> Explanation:
    """Read an explanation from a JSON file."""
    return Explanation.load(path)


def warning_reasons(explanation: Explanation, target: int) -> list[str]:
    """The keys of STOP_REASONS that warn about one output token; a failed sufficiency test is always among them."""
    stopped, tests = explanation.cost.stopped[target], explanation.sufficiency
    test = None if tests is None else tests[target]
    failed = ["insufficient"] if test is not None and not test.passed and stopped != "insufficient" else []
    return failed + ([stopped] if STOP_REASONS.get(stopped) else [])


def model_warnings(explanation: Explanation) -> list[str]:
    """Warnings about what the model read and what a server reported."""
    cost = explanation.cost
    return [
        *control_token_warnings(explanation.control_tokens),
        *noise_warnings(explanation.noise),
        *censoring_warnings(cost.censored, cost.unlisted),
    ]


def noise_warnings(noise: float | None) -> list[str]:
    """
    >>> noise_warnings(None), noise_warnings(1e-4), len(noise_warnings(0.5))
    ([], [], 1)
    """
    if noise is None or noise < NOISY:
        return []
    return [
        f"the server returns other log-probabilities for the same request (± {noise:.2g} nats for a token): the "
        "standard errors include this, and small effects cannot be told from it"
    ]


def control_token_warnings(names: Sequence[str]) -> list[str]:
    """
    >>> control_token_warnings([]), len(control_token_warnings(["<|im_end|>"]))
    ([], 1)
    """
    if not names:
        return []
    listed = " ".join(names[:8]) + (" …" if len(names) > 8 else "")
    kind = "a control token" if len(names) == 1 else "control tokens"
    return [
        f"the text contains {listed}, which the model reads as {kind} and not as text; with control_tokens='text' "
        "(--control-tokens text) it reads the letters"
    ]


def censoring_warnings(censored: int, unlisted: int = 0) -> list[str]:
    """Warnings for a server that lists only the most probable tokens.

    >>> censoring_warnings(0), len(censoring_warnings(3)), len(censoring_warnings(3, 1))
    ([], 1, 2)
    """
    lines = []
    if censored:
        lines.append(
            f"the server did not list the target in {censored:,} {'answer' if censored == 1 else 'answers'}: there it "
            "counts as just less probable than the listed tokens, so effects may be too small"
        )
    if unlisted:
        lines.append(
            f"{unlisted:,} output {'token is' if unlisted == 1 else 'tokens are'} not listed even for the unchanged "
            "text, so effects may be too small or too large: recover exact values, or have more tokens listed"
        )
    return lines


def _check_rows(name: str, rows: Rows | None, inputs: int, outputs: int) -> None:
    if rows is None:
        return
    if [len(row) for row in rows] != [inputs + t for t in range(outputs)]:
        raise InputError(f"{name} must have {outputs} rows of {inputs}, {inputs + 1}, … numbers")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise InputError(f"{name} must be finite numbers")


def _check_finite(*values: Any) -> None:
    if not all(value is None or (isinstance(value, float | int) and math.isfinite(value)) for value in values):
        raise InputError("log-probabilities and seconds must be finite numbers")


def join_tokens(text: str, units: Sequence[Token], protected: bool = False) -> Token:
    """Adjacent units as one. It is protected if all of them are; its log-probability is their sum."""
    if len(units) == 1:
        return replace(units[0], protected=protected or units[0].protected)
    start, end = units[0].start, max(unit.end for unit in units)
    logprobs = [unit.logprob for unit in units if unit.logprob is not None]
    return Token(
        ids=tuple(i for unit in units for i in unit.ids),
        text=text[start:end],
        start=start,
        end=end,
        protected=protected or all(unit.protected for unit in units),
        logprob=sum(logprobs) if logprobs else None,
    )
