"""Token and Explanation: the one thing that all rooms share. Its JSON is in explanation_json.py.

Row t of `scores` belongs to output token t and has len(input) + t numbers: one for each unit of the
prompt, then one for each output token before t. It is a distribution: it sums to 1, and protected
units have 0. `effects` have the same shape and are signed: positive means that replacing this unit
makes the target less likely.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import InputError, UnknownNameError
from reagent.segmentation import UNITS, assign

if TYPE_CHECKING:
    import pandas

Z_95 = 1.96  # standard errors: 95 % of a normal distribution
Rows = tuple[tuple[float, ...], ...]

# What ended the search for one target, and what a reader must be told about it.
STOP_REASONS = {
    "condition": "",
    "single": "",
    "settled": "",
    "fixed": "",
    "unasked": "was not asked about: its scores are uniform and say nothing",
    "unsettled": "has a ranking that was still open when the probes ran out: look at the errors, or give more probes",
    "few": "rests on fewer than three replacements of each token: its errors are guesses; give more probes",
    "flat": "was made likelier by no part of the context: its scores are uniform and say nothing",
    "incomplete": "has effects that do not add up: close to zero embeddings the model jumps, and steps ran out",
    "relaxed": "is not what the model predicts even with the whole context: its rationale only keeps its rank",
    "empty": "keeps its place with everything replaced: it needs no token, so its scores are uniform and say nothing",
    "start": "met the stopping condition before the first step in at least one run, which then has learned nothing",
    "maximum": "did not meet the stopping condition within the maximum number of steps",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text and its ids; `text` is what `start` and `end` cut out of the prompt or completion.

    A larger unit (a word, a sentence, a phrase of the output) is the same with several ids. Pieces of one
    character (byte tokens of an emoji) all carry that character and its span. A special token that stands
    outside the text has an empty span and its own name as text.
    """

    ids: tuple[int, ...]
    text: str
    start: int
    end: int
    protected: bool = False
    logprob: float | None = None


class Message(NamedTuple):
    """One message of a chat: who said which characters of the prompt."""

    role: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What an explanation took, without loading the model and without generating the completion."""

    forward_passes: int  # of the explained model, one per sequence
    tokens: int
    seconds: float
    probes: int
    stopping_tests: int
    proposals: int  # passes for the proposals: of the explained model, or of the masked LM that made them
    steps: tuple[int, ...]  # per target, over all runs
    stopped: tuple[str, ...]  # per target, one of STOP_REASONS
    runs: tuple[tuple[int, ...], ...] = ()  # per target, the steps of each run
    requests: int = 0  # to a server; what its cache answered is not among them
    censored: int = 0  # answers of which only a bound is known: the server did not list the target
    unlisted: int = 0  # output tokens that it does not list even in the text as it stands


class WhatIf(NamedTuple):
    """What the model would have said: output token `target` under the strongest replacement of unit `position`."""

    target: int
    position: int
    replacement: str  # what stood in the unit's place
    probability: float  # of the target, then
    answers: tuple[tuple[str, float], ...]  # the likeliest tokens there and their probabilities, best first


@dataclass(frozen=True)
class Level:
    """A coarser look at the same prompt, from which the finer one went on; rows as in an Explanation."""

    unit: str
    units: tuple[Token, ...]
    scores: Rows
    effects: Rows | None = None
    stderr: Rows | None = None


class Contribution(NamedTuple):
    """One context token's part in one output token."""

    position: int
    token: Token
    score: float
    effect: float | None
    stderr: float | None


@dataclass(frozen=True)
class Explanation:
    """Why a model said what it said: importance of every context token for every output token."""

    prompt: str
    completion: str
    input: tuple[Token, ...]
    output: tuple[Token, ...]
    scores: Rows
    model: Mapping[str, Any]
    method: Mapping[str, Any]
    replacer: Mapping[str, Any] | None
    seed: int
    cost: Cost
    effects: Rows | None = None
    stderr: Rows | None = None
    effect_unit: str | None = None
    target: Mapping[str, Any] = field(default_factory=lambda: {"kind": "tokens"})
    unit: str = "token"  # how the prompt was cut: token, word, sentence, paragraph or span
    levels: tuple[Level, ...] = ()  # coarser first, where a long prompt was explained coarse to fine
    messages: tuple[Message, ...] = ()  # of a chat; what lies outside them is the template's
    what_if: tuple[WhatIf, ...] = ()
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def __post_init__(self) -> None:
        for name in ("scores", "effects", "stderr"):
            _check_rows(name, getattr(self, name), len(self.input), len(self.output))
        if any(not 0 <= value <= 1 + 1e-6 for row in self.scores for value in row):
            raise InputError("scores must lie between 0 and 1")
        if any(value < 0 for row in self.stderr or () for value in row):
            raise InputError("stderr must not be negative")
        if any(not 0 <= token.start <= token.end for token in self.input + self.output):
            raise InputError("tokens must begin at 0 or later and not end before they begin")
        rival = self.target.get("logprob")
        logprobs = [p for p in (rival, *(token.logprob for token in self.output)) if p is not None]
        if not all(isinstance(p, float | int) and math.isfinite(p) for p in (*logprobs, self.cost.seconds)):
            raise InputError("log-probabilities and seconds must be finite numbers")
        for level in self.levels:
            for name in ("scores", "effects", "stderr"):
                _check_rows(f"{name} of level {level.unit!r}", getattr(level, name), len(level.units), len(self.output))
        if self.output and not 0 <= self.focus < len(self.output):
            raise InputError(f"target.index must name one of the {len(self.output)} output tokens")
        if any(
            not 0 <= w.target < len(self.output) or not 0 <= w.position < len(self.input) + w.target
            for w in self.what_if
        ):
            raise InputError("what_if must name output tokens and units before them")
        if len(self.cost.steps) != len(self.output) or len(self.cost.stopped) != len(self.output):
            raise InputError("cost.steps and cost.stopped must have one entry for each output token")

    # --- asking ---

    @property
    def focus(self) -> int:
        """The output token that was asked about: the phrase of a span, the target of a contrast, else the first."""
        return int(self.target.get("index", 0))

    def context(self, target: int = 0) -> tuple[Token, ...]:
        """The tokens that row `target` speaks about: the prompt, then the output before it."""
        return self.input + self.output[: self._index(target)]

    def top(self, n: int = 5, target: int = 0) -> list[Contribution]:
        """The `n` most important context tokens of output token `target`, most important first."""
        t = self._index(target)
        context = self.context(t)
        order = sorted(range(len(context)), key=lambda i: -self.scores[t][i])
        return [
            Contribution(
                position=i,
                token=context[i],
                score=self.scores[t][i],
                effect=self.effects[t][i] if self.effects else None,
                stderr=self.stderr[t][i] if self.stderr else None,
            )
            for i in order
            if not context[i].protected
        ][:n]

    def settled(self, target: int = 0) -> tuple[bool, ...] | None:
        """For each context token, whether its place in the ranking is significant; None without errors.

        A place is settled when the effect differs from those next above and next below it by more than
        chance allows (95 %). Protected tokens have no place.
        """
        t = self._index(target)
        if self.effects is None or self.stderr is None:
            return None
        effects, errors, context = self.effects[t], self.stderr[t], self.context(t)
        order = sorted((i for i, token in enumerate(context) if not token.protected), key=lambda i: -effects[i])
        apart = [effects[a] - effects[b] > Z_95 * math.hypot(errors[a], errors[b]) for a, b in pairwise(order)]
        places = dict(zip(order, map(all, zip([True, *apart], [*apart, True], strict=True)), strict=True))
        return tuple(places.get(i, True) for i in range(len(context)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before trusting a row, one line per affected output token; then what concerns all."""
        rows = (
            f"{self.output[t].text!r} {STOP_REASONS[reason]}"
            for t, reason in enumerate(self.cost.stopped)
            if STOP_REASONS.get(reason)
        )
        return (*rows, *censoring_warnings(self.cost.censored, self.cost.unlisted))

    def aggregate(self, unit: str) -> "Explanation":
        """The same explanation summed to words, sentences or paragraphs after the fact.

        A sum of token effects is not the effect of replacing the whole: ask `explain` for the unit to get that.
        Errors are added as if they were independent.
        """
        if unit not in UNITS:
            raise UnknownNameError("unit", unit, UNITS)
        cut = assign([(t.start, t.end) for t in self.input], UNITS[unit](self.prompt), self.prompt)
        keys = [
            (c, i if c is None or t.protected else -1) for i, (c, t) in enumerate(zip(cut, self.input, strict=True))
        ]
        groups = [[i for i, _ in run] for _, run in groupby(enumerate(keys), key=lambda pair: pair[1])]
        return replace(
            self,
            input=tuple(join_tokens(self.prompt, [self.input[i] for i in group]) for group in groups),
            unit=unit,
            levels=(),
            what_if=(),
            scores=_summed(self.scores, groups),
            effects=None if self.effects is None else _summed(self.effects, groups),
            stderr=None if self.stderr is None else _summed(self.stderr, groups, power=2),
        )

    def _index(self, target: int) -> int:
        if not -len(self.output) <= target < len(self.output):
            raise InputError(f"there is no output token {target}: this explanation has {len(self.output)}")
        return target % len(self.output)

    # --- keeping ---

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as plain lists and dictionaries."""
        from reagent.explanation_json import to_dict

        return to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        from reagent.explanation_json import to_json

        return to_json(self, indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file, whole or not at all."""
        return atomic_write(path, self.to_json() + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Explanation":
        """The reverse of `to_dict`; refuses anything that is not a whole explanation of this schema."""
        from reagent.explanation_json import from_dict

        return from_dict(data)

    # --- looking (the views are reached lazily: this file knows none of them) ---

    def show(self, target: int | None = None) -> None:
        """Print to the terminal: every output token, or only `target`."""
        from reagent.views.terminal import show

        show(self, target=target)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page; also written to `path` where one is given."""
        from reagent.views.html import render_page

        text = render_page(self)
        if path is not None:
            atomic_write(path, text)
        return text

    def to_png(self, path: str | Path, target: int | None = None) -> Path:
        """Bars over the context tokens, or a heat map where there are several output tokens."""
        from reagent.views.plots import save_png

        return save_png(self, path, target=target)

    def to_frame(self) -> "pandas.DataFrame":
        """A table with a row for each output token and each unit of its context."""
        from reagent.views.dataframe import to_frame

        return to_frame(self)

    def _repr_html_(self) -> str:
        from reagent.views.html import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        best = ", ".join(f"{c.token.text!r} {c.score:.2f}" for c in self.top(3)) if self.output else ""
        return f"<Explanation of {self.completion!r} by {self.method.get('id')} on {self.model.get('id')}: {best}>"


def censoring_warnings(censored: int, unlisted: int = 0) -> list[str]:
    """What a reader must know where a server lists the likeliest tokens only.

    >>> censoring_warnings(0), len(censoring_warnings(3)), len(censoring_warnings(3, 1))
    ([], 1, 2)
    """
    lines = []
    if censored:
        lines.append(
            f"the server did not list the target in {censored:,} {'answer' if censored == 1 else 'answers'}: it counts "
            "as just below the tokens listed, so that effects are, if anything, too small"
        )
    if unlisted:
        lines.append(
            f"{unlisted:,} output {'token is' if unlisted == 1 else 'tokens are'} not listed even in the text as it "
            "stands, and the effects may err either way: recover exact values, or have more tokens listed"
        )
    return lines


def _check_rows(name: str, rows: Rows | None, inputs: int, outputs: int) -> None:
    if rows is None:
        return
    if [len(row) for row in rows] != [inputs + t for t in range(outputs)]:
        raise InputError(f"{name} must have {outputs} rows of {inputs}, {inputs + 1}, … numbers")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise InputError(f"{name} must be finite numbers")


def _summed(rows: Rows, groups: Sequence[Sequence[int]], power: int = 1) -> Rows:
    """Sums over groups of the prompt's units (of squares, for errors); what stands after the prompt stays."""
    inputs = sum(map(len, groups))
    return tuple(
        (*(sum(row[i] ** power for i in group) ** (1 / power) for group in groups), *row[inputs:]) for row in rows
    )


def join_tokens(text: str, units: Sequence[Token], protected: bool = False) -> Token:
    """Neighbours as one unit of the text; it is protected if all of them are, and as likely as all of them together."""
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
