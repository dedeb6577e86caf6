"""Token and Explanation: the one thing that all rooms share, and its JSON.

Row t of `scores` belongs to output token t and has len(input) + t numbers: one for each token of the
prompt, then one for each output token before t. It is a distribution: it sums to 1, and protected
tokens have 0. `effects` have the same shape and are signed: positive means that replacing this token
makes the target less likely.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from reagent._version import __version__
from reagent.errors import FileError, InputError
from reagent.files import write_whole

SCHEMA = "reagent.explanation/1"
SURE = 1.96  # standard errors: 95 % of a normal distribution
Rows = tuple[tuple[float, ...], ...]

# What ended the search for one target, and what a reader must be told about it.
STOPPED = {
    "condition": "",
    "single": "",
    "settled": "",
    "fixed": "",
    "unsettled": "has a ranking that was still open when the probes ran out: look at the errors, or give more probes",
    "flat": "was made likelier by no token: its scores are uniform and say nothing",
    "start": "met the stopping condition before the first step in at least one run, which then has learned nothing",
    "maximum": "did not meet the stopping condition within the maximum number of steps",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text and its ids; `text` is what `start` and `end` cut out of the prompt or completion.

    Pieces of one character (byte tokens of an emoji) all carry that character and its span. A special
    token that stands outside the text has an empty span and its own name as text.
    """

    ids: tuple[int, ...]
    text: str
    start: int
    end: int
    protected: bool = False
    logprob: float | None = None


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
    stopped: tuple[str, ...]  # per target, one of STOPPED
    runs: tuple[tuple[int, ...], ...] = ()  # per target, the steps of each run


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
        logprobs = (token.logprob for token in self.output if token.logprob is not None)
        if not all(map(math.isfinite, (*logprobs, self.cost.seconds))):
            raise InputError("log-probabilities and seconds must be finite numbers")
        if len(self.cost.steps) != len(self.output) or len(self.cost.stopped) != len(self.output):
            raise InputError("cost.steps and cost.stopped must have one entry for each output token")

    # --- asking ---

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
        apart = [effects[a] - effects[b] > SURE * math.hypot(errors[a], errors[b]) for a, b in pairwise(order)]
        places = dict(zip(order, map(all, zip([True, *apart], [*apart, True], strict=True)), strict=True))
        return tuple(places.get(i, True) for i in range(len(context)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before trusting a row, one line per affected output token."""
        return tuple(
            f"{self.output[t].text!r} {STOPPED[reason]}"
            for t, reason in enumerate(self.cost.stopped)
            if STOPPED.get(reason)
        )

    def _index(self, target: int) -> int:
        if not -len(self.output) <= target < len(self.output):
            raise InputError(f"there is no output token {target}: this explanation has {len(self.output)}")
        return target % len(self.output)

    # --- keeping ---

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as plain lists and dictionaries."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "created": self.created,
            "prompt": self.prompt,
            "completion": self.completion,
            "model": dict(self.model),
            "method": dict(self.method),
            "replacer": None if self.replacer is None else dict(self.replacer),
            "seed": self.seed,
            "target": dict(self.target),
            "effect_unit": self.effect_unit,
            "input": [_token_dict(token, "protected") for token in self.input],
            "output": [_token_dict(token, "logprob") for token in self.output],
            "scores": _lists(self.scores),
            "effects": None if self.effects is None else _lists(self.effects),
            "stderr": None if self.stderr is None else _lists(self.stderr),
            "cost": _cost_dict(self.cost),
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file, whole or not at all."""
        return write_whole(path, self.to_json() + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Explanation":
        """The reverse of `to_dict`; refuses anything that is not a whole explanation of this schema."""
        _check_schema(data)
        try:
            return cls(
                prompt=str(data["prompt"]),
                completion=str(data["completion"]),
                input=tuple(_token(entry) for entry in data["input"]),
                output=tuple(_token(entry) for entry in data["output"]),
                scores=_rows(data["scores"]),
                effects=None if data["effects"] is None else _rows(data["effects"]),
                stderr=None if data["stderr"] is None else _rows(data["stderr"]),
                effect_unit=None if data["effect_unit"] is None else str(data["effect_unit"]),
                model=dict(data["model"]),
                method=dict(data["method"]),
                replacer=None if data["replacer"] is None else dict(data["replacer"]),
                seed=int(data["seed"]),
                target=dict(data["target"]),
                cost=_cost(data["cost"]),
                version=str(data["version"]),
                created=str(data["created"]),
            )
        except KeyError as error:
            raise FileError(f"not a whole explanation: {error.args[0]!r} is missing") from error
        except (TypeError, ValueError, AttributeError, ArithmeticError, InputError) as error:
            raise FileError(f"not a whole explanation: {error}") from error

    # --- looking (the views are reached lazily: this file knows none of them) ---

    def show(self, target: int | None = None) -> None:
        """Print to the terminal: every output token, or only `target`."""
        from reagent.views.terminal import show

        show(self, target=target)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page; also written to `path` where one is given."""
        from reagent.views.html import page

        text = page(self)
        if path is not None:
            write_whole(path, text)
        return text

    def to_png(self, path: str | Path, target: int | None = None) -> Path:
        """Bars over the context tokens, or a heat map where there are several output tokens."""
        from reagent.views.plots import save_png

        return save_png(self, path, target=target)

    def _repr_html_(self) -> str:
        from reagent.views.html import fragment

        return fragment(self)

    def __repr__(self) -> str:
        best = ", ".join(f"{c.token.text!r} {c.score:.2f}" for c in self.top(3)) if self.output else ""
        return f"<Explanation of {self.completion!r} by {self.method.get('id')} on {self.model.get('id')}: {best}>"


def load(path: str | Path) -> Explanation:
    """Read an explanation that was saved as JSON."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{str(path)!r} is not JSON ({error}); give a file written by --json") from error
    try:
        return Explanation.from_dict(data)
    except FileError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def _check_schema(data: Any) -> None:
    if not isinstance(data, Mapping) or "schema" not in data:
        raise FileError(f"not an explanation: it has no 'schema' entry (expected {SCHEMA!r})")
    if data["schema"] != SCHEMA:
        raise FileError(
            f"schema {data['schema']!r} is not known to reagent {__version__}, which reads {SCHEMA!r}; "
            "a newer reagent may read it"
        )


def _check_rows(name: str, rows: Rows | None, inputs: int, outputs: int) -> None:
    if rows is None:
        return
    if [len(row) for row in rows] != [inputs + t for t in range(outputs)]:
        raise InputError(f"{name} must have {outputs} rows of {inputs}, {inputs + 1}, … numbers")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise InputError(f"{name} must be finite numbers")


def _token_dict(token: Token, last: str) -> dict[str, Any]:
    keys = ("text", "start", "end", last)
    return {"ids": list(token.ids)} | {key: getattr(token, key) for key in keys}


def _token(entry: Mapping[str, Any]) -> Token:
    logprob = entry.get("logprob")
    return Token(
        ids=tuple(int(i) for i in entry["ids"]),
        text=str(entry["text"]),
        start=int(entry["start"]),
        end=int(entry["end"]),
        protected=bool(entry.get("protected", False)),
        logprob=None if logprob is None else float(logprob),
    )


def _cost_dict(cost: Cost) -> dict[str, Any]:
    lists = {"steps": list(cost.steps), "stopped": list(cost.stopped), "runs": [list(steps) for steps in cost.runs]}
    return asdict(cost) | lists


def _cost(entry: Mapping[str, Any]) -> Cost:
    return Cost(
        **{name: int(entry[name]) for name in ("forward_passes", "tokens", "probes", "stopping_tests", "proposals")},
        seconds=float(entry["seconds"]),
        steps=tuple(int(n) for n in entry["steps"]),
        stopped=tuple(str(reason) for reason in entry["stopped"]),
        runs=tuple(tuple(int(n) for n in steps) for steps in entry.get("runs", ())),
    )


def _rows(rows: Sequence[Sequence[float]]) -> Rows:
    return tuple(tuple(float(value) for value in row) for row in rows)


def _lists(rows: Rows) -> list[list[float]]:
    return [list(row) for row in rows]
