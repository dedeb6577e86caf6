"""Running a method by itself, without the rest of `explain`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reagent.api.prepare import read_case
from reagent.case import Case
from reagent.methods.base import Attribution, Method, Progress, no_progress
from reagent.models.base import Model
from reagent.replacers import Proposals, make_replacer


class Question(NamedTuple):
    """A case and what may stand in its units' places."""

    model: Model
    case: Case
    proposals: Proposals

    def answer(self, method: Method, seed: int = 0, report: Callable[[Progress], None] = no_progress) -> Attribution:
        return method.attribute(self.model, self.case, self.proposals, np.random.default_rng(seed), report)


def question(
    model: Model,
    prompt: str,
    target: str | None = None,
    *,
    max_new_tokens: int = 3,
    contrast: str | None = None,
    phrase: tuple[int, int] | None = None,
    groups: list[int | None] | None = None,
    replacer: str = "random",
    **options: Any,
) -> Question:
    """What `explain` prepares for a method; `groups` cut the prompt into units, `phrase` joins output tokens."""
    rng = np.random.default_rng(0)
    case = read_case(model, prompt, target, contrast, max_new_tokens).with_logprobs(model)
    proposals = make_replacer(replacer, **options).propose(model, case, rng)
    if phrase is not None:
        case = case.with_phrase(*phrase)
    if groups is not None:
        case = case.grouped(groups)
    if groups is not None or phrase is not None:
        proposals = proposals.grouped(case, rng)
    return Question(model, case, proposals)
