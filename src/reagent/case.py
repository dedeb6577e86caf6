"""One thing to explain: a prompt and its continuation as one model's tokens, cut into units.

A *unit* is what is replaced and scored whole: a token, a word, a sentence, a marked part. Input and
output are lists of units; a unit knows its text, its characters and its token ids, so a case by tokens
is the special case in which every unit has one id. Units follow each other without gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from reagent.errors import InputError
from reagent.explanation import Message, Token, join_tokens

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BEHIND = 2**31  # the rank of a target that its contrast has overtaken


class TargetScores(NamedTuple):
    """How likely each target was in each sequence; rank 0 is the model's first choice."""

    logprob: Floats  # [batch, targets]
    rank: Ids  # [batch, targets]


class ScoresTargets(Protocol):
    """The part of a model that a case needs: the log-probability and rank of targets in a batch of sequences."""

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores: ...


class ContrastToken(NamedTuple):
    """What output unit `at` is contrasted with: another token at the same place."""

    at: int
    token: Token


class OutputScores(NamedTuple):
    """What the model makes of each output unit in each sequence."""

    value: Floats  # [batch, outputs]: log-probability; for a contrast, log-odds against the contrast
    rank: Ids  # [batch, outputs]: 0 is the model's first choice; of a phrase, its worst token


@dataclass(frozen=True)
class Case:
    """A prompt and its continuation, and what the output is contrasted with."""

    prompt: str
    completion: str
    input: tuple[Token, ...]
    output: tuple[Token, ...]
    contrast: ContrastToken | None = None
    messages: tuple[Message, ...] = ()  # of a chat: who said which part of the prompt
    stride: int = 1  # every so many output units are asked about, from the first on
    phrase: int | None = None  # the output unit that is the phrase asked about, if one was

    def __post_init__(self) -> None:
        if not any(not unit.protected for unit in self.input):
            raise InputError("there is nothing to explain: the prompt has no token that may be replaced")
        if not self.output:
            raise InputError("there is nothing to explain: the continuation is empty")

    @property
    def units(self) -> tuple[Token, ...]:
        return self.input + self.output

    @cached_property
    def ids(self) -> Ids:
        """Prompt and continuation as one sequence, [length]."""
        return np.array([i for unit in self.units for i in unit.ids], dtype=np.int64)

    @cached_property
    def unit_of(self) -> Ids:
        """To which unit each position of `ids` belongs, [length]."""
        return np.repeat(np.arange(len(self.units)), [len(unit.ids) for unit in self.units])

    @cached_property
    def unit_starts(self) -> Ids:
        """Where each unit starts in `ids`, and at last where all ends, [units + 1]."""
        return np.concatenate([[0], np.cumsum([len(unit.ids) for unit in self.units])]).astype(np.int64)

    @property
    def protected(self) -> Mask:
        """Which units must never be replaced."""
        return np.array([unit.protected for unit in self.units])

    # --- what is asked ---

    @property
    def explained_rows(self) -> range:
        """The output units that are asked about; a method may leave out the others."""
        return range(0, len(self.output), self.stride)

    @property
    def required_rows(self) -> Sequence[int]:
        """The output units whose answers must be clear: the phrase or the one contrasted, otherwise all asked about."""
        focus = self.contrast.at if self.contrast is not None else self.phrase
        return self.explained_rows if focus is None else (focus,)

    @property
    def positions(self) -> Ids:
        """Where the model is asked for a probability: at every output token, and once more for a contrast."""
        outputs = np.arange(self.unit_starts[len(self.input)], len(self.ids))
        return outputs if self.contrast is None else np.append(outputs, self._contrast_position)

    @property
    def targets(self) -> Ids:
        """Of which token."""
        outputs = self.ids[self.unit_starts[len(self.input)] :]
        return outputs if self.contrast is None else np.append(outputs, self.contrast.token.ids[0])

    def score_outputs(self, model: ScoresTargets, sequences: Ids) -> OutputScores:
        """Ask about all output units; [batch, outputs].

        The log-probability of a phrase is the sum over its tokens. A target with a contrast has log-odds, and
        is out of the ranking when the contrast is ahead.
        """
        logprob, rank = model.score(sequences, self.positions, self.targets)
        starts = self.unit_starts[len(self.input) : -1] - self.unit_starts[len(self.input)]
        value = np.stack(self.output_values(logprob), axis=1)
        worst = np.maximum.reduceat(rank[:, : len(self.ids) - self.unit_starts[len(self.input)]], starts, axis=1)
        if self.contrast is not None:
            worst[:, self.contrast.at] = np.where(value[:, self.contrast.at] > 0, 0, BEHIND)
        return OutputScores(value, worst)

    def output_values(self, logprob: Any) -> list[Any]:
        """From log-probabilities of all that is asked, [batch, asked], the value of each output unit, [batch].

        Of numpy arrays or of torch tensors, and then with their gradients.
        """
        edges = self.unit_starts[len(self.input) :] - self.unit_starts[len(self.input)]
        value = [logprob[:, start:stop].sum(-1) for start, stop in pairwise(edges.tolist())]
        if self.contrast is not None:
            value[self.contrast.at] = value[self.contrast.at] - logprob[:, -1]
        return value

    def probability(self, value: Floats) -> Floats:
        """Values [batch, outputs] as probabilities; against a contrast, that of the target among the two."""
        probability = np.exp(value)
        if self.contrast is not None:
            odds = value[:, self.contrast.at]
            probability[:, self.contrast.at] = np.exp(-np.logaddexp(0, -odds))
        return probability

    @property
    def values(self) -> Floats:
        """What the model makes of each output unit as the text stands, [outputs]; see `with_logprobs`."""
        value = np.array([unit.logprob for unit in self.output], dtype=np.float64)
        if self.contrast is not None:
            value[self.contrast.at] -= self.contrast.token.logprob
        return value

    def with_logprobs(self, model: ScoresTargets) -> "Case":
        """The same case, with the log-probability of every output unit and of its contrast: one forward pass."""
        asked = model.score(self.ids[None], self.positions, self.targets).logprob[0]
        of = self.unit_of[self.unit_starts[len(self.input)] :] - len(self.input)
        sums = np.bincount(of, asked[: len(of)])
        output = tuple(replace(unit, logprob=float(p)) for unit, p in zip(self.output, sums, strict=True))
        contrast = self.contrast and ContrastToken(
            self.contrast.at, replace(self.contrast.token, logprob=float(asked[-1]))
        )
        return replace(self, output=output, contrast=contrast)

    # --- the same case, otherwise cut ---

    def grouped(self, groups: Sequence[int | None]) -> "Case":
        """The input cut otherwise: neighbours of one group become one unit, and None is never touched.

        `groups` has one entry for each input unit. Special tokens, which stand outside the text, stay alone.
        """
        keys = [
            i - len(groups) if unit.end <= unit.start else group
            for i, (group, unit) in enumerate(zip(groups, self.input, strict=True))
        ]
        runs = groupby(zip(keys, self.input, strict=True), key=lambda pair: pair[0])
        units = (join_tokens(self.prompt, [unit for _, unit in run], protected=key is None) for key, run in runs)
        return replace(self, input=tuple(units))

    def with_phrase(self, start: int, end: int) -> "Case":
        """The output tokens that hold the characters `start` to `end` of the completion as one unit."""
        inside = [unit.start < end and unit.end > start for unit in self.output]
        runs = groupby(
            zip((-1 if within else i for i, within in enumerate(inside)), self.output, strict=True),
            key=lambda pair: pair[0],
        )
        output = tuple(join_tokens(self.completion, [unit for _, unit in run]) for _, run in runs)
        return replace(self, output=output, phrase=inside.index(True))

    def contrasted_with(self, token: Token, index: int) -> "Case":
        """The same case, in which output unit `index` is contrasted with `token`; what follows it is left out."""
        return replace(
            self,
            output=self.output[: index + 1],
            completion=self.completion[: self.output[index].end],
            contrast=ContrastToken(index, token),
        )

    def for_target(self, t: int) -> "Case":
        """The question about output unit `t` alone: what stands before it is its input."""
        begin = self.output[t].start
        shift = len(self.prompt)
        moved = tuple(replace(unit, start=unit.start + shift, end=unit.end + shift) for unit in self.output[:t])
        contrast = (
            ContrastToken(0, self.contrast.token) if self.contrast is not None and self.contrast.at == t else None
        )
        target = replace(self.output[t], start=0, end=self.output[t].end - begin)
        text = self.completion
        return Case(
            self.prompt + text[:begin], text[begin : self.output[t].end], self.input + moved, (target,), contrast
        )

    @property
    def _contrast_position(self) -> int:
        assert self.contrast is not None
        return int(self.unit_starts[len(self.input) + self.contrast.at])
