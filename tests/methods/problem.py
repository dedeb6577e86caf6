"""Running a method alone, without the rest of `explain`."""

from typing import Any, NamedTuple

import numpy as np

from reagent.api.prepare import read_case
from reagent.case import Case
from reagent.methods.base import Attribution, Method, ProgressCallback, no_progress
from reagent.models.base import Model
from reagent.replacers import Proposals, make_replacer
from reagent.request import ExplainRequest


class Problem(NamedTuple):
    """The arguments of a method: a model, a case and its proposals."""

    model: Model
    case: Case
    proposals: Proposals

    def run(self, method: Method, seed: int = 0, on_progress: ProgressCallback = no_progress) -> Attribution:
        return method.attribute(self.model, self.case, self.proposals, np.random.default_rng(seed), on_progress)


def make_problem(
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
) -> Problem:
    """What `explain` prepares for a method; `groups` segment the prompt into units, `phrase` joins output tokens."""
    rng = np.random.default_rng(0)
    request = ExplainRequest.build(prompt, target=target, contrast=contrast, max_new_tokens=max_new_tokens)
    case = read_case(model, request).with_logprobs(model)
    proposals = make_replacer(replacer, **options).propose(model, case, rng)
    if phrase is not None:
        case = case.with_phrase(*phrase)
    if groups is not None:
        case = case.grouped(groups)
    if groups is not None or phrase is not None:
        proposals = proposals.grouped(case, rng)
    return Problem(model, case, proposals)
