"""Shortening: a long prompt is explained in the short text that screening found to carry the answer.

Screening sets most units aside, and one probe proves that the output keeps its probability without them. Everything
after that is measured in the text that is left: its probes cost a small part of a pass over the whole prompt. A finer
level reads only the units that it expands, if a further probe proves the same of them.
"""

from dataclasses import dataclass, replace

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.explanation import Group, Screening, Sufficiency
from reagent.methods.base import Attribution
from reagent.methods.screening import Screen
from reagent.models.base import Model


@dataclass(frozen=True)
class ShortText:
    """A case without some of its input units, and the way back to all of them."""

    whole: Case
    case: Case  # with the log-probabilities in the short text
    present: Ids  # the unit of `whole` that each unit of `case` is

    @classmethod
    def make(cls, model: Model, whole: Case, absent: Mask) -> "ShortText":
        """The case without the input units that `absent` [input units] marks."""
        kept = tuple(unit for unit, is_absent in zip(whole.input, absent, strict=True) if not is_absent)
        outputs = len(whole.input) + np.arange(len(whole.output))
        present = np.concatenate([np.flatnonzero(~absent), outputs])
        return cls(whole, replace(whole, input=kept).with_logprobs(model), present)

    def restore(self, attribution: Attribution) -> Attribution:
        """The attribution over all units; units that are absent get 0."""

        def row(values: Floats) -> Floats:
            full = np.zeros(len(values) + len(self.whole.input) - len(self.case.input))
            full[self.present[: len(values)]] = values
            return full

        def rows(values: list[Floats] | None) -> list[Floats] | None:
            return values and [row(one) for one in values]

        def units(members: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(int(self.present[i]) for i in members)

        def group(one: Group) -> Group:
            return replace(one, units=units(one.units))

        def test(one: Sufficiency | None) -> Sufficiency | None:
            return one and replace(one, units=units(one.units))

        return replace(
            attribution,
            scores=[row(one) for one in attribution.scores],
            effects=rows(attribution.effects),
            stderr=rows(attribution.stderr),
            shapley_values=rows(attribution.shapley_values),
            groups=attribution.groups and [[group(one) for one in some] for some in attribution.groups],
            sufficiency=attribution.sufficiency and [test(one) for one in attribution.sufficiency],
            answer=attribution.answer and self.restore(attribution.answer),
        )


class Shortener:
    """Which tokens of the prompt are absent from the text that is explained, and what that costs."""

    def __init__(self, model: Model, case: Case, screened: Screen) -> None:
        """`screened` is a screen of `case`."""
        self.model, self.screened = model, screened
        units = np.zeros(len(case.units), dtype=np.bool_)
        units[screened.discarded] = True
        self.tokens = units[case.unit_of][: case.unit_starts[len(case.input)]]  # [prompt tokens]
        self.values = case.values  # with the whole prompt
        near = np.zeros_like(units)
        near[screened.units[screened.near]] = True
        self.near = near[case.unit_of][: len(self.tokens)]
        self.joint = screened.joint

    @property
    def info(self) -> Screening:
        """The entry `screening` of an explanation."""
        discarded = tuple(self.screened.discarded.tolist())
        return Screening(len(self.screened.units), discarded, float(self.screened.joint.sum()), float(self.joint.sum()))

    def shorten(self, case: Case, optional: Mask | None = None) -> ShortText:
        """The case without what was set aside, and without the `optional` input units if the output keeps its value."""
        starts = case.unit_starts[: len(case.input)]
        absent = self.tokens[starts]
        if optional is not None and (more := optional & ~absent & ~self.near[starts]).any():
            shorter = ShortText.make(self.model, case, absent | more)
            lost = self.values - shorter.case.values
            if self.screened.tolerates(lost):
                self.tokens, self.joint = (absent | more)[case.unit_of[: len(self.tokens)]], lost
                return shorter
        return ShortText.make(self.model, case, absent)
