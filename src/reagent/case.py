"""Case: a prompt and its continuation, tokenised and segmented into units.

A *unit* is replaced and scored as a whole: a token, a word, a sentence or a marked span. Input and output are lists
of units. Each unit has its text, its character offsets and its token ids; if every unit is a token, every unit has
one id. Units follow each other without gaps.
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

OVERTAKEN = 2**31  # rank of a target that is less likely than its contrast


class TargetScores(NamedTuple):
    """Log-probability and rank of each target in each sequence; rank 0 is the most likely token."""

    logprob: Floats  # [batch, targets]
    rank: Ids  # [batch, targets]


class ScoresTargets(Protocol):
    """The one capability that a case needs from a model: scoring targets in a batch of sequences."""

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores: ...


class ContrastToken(NamedTuple):
    """The token that output unit `at` is contrasted with, at the same position."""

    at: int
    token: Token


class OutputScores(NamedTuple):
    """Value and rank of each output unit in each sequence."""

    value: Floats  # [batch, outputs]: log-probability, or log-odds against the contrast
    rank: Ids  # [batch, outputs]: 0 is the most likely token; for a phrase, the worst rank of its tokens


@dataclass(frozen=True)
class Case:
    """A prompt, its continuation, and which output units are explained."""

    prompt: str
    completion: str
    input: tuple[Token, ...]
    output: tuple[Token, ...]
    contrast: ContrastToken | None = None
    messages: tuple[Message, ...] = ()  # for a chat: role and extent of each message in the prompt
    stride: int = 1  # explain every `stride`-th output unit, from the first on
    phrase: int | None = None  # index of the output unit that is an explained phrase
    separate: bool = False  # the output is a text of its own and does not continue the prompt: encoder–decoder models

    def __post_init__(self) -> None:
        if not any(not unit.protected for unit in self.input):
            raise InputError("there is nothing to explain: the prompt has no token that may be replaced")
        if not self.output:
            raise InputError("there is nothing to explain: the continuation is empty")

    @property
    def units(self) -> tuple[Token, ...]:
        return self.input + self.output

    @property
    def text(self) -> str:
        """Prompt and output as one text; a line end is between texts that are separate."""
        return f"{self.prompt}\n{self.completion}" if self.separate else self.prompt + self.completion

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each unit is in `text`."""
        shift = len(self.text) - len(self.completion)
        output = [(unit.start + shift, unit.end + shift) for unit in self.output]
        return [*((unit.start, unit.end) for unit in self.input), *output]

    @cached_property
    def ids(self) -> Ids:
        """Prompt and continuation as one sequence, [length]."""
        return np.array([i for unit in self.units for i in unit.ids], dtype=np.int64)

    @cached_property
    def unit_of(self) -> Ids:
        """The unit that each position of `ids` belongs to, [length]."""
        return np.repeat(np.arange(len(self.units)), [len(unit.ids) for unit in self.units])

    @cached_property
    def unit_starts(self) -> Ids:
        """Start of each unit in `ids`, followed by the length of `ids`; [units + 1]."""
        return np.concatenate([[0], np.cumsum([len(unit.ids) for unit in self.units])]).astype(np.int64)

    @property
    def protected(self) -> Mask:
        """Units that must never be replaced, [units]."""
        return np.array([unit.protected for unit in self.units])

    # --- targets and their scores ---

    @property
    def explained_rows(self) -> range:
        """Output units to explain; a method may skip the others."""
        return range(0, len(self.output), self.stride)

    @property
    def required_rows(self) -> Sequence[int]:
        """Output units whose ranking must be settled: the phrase or contrasted unit, otherwise all explained rows."""
        focus = self.contrast.at if self.contrast is not None else self.phrase
        return self.explained_rows if focus is None else (focus,)

    @property
    def positions(self) -> Ids:
        """Positions to score: every output token, plus the position of the contrast if there is one."""
        outputs = np.arange(self.unit_starts[len(self.input)], len(self.ids))
        return outputs if self.contrast is None else np.append(outputs, self._contrast_position)

    @property
    def targets(self) -> Ids:
        """The token to score at each of `positions`."""
        outputs = self.ids[self.unit_starts[len(self.input)] :]
        return outputs if self.contrast is None else np.append(outputs, self.contrast.token.ids[0])

    def score_outputs(self, model: ScoresTargets, sequences: Ids) -> OutputScores:
        """Score all output units in each sequence, [batch, outputs].

        The log-probability of a phrase is the sum over its tokens. The value of a contrasted target is its log-odds
        against the contrast; its rank is 0, or `OVERTAKEN` if the contrast is at least as likely.
        """
        return self.output_scores(model.score(sequences, self.positions, self.targets))

    def output_scores(self, scores: TargetScores) -> OutputScores:
        """Value and rank of each output unit, [batch, outputs], from the scores of `targets`, [batch, targets]."""
        logprob, rank = scores
        starts = self.unit_starts[len(self.input) : -1] - self.unit_starts[len(self.input)]
        value = np.stack(self.output_values(logprob), axis=1)
        worst = np.maximum.reduceat(rank[:, : len(self.ids) - self.unit_starts[len(self.input)]], starts, axis=1)
        if self.contrast is not None:
            worst[:, self.contrast.at] = np.where(value[:, self.contrast.at] > 0, 0, OVERTAKEN)
        return OutputScores(value, worst)

    def output_values(self, logprob: Any) -> list[Any]:
        """The value of each output unit, [batch], from the log-probabilities of `targets`, [batch, targets].

        Accepts numpy arrays and torch tensors; the values of tensors keep their gradients.
        """
        edges = self.unit_starts[len(self.input) :] - self.unit_starts[len(self.input)]
        value = [logprob[:, start:stop].sum(-1) for start, stop in pairwise(edges.tolist())]
        if self.contrast is not None:
            value[self.contrast.at] = value[self.contrast.at] - logprob[:, -1]
        return value

    def probability(self, value: Floats) -> Floats:
        """Values [batch, outputs] as probabilities; for a contrast, p(target) / (p(target) + p(contrast))."""
        probability = np.exp(value)
        if self.contrast is not None:
            odds = value[:, self.contrast.at]
            probability[:, self.contrast.at] = np.exp(-np.logaddexp(0, -odds))
        return probability

    @property
    def values(self) -> Floats:
        """Value of each output unit in the unchanged text, [outputs]; requires `with_logprobs`."""
        value = np.array([unit.logprob for unit in self.output], dtype=np.float64)
        if self.contrast is not None:
            value[self.contrast.at] -= self.contrast.token.logprob
        return value

    def with_logprobs(self, model: ScoresTargets) -> "Case":
        """The same case with the log-probability of every output unit and of the contrast, from one forward pass."""
        logprob = model.score(self.ids[None], self.positions, self.targets).logprob[0]
        output_of = self.unit_of[self.unit_starts[len(self.input)] :] - len(self.input)  # [output tokens]
        sums = np.bincount(output_of, logprob[: len(output_of)])
        output = tuple(replace(unit, logprob=float(p)) for unit, p in zip(self.output, sums, strict=True))
        contrast = self.contrast and ContrastToken(
            self.contrast.at, replace(self.contrast.token, logprob=float(logprob[-1]))
        )
        return replace(self, output=output, contrast=contrast)

    # --- the same case with other units or targets ---

    def without_output_removal(self) -> "Case":
        """The same case with all output units protected: only the prompt is changed."""
        return replace(self, output=tuple(replace(unit, protected=True) for unit in self.output))

    @property
    def asks_about_the_whole_answer(self) -> bool:
        """Whether the output has several units and stays as it is."""
        is_fixed = all(unit.protected for unit in self.output)
        return len(self.output) > 1 and is_fixed and self.contrast is None and self.phrase is None

    def grouped(self, groups: Sequence[int | None]) -> "Case":
        """Merge neighbouring input units of the same group into one unit; units of group None become protected.

        `groups` has one entry for each input unit. Special tokens are outside the text and are never merged.
        """
        keys = [
            i - len(groups) if unit.end <= unit.start else group
            for i, (group, unit) in enumerate(zip(groups, self.input, strict=True))
        ]
        runs = groupby(zip(keys, self.input, strict=True), key=lambda pair: pair[0])
        units = (join_tokens(self.prompt, [unit for _, unit in run], protected=key is None) for key, run in runs)
        return replace(self, input=tuple(units))

    def with_phrase(self, start: int, end: int) -> "Case":
        """Merge the output tokens that overlap characters `start` to `end` of the completion into one unit."""
        inside = [unit.start < end and unit.end > start for unit in self.output]
        merged = self.with_output_groups([-1 if within else i for i, within in enumerate(inside)])
        return replace(merged, phrase=inside.index(True))

    def with_output_groups(self, groups: Sequence[int | None]) -> "Case":
        """Merge neighbouring output units of the same group into one unit; `groups` has one entry for each."""
        runs = groupby(zip(groups, self.output, strict=True), key=lambda pair: pair[0])
        return replace(self, output=tuple(join_tokens(self.completion, [unit for _, unit in run]) for _, run in runs))

    def contrasted_with(self, token: Token, index: int) -> "Case":
        """The same case up to output unit `index`, which is contrasted with `token`."""
        return replace(
            self,
            output=self.output[: index + 1],
            completion=self.completion[: self.output[index].end],
            contrast=ContrastToken(index, token),
        )

    def for_target(self, t: int) -> "Case":
        """The case of output unit `t` alone, with everything before it as input; `text` and `spans` stay the same."""
        begin = self.output[t].start
        is_separate = self.separate and t == 0  # later, the line end between the texts is part of the prompt
        shift = len(self.prompt) if is_separate else len(self.text) - len(self.completion)
        moved = tuple(replace(unit, start=unit.start + shift, end=unit.end + shift) for unit in self.output[:t])
        contrast = (
            ContrastToken(0, self.contrast.token) if self.contrast is not None and self.contrast.at == t else None
        )
        target = replace(self.output[t], start=0, end=self.output[t].end - begin)
        return Case(
            self.text[: shift + begin],
            self.completion[begin : self.output[t].end],
            self.input + moved,
            (target,),
            contrast,
            separate=is_separate,
        )

    @property
    def _contrast_position(self) -> int:
        assert self.contrast is not None
        return int(self.unit_starts[len(self.input) + self.contrast.at])
