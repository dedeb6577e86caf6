"""StudyRequest: everything that is asked of `study`, checked once before a model is loaded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

from reagent.bench.estimate import CHARACTERS
from reagent.errors import BudgetError, InputError, UnknownNameError
from reagent.request import check_flag, check_new_tokens, check_whole
from reagent.studies.inputs import ANSWER, Input, read_inputs
from reagent.templates import Piece, PromptTemplate, join, load_template
from reagent.validation import check_name

METRICS = ("answer", "own")
SHARE = 0.05  # of what the template is worth: the usual threshold


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """A checked request. `build` makes one from user input."""

    template: PromptTemplate
    inputs: tuple[Input, ...]
    pieces: tuple[tuple[Piece, ...], ...]  # the prompt of each input
    metric: str
    threshold: float | None  # None: SHARE of what the template is worth
    alternatives: Mapping[int, tuple[str, ...]]  # of slots, by their number
    max_new_tokens: int
    chat: bool | None  # None: if the model has a chat template
    pairs: bool = False  # whether all pairs of parts are removed too

    @classmethod
    def build(
        cls,
        template: Any,
        inputs: Any,
        *,
        metric: str | None = None,
        threshold: float | None = None,
        alternatives: Mapping[str, Sequence[str]] | None = None,
        max_new_tokens: int = 32,
        limit: int | None = None,
        chat: bool | None = None,
        max_cost: int | None = None,
        pairs: bool = False,
    ) -> "StudyRequest":
        """Check every argument of `reagent.study`."""
        parsed = read_template(template)
        given = read_inputs(inputs)
        if limit is not None:
            given = given[: check_whole("limit", limit, 1)]
        chosen = _choose_metric(metric, given)
        if threshold is not None and (
            isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < math.inf
        ):
            raise InputError(f"`threshold` must be a number above 0, got {threshold!r}")
        request = cls(
            template=parsed,
            inputs=given,
            pieces=tuple(_fill(parsed, one) for one in given),
            metric=chosen,
            threshold=None if threshold is None else float(threshold),
            alternatives=check_alternatives(parsed, alternatives or {}),
            max_new_tokens=check_new_tokens(max_new_tokens),
            chat=chat,
            pairs=check_flag("pairs", pairs),
        )
        if max_cost is not None:
            request.check_cost(check_whole("max_cost", max_cost, 1))
        return request

    def estimate(self) -> tuple[int, int]:
        """About how many forward passes the study takes, and how many tokens they read."""
        parts = len(self.template.parts)
        each = (
            parts + 3 + self.pairs * comb(parts, 2)
        )  # each part, pairs, the whole prompt, all sections, all idle parts
        characters = sum(len(piece.text) for pieces in self.pieces for piece in pieces)
        return each * len(self.inputs), round(each * characters / CHARACTERS)

    def check_cost(self, most: int) -> None:
        """Raise an error if the study reads clearly more than `most` tokens."""
        passes, tokens = self.estimate()
        if tokens > most:
            raise BudgetError(
                f"the study takes about {passes:,} forward passes that read {tokens:,} tokens, more than {most:,}: "
                "raise `max_cost`, or use fewer inputs with `limit`"
            )

    def prompts(self, number: int, without: frozenset[int]) -> tuple[str, ...]:
        """The prompts of one input without some parts: one, or one for each alternative of its slots.

        Slots with alternatives are not removed: the first prompt has the first alternative of each, and so on.
        """
        values, pieces = self.inputs[number].values, self.pieces[number]
        changed = {slot: self._others(values, slot) for slot in sorted(without & set(self.alternatives))}
        changed = {slot: others for slot, others in changed.items() if others}
        if not changed:
            return (join(pieces, without),)
        rest = without - set(changed)
        count = max(len(others) for others in changed.values())
        return tuple(
            join(self.template.pieces({**values, **{self._name(s): o[i % len(o)] for s, o in changed.items()}}), rest)
            for i in range(count)
        )

    def has(self, number: int, without: frozenset[int]) -> bool:
        """Whether the prompt of this input has any of these parts."""
        return any(piece.part in without for piece in self.pieces[number])

    def _others(self, values: Mapping[str, Any], slot: int) -> list[str]:
        return [value for value in self.alternatives[slot] if value != values.get(self._name(slot))]

    def _name(self, slot: int) -> str:
        return self.template.parts[slot].name


def read_template(template: Any) -> PromptTemplate:
    """A template from a path (an object, or a text that ends in a suffix), a text, or a template."""
    if isinstance(template, PromptTemplate):
        return template
    if isinstance(template, Path) or (isinstance(template, str) and _looks_like_path(template)):
        return load_template(template)
    return PromptTemplate.parse(template)


def check_alternatives(
    template: PromptTemplate, alternatives: Mapping[str, Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    """The alternatives by the number of their slot."""
    checked = {}
    for name, values in alternatives.items():
        if name not in template.slots:
            raise UnknownNameError("slot", name, template.slots or ["none"])
        if isinstance(values, str) or not all(isinstance(value, str) and value.strip() for value in values):
            raise InputError(f"the alternatives of {name!r} must be a list of texts, got {values!r}")
        if not values:
            raise InputError(f"there is no alternative of {name!r}: give at least one")
        checked[template.index(name)] = tuple(dict.fromkeys(values))
    return checked


def _looks_like_path(text: str) -> bool:
    return (
        "\n" not in text
        and "{{" not in text
        and Path(text).suffix.lower() in (".md", ".txt", ".j2", ".jinja", ".jinja2")
    )


def _choose_metric(metric: str | None, inputs: Sequence[Input]) -> str:
    missing = next((one for one in inputs if one.answer is None), None)
    if metric is None:
        if missing is not None and any(one.answer is not None for one in inputs):
            raise InputError(
                f"{missing.where} has no `{ANSWER}`, but others have: give every input its answer, or choose the "
                "metric 'own', the model's own answers"
            )
        return "answer" if missing is None else "own"
    check_name("metric", metric, METRICS)
    if metric == "answer" and missing is not None:
        raise InputError(f"{missing.where} has no `{ANSWER}`: give it, or choose the metric 'own'")
    return metric


def _fill(template: PromptTemplate, one: Input) -> tuple[Piece, ...]:
    try:
        pieces = tuple(template.pieces(one.values))
    except InputError as error:
        raise InputError(f"{one.where}: {error}") from error
    if not join(pieces).strip():
        raise InputError(f"{one.where}: its prompt is empty")
    return pieces
