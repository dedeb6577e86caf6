"""What a model knows: examples whose expected word is its first choice, with the distractor and without."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from reagent.case import Ids
from reagent.data.base import Dataset, Example, by_lot
from reagent.errors import InputError
from reagent.models.base import HasDistributions, Model, find_distributions
from reagent.validation import check_integer

log = logging.getLogger(__name__)

AT_ONCE = 256  # examples among which those of equal length are looked for, before it is seen whether they are enough
A_FEW = 8  # times as many as are wanted: a small model knows about one in five


def keep_known(dataset: Dataset, model: Model, size: int | None = None, seed: int = 0) -> Dataset:
    """The examples whose expected word the model begins by itself, with the distractor and without it.

    Only examples with a `plain` form and a target are judged, as those of LongRA; all others stay as they are. The
    target of an example that is kept becomes its first token, since that is what the model has shown to know.

    With a `size` it stops as soon as it has found as many; the result is that of
    `sample(keep_known(dataset, model), size, seed)`.
    """
    if size is not None:
        check_integer("a sample", "size", size, 1)
    order = by_lot(dataset.examples, seed)
    kept: dict[str, Example] = {}
    step = max(1, len(order)) if size is None else min(AT_ONCE, A_FEW * size)
    for begin in range(0, len(order), step):
        kept |= _known(order[begin : begin + step], model)
        if size is not None and len(kept) >= size:
            break
    chosen = {one.id for one in by_lot(kept.values(), seed)[:size]}
    return replace(dataset, examples=tuple(kept[one.id] for one in dataset.examples if one.id in chosen))


class _Question(NamedTuple):
    """Is the last of these tokens the first choice after those before it?"""

    example: Example
    ids: Ids  # of the prompt, and of the expected token
    token: str  # how that one is written


def _known(examples: Sequence[Example], model: Model) -> dict[str, Example]:
    judged = [one for one in examples if one.plain is not None and one.target is not None]
    kept = {one.id: one for one in examples if one.plain is None or one.target is None}
    # Most fail with the distractor already; only the others are asked again without it.
    passed = _first_choices([q for one in judged if (q := _question(model, one, one.prompt))], model)
    again = [q for one in passed if (q := _question(model, one.example, one.example.plain or ""))]
    for question in _first_choices(again, model):
        kept[question.example.id] = _of_first_token(model, question)
    return kept


def _question(model: Model, example: Example, prompt: str) -> _Question | None:
    try:
        case = model.case(prompt, example.target)
    except InputError as error:  # too long for this model, or written with what it cannot read
        log.info(f"{example.id} is left out: {error}")
        return None
    return _Question(example, case.ids[: case.positions[0] + 1], case.output[0].text)


def _first_choices(questions: Sequence[_Question], model: Model) -> list[_Question]:
    """Those that the model answers with yes; questions of equal length share a batch."""
    whole = find_distributions(model)
    by_length: defaultdict[int, list[_Question]] = defaultdict(list)
    for question in questions:
        by_length[len(question.ids)].append(question)
    passed = []
    for length, group in by_length.items():
        rows = 1 if whole is None else whole.rows_at_once(length - 1, 1)
        for begin in range(0, len(group), rows):
            some = group[begin : begin + rows]
            ids = np.stack([question.ids for question in some])
            passed += [q for q, first in zip(some, _is_first(ids, model, whole), strict=True) if first]
    return passed


def _is_first(ids: Ids, model: Model, whole: HasDistributions | None) -> list[bool]:
    """Whether the last token of each row is the model's first choice there."""
    last = np.array([ids.shape[1] - 1])
    if whole is None:  # a server, which answers for one target
        return [bool(model.score(row[None], last, row[-1:]).rank[0, 0] == 0) for row in ids]
    found = whole.after_tokens(ids, last)[:, 0]  # [rows, vocabulary]
    own = np.take_along_axis(found, ids[:, -1:], axis=1)
    return [bool((row <= mine).all()) for row, mine in zip(found, own, strict=True)]


def _of_first_token(model: Model, question: _Question) -> Example:
    """The example with its first token as the target, unless that alone is not written as text."""
    case = model.case(question.example.prompt, question.token)
    same = len(case.targets) == 1 and case.targets[0] == question.ids[-1]
    return replace(question.example, target=question.token) if same else question.example
