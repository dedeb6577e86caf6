"""The examples that suit a model: those whose expected word it predicts, or those that it answers."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from reagent.case import Ids
from reagent.data.base import Dataset, Example, shuffle
from reagent.errors import EmptyGenerationError, InputError
from reagent.models.base import HasDistributions, Model, find_distributions
from reagent.validation import check_integer

logger = logging.getLogger(__name__)

BATCH = 256  # examples that are tested at a time; then the kept ones are counted
OVERSAMPLING = 8  # a small model predicts about one in five


def filter_examples(dataset: Dataset, model: Model, size: int | None, seed: int) -> Dataset:
    """`size` examples whose target the model predicts, if they have a `plain` form, or that it answers."""
    if any(example.plain is not None for example in dataset.examples):
        return keep_predicted(dataset, model, size, seed)
    return keep_answered(dataset, model, size, seed)


def keep_answered(dataset: Dataset, model: Model, size: int | None, seed: int) -> Dataset:
    """The examples that the model answers; with a `size`, the first of them in the random order of `seed`.

    An instructed model may end the text right after a prompt, and then there is nothing to explain. A prompt that
    cannot be read is kept: its cells fail with the reason.
    """
    kept: set[str] = set()
    for example in shuffle(dataset.examples, seed):
        if size is not None and len(kept) == size:
            break
        if example.target is not None or not _is_empty(model, example.prompt):
            kept.add(example.id)
    return replace(dataset, examples=tuple(example for example in dataset.examples if example.id in kept))


def _is_empty(model: Model, prompt: str) -> bool:
    try:
        model.case(prompt, None, 1)
    except EmptyGenerationError:
        return True
    except InputError:
        return False
    return False


def keep_predicted(dataset: Dataset, model: Model, size: int | None = None, seed: int = 0) -> Dataset:
    """The examples whose expected word is the model's first choice, with the distractor and without it.

    Only examples with a `plain` form and a target are filtered, as those of LongRA; all others are kept. The
    target of a kept example becomes its first token, since only that token was predicted.

    With a `size` it stops as soon as that many are found; the result equals
    `sample(keep_predicted(dataset, model), size, seed)`.
    """
    if size is not None:
        check_integer("a sample", "size", size, 1)
    order = shuffle(dataset.examples, seed)
    kept: dict[str, Example] = {}
    step = max(1, len(order)) if size is None else min(BATCH, OVERSAMPLING * size)
    for begin in range(0, len(order), step):
        kept |= _keep_predicted(order[begin : begin + step], model)
        if size is not None and len(kept) >= size:
            break
    chosen = {example.id for example in shuffle(kept.values(), seed)[:size]}
    return replace(dataset, examples=tuple(kept[e.id] for e in dataset.examples if e.id in chosen))


class _Prediction(NamedTuple):
    """A prompt and its expected next token."""

    example: Example
    ids: Ids  # of the prompt, then the expected token
    token: str  # the text of the expected token


def _keep_predicted(examples: Sequence[Example], model: Model) -> dict[str, Example]:
    filtered = [e for e in examples if e.plain is not None and e.target is not None]
    kept = {e.id: e for e in examples if e.plain is None or e.target is None}
    # Most fail with the distractor; only the others are scored again without it.
    passed = _keep_first_choices([p for e in filtered if (p := _prediction(model, e, e.prompt))], model)
    plain = [p for one in passed if (p := _prediction(model, one.example, one.example.plain or ""))]
    for prediction in _keep_first_choices(plain, model):
        kept[prediction.example.id] = _with_first_token(model, prediction)
    return kept


def _prediction(model: Model, example: Example, prompt: str) -> _Prediction | None:
    try:
        case = model.case(prompt, example.target)
    except InputError as error:  # too long for this model, or not in its vocabulary
        logger.warning("%s is left out: %s", example.id, error)
        return None
    return _Prediction(example, case.ids[: case.positions[0] + 1], case.output[0].text)


def _keep_first_choices(predictions: Sequence[_Prediction], model: Model) -> list[_Prediction]:
    """Those whose expected token is the model's first choice; sequences of equal length share a batch."""
    network = find_distributions(model)
    by_length: defaultdict[int, list[_Prediction]] = defaultdict(list)
    for prediction in predictions:
        by_length[len(prediction.ids)].append(prediction)
    passed = []
    for length, group in by_length.items():
        rows = 1 if network is None else network.rows_at_once(length - 1, 1)
        for begin in range(0, len(group), rows):
            batch = group[begin : begin + rows]
            ids = np.stack([prediction.ids for prediction in batch])
            passed += [p for p, first in zip(batch, _is_first(ids, model, network), strict=True) if first]
    return passed


def _is_first(ids: Ids, model: Model, network: HasDistributions | None) -> list[bool]:
    """Whether the last token of each row is the model's first choice there."""
    last = np.array([ids.shape[1] - 1])
    if network is None:  # a server scores one target at a time
        return [bool(model.score(row[None], last, row[-1:]).rank[0, 0] == 0) for row in ids]
    logprobs = network.after_tokens(ids, last)[:, 0]  # [rows, vocabulary]
    own = np.take_along_axis(logprobs, ids[:, -1:], axis=1)
    return [bool((row <= mine).all()) for row, mine in zip(logprobs, own, strict=True)]


def _with_first_token(model: Model, prediction: _Prediction) -> Example:
    """The example with its first token as the target, unless the model reads that text as other tokens."""
    case = model.case(prediction.example.prompt, prediction.token)
    same = len(case.targets) == 1 and case.targets[0] == prediction.ids[-1]
    return replace(prediction.example, target=prediction.token) if same else prediction.example
