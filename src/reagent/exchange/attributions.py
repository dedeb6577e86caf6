"""Numbers of another tool for pieces of a text, as an Explanation of a model's tokens.

A unit of the explanation is the smallest run of tokens that is also a run of pieces. So a tool that scores words gives
an explanation of words, and no number is divided among tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case, Floats
from reagent.errors import InputError
from reagent.exchange.alignment import find_pieces
from reagent.explanation import Cost, Explanation, Token, join_tokens
from reagent.methods.normalization import normalize
from reagent.models.base import Model, response_of
from reagent.models.load import load_model
from reagent.segmentation import Span

MAX_NUMBERS = 50_000_000  # of one explanation: 400 MB


@dataclass(frozen=True)
class Attributions:
    """What another tool says about an output: a number for each piece of the context of each piece of the output."""

    method: Mapping[str, Any]
    """As in an Explanation: `id`, `preset` and anything else that is known."""
    prompt: str
    completion: str | None
    """None: the model's own continuation, with as many tokens as there are pieces."""
    inputs: Sequence[str]
    outputs: Sequence[str]
    values: Floats
    """[outputs, inputs], or [outputs, inputs + outputs] if earlier output has numbers too."""
    unit: str
    """What is measured, as nats or probability."""
    places: Sequence[Span] | None = None
    """Where the pieces of the prompt are, if the tool says so."""
    gaps: bool = False
    """Whether a part of the prompt may have no piece; it becomes protected."""
    ids: Sequence[int] | None = None
    """The tokens of the whole text, if the tool says so; they must be those of the model."""
    seconds: float = 0.0
    """What the tool needed, if it says so."""

    def __post_init__(self) -> None:
        inputs, outputs = len(self.inputs), len(self.outputs)
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            raise InputError("the attributions have no prompt: give it as `prompt`")
        if self.completion is not None and (not isinstance(self.completion, str) or not self.completion):
            raise InputError(f"`completion` must be a text that is not empty, got {self.completion!r}")
        if not all(isinstance(piece, str) for piece in (*self.inputs, *self.outputs)):
            raise InputError("the pieces of prompt and output must be texts: give the explanation of a text")
        if not outputs or self.values.shape not in ((outputs, inputs), (outputs, inputs + outputs)):
            shape = " × ".join(map(str, self.values.shape))
            raise InputError(
                f"the attributions of {inputs} pieces of the prompt and {outputs} of the output must have a number for "
                f"each pair of them, got {shape} numbers"
            )
        if self.values.size > MAX_NUMBERS:
            raise InputError(
                f"{self.values.size:,} numbers are too many for one explanation: at most {MAX_NUMBERS:,} are read"
            )
        rows = zip(self.values, range(inputs, inputs + outputs), strict=True)
        if not all(np.isfinite(row[:end]).all() for row, end in rows):
            raise InputError("attributions must be finite numbers: some are NaN or infinite")

    def explain(self, model: Model | Any) -> Explanation:
        """The explanation of `model` that these numbers are."""
        loaded: Model = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
        case = self._case(loaded)
        if self.ids is not None and list(self.ids) != case.ids.tolist():
            raise InputError(
                f"{self.method['id']} read other tokens than {loaded.info['id']!r} reads in this text: give the model "
                "that it explained, and a text that both read alike"
            )
        places = find_pieces(case.prompt, self.inputs, self.gaps) if self.places is None else self.places
        inputs = _Units.of(case.input, places)
        outputs = _Units.of(case.output, find_pieces(case.completion, self.outputs))
        source, last = inputs.join(case.prompt, case.input), outputs.join(case.completion, case.output)
        sees_output = self.values.shape[1] > len(self.inputs)
        case = replace(case, input=source, output=last if sees_output else _protected(last))
        if response_of(loaded).is_logprob:
            case = case.with_logprobs(loaded)
        rows = self._rows(inputs, outputs)
        normalized = [normalize(row, case.protected) for row in rows]
        single = all(len(unit.ids) == 1 for unit in case.input)
        return Explanation(
            prompt=case.prompt,
            completion=case.completion,
            model=dict(loaded.info),
            method=self.method,
            replacer=None,
            seed=0,
            unit="token" if single else "span",
            display_unit="word" if single else None,
            attributes="context" if sees_output else "prompt",
            effect_unit=self.unit,
            input=case.input,
            output=tuple(replace(unit, protected=False) for unit in case.output),
            scores=tuple(tuple(scores.tolist()) for scores, _ in normalized),
            effects=tuple(tuple(row.tolist()) for row in rows),
            cost=Cost(
                forward_passes=0,  # unknown
                tokens=0,
                seconds=self.seconds,
                probes=0,
                stopping_tests=0,
                proposals=0,
                steps=(0,) * len(rows),
                stopped=tuple("flat" if flat else "fixed" for _, flat in normalized),
            ),
        )

    def _case(self, model: Model) -> Case:
        case = model.case(self.prompt, self.completion, len(self.outputs))
        if self.completion is None:
            try:
                find_pieces(case.completion, self.outputs)
            except InputError as error:
                raise InputError(
                    f"the model's own output, {case.completion!r}, is not the explained one: give it as `completion`"
                ) from error
        return case

    def _rows(self, inputs: "_Units", outputs: "_Units") -> list[Floats]:
        """The numbers of each output unit, over the units before it."""
        count, size = len(self.inputs), len(inputs.pieces)
        rows = []
        for t, pieces in enumerate(outputs.pieces):
            row = np.nansum(self.values[list(pieces)], axis=0)
            earlier = outputs.sums(row[count:])[:t] if len(row) > count else np.zeros(t)
            rows.append(np.concatenate([inputs.sums(row[:count])[:size], earlier]))
        return rows


def completion_of(outputs: Sequence[str]) -> str | None:
    """The text of the pieces of an output; None if tools that strip it may have taken its first space.

    >>> completion_of([" Tokyo", "."]), completion_of(["Tokyo", "."])
    (' Tokyo.', None)
    """
    return "".join(outputs) if outputs and outputs[0][:1].isspace() else None


@dataclass(frozen=True)
class _Units:
    """Runs of tokens, and the pieces of another tool that each of them consists of."""

    runs: list[list[int]]
    pieces: list[set[int]]

    @classmethod
    def of(cls, tokens: Sequence[Token], places: Sequence[Span | None]) -> "_Units":
        """The smallest runs of tokens that share no piece with each other."""
        size = max((token.end for token in tokens), default=0)
        owners: list[list[int]] = [[] for _ in range(size)]
        for number, place in enumerate(places):
            for i in range(*(place or (0, 0))):
                owners[min(i, size - 1)].append(number)
        units = cls([], [])
        for number, token in enumerate(tokens):
            units._add(number, _owners(token, owners))
        units._add_spaces(tokens, places)
        return units

    def _add(self, number: int, pieces: set[int]) -> None:
        if self.pieces and pieces & self.pieces[-1]:
            self.runs[-1].append(number)
            self.pieces[-1] |= pieces
        else:
            self.runs.append([number])
            self.pieces.append(set(pieces))

    def _add_spaces(self, tokens: Sequence[Token], places: Sequence[Span | None]) -> None:
        """Pieces that are only spaces belong to the unit with their first character."""
        known = set().union(*self.pieces)
        for number, place in enumerate(places):
            if place is not None and number not in known:
                ends = (tokens[run[-1]].end for run in self.runs)
                at = next((i for i, end in enumerate(ends) if place[0] < end), len(self.runs) - 1)
                self.pieces[at].add(number)

    def join(self, text: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
        """The units; one without a piece is protected."""
        return tuple(
            join_tokens(text, [tokens[i] for i in run], protected=not pieces)
            for run, pieces in zip(self.runs, self.pieces, strict=True)
        )

    def sums(self, row: Floats) -> Floats:
        """The sum over the pieces of each unit."""
        return np.array([row[list(pieces)].sum() for pieces in self.pieces])


def _owners(token: Token, owners: Sequence[Sequence[int]]) -> set[int]:
    """The pieces of a token, by its letters; if it has none, by its spaces."""
    places = range(token.start, token.end)
    letters = [i for i in places if not token.text[i - token.start].isspace()]
    return {number for i in letters or places for number in owners[i]}


def _protected(units: Iterable[Token]) -> tuple[Token, ...]:
    return tuple(replace(unit, protected=True) for unit in units)
