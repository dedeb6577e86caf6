"""Slots with known alternatives: the value of a slot is replaced by other values, which may have other lengths.

Captum calls them template inputs. A prompt with slots, "She lives in {{city}}.", has the first value of each slot; the
units are the slots, and each is replaced by its other values.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Case, Ids, Mask
from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.segmentation import Span, assign

_SLOT = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)


class Slot(NamedTuple):
    """A value in the prompt, and the others that may take its place."""

    name: str
    span: Span  # characters of the prompt, with a space before the value
    others: tuple[str, ...]


class SlotTokens(NamedTuple):
    """The tokens of a slot in the whole text, and those of each other value."""

    start: int
    stop: int
    others: tuple[Ids, ...]


@dataclass(frozen=True)
class TextProposals(Proposals):
    """A table whose candidates are texts of any length: only removers can use it."""

    slots: tuple[SlotTokens, ...] = ()
    candidates: Mapping[int, tuple[Ids, ...]] = field(default_factory=dict)  # of each unit

    def grouped(self, case: Case, rng: np.random.Generator) -> "TextProposals":  # noqa: ARG002
        weights = np.zeros((len(case.units), self.weights.shape[1]))
        candidates = {}
        for slot in self.slots:
            unit = int(case.unit_of[slot.start])
            if case.unit_starts[unit] != slot.start or case.unit_starts[unit + 1] != slot.stop:
                raise InputError(
                    "slots with alternatives are the units: leave out `units`, and separate them by a word"
                )
            weights[unit, : len(slot.others)] = 1.0
            candidates[unit] = slot.others
        return replace(self, weights=weights, unit_of=case.unit_of, candidates=candidates)

    def apply(self, replaced: Mask, columns: Ids, units: Ids | None = None) -> Ids:  # noqa: ARG002
        raise CapabilityError(
            "alternatives may be longer or shorter than the value: choose a method that removes units, as `reagent`, "
            "`exact`, `occlusion`, `shapley` or `lime`, without `what_if`"
        )

    def substitute(self, replaced: Mask, columns: Ids, units: Ids) -> list[Ids]:
        """The text of each row, with the marked units replaced by their chosen candidates."""
        edges = [0, *np.flatnonzero(np.diff(self._unit_of)) + 1, len(self.original)]
        pieces = [self.original[start:stop] for start, stop in itertools.pairwise(edges)]
        texts = []
        for marked, chosen in zip(replaced, columns, strict=True):
            new = dict(zip(units[marked].tolist(), chosen[marked].tolist(), strict=True))
            texts.append(np.concatenate([self.candidates[i][new[i]] if i in new else p for i, p in enumerate(pieces)]))
        return texts

    @property
    def _unit_of(self) -> Ids:
        assert self.unit_of is not None, "the table is for tokens: call `grouped` first"
        return self.unit_of


@dataclass(frozen=True)
class AlternativesReplacer:
    """Replaces the value of each slot by its other values, equally likely."""

    slots: tuple[Slot, ...] = ()

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "alternatives", "slots": {s.name: [text.strip() for text in s.others] for s in self.slots}}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> TextProposals:  # noqa: ARG002
        slots = tuple(self._tokens(model, case, slot) for slot in self.slots)
        most = max(len(slot.others) for slot in slots)
        weights = np.zeros((len(case.ids), most))
        for slot in slots:
            weights[slot.start : slot.stop, : len(slot.others)] = 1.0
        ids = np.tile(case.ids[:, None], most)
        return TextProposals(case.ids, ids, weights, slots=slots)

    def _tokens(self, model: Model, case: Case, slot: Slot) -> SlotTokens:
        start, stop = _find(case, slot.span)
        others = []
        for text in slot.others:
            prompt = case.prompt[: slot.span[0]] + text + case.prompt[slot.span[1] :]
            other = model.case(prompt, case.completion)
            first, last = _find(other, (slot.span[0], slot.span[0] + len(text)))
            others.append(other.ids[first:last])
        return SlotTokens(start, stop, tuple(others))


def fill_slots(prompt: Any, alternatives: Mapping[str, Sequence[str]]) -> tuple[str, list[Span], AlternativesReplacer]:
    """The prompt with the first value of each slot, the places of the slots, and the replacer.

    >>> prompt, spans, replacer = fill_slots("In {{city}}.", {"city": ["Paris", "Rome"]})
    >>> prompt, spans, replacer.slots[0].others
    ('In Paris.', [(2, 8)], (' Rome',))
    """
    if not isinstance(prompt, str):
        raise InputError("`alternatives` are for a plain prompt: leave them out in a chat or a list")
    names = [match[1] for match in _SLOT.finditer(prompt)]
    values = {name: _check_values(name, given, names) for name, given in alternatives.items()}
    missing = next((name for name in names if name not in values), None)
    if missing is not None:
        raise InputError(f"the slot {missing!r} of the prompt has no value: add it to `alternatives`")
    text, end, slots = "", 0, list[Slot]()
    for match in _SLOT.finditer(prompt):
        value, *others = values[match[1]]
        text += prompt[end : match.start()]
        space = text[len(text.removesuffix(" ")) :]  # belongs to the first token of the value
        slots.append(Slot(match[1], (len(text) - len(space), len(text) + len(value)), tuple(space + o for o in others)))
        text, end = text + value, match.end()
    return text + prompt[end:], [slot.span for slot in slots], AlternativesReplacer(tuple(slots))


def _check_values(name: str, values: Any, names: Sequence[str]) -> tuple[str, ...]:
    if name not in names:
        raise UnknownNameError(
            "slot", name, list(dict.fromkeys(names)) or ["none; write {{" + name + "}} in the prompt"]
        )
    if isinstance(values, str) or not all(isinstance(value, str) and value.strip() for value in values):
        raise InputError(f"the alternatives of {name!r} must be a list of texts, got {values!r}")
    different = tuple(dict.fromkeys(values))
    if len(different) < 2:
        raise InputError(
            f"{name!r} needs at least two different values, the first is that of the prompt; got {values!r}"
        )
    return different


def _find(case: Case, span: Span) -> tuple[int, int]:
    """The positions of the tokens of a part of the prompt."""
    tokens = assign([(token.start, token.end) for token in case.input], [span], case.prompt)
    inside = [i for i, unit in enumerate(tokens) if unit is not None]
    if not inside:
        raise InputError(f"the model has no token of its own for {case.prompt[slice(*span)]!r}: use another value")
    return int(case.unit_starts[inside[0]]), int(case.unit_starts[inside[-1] + 1])
