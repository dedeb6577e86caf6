"""Which examples of a dataset a model gets."""

from dataclasses import replace

from reagent.data import Dataset, keep_known
from reagent.data.base import by_lot
from reagent.errors import EmptyGenerationError, InputError
from reagent.models.base import Model


def choose(dataset: Dataset, model: Model, size: int | None, seed: int) -> Dataset:
    """`size` examples that the model knows the answer to, where there is one, or else has one to."""
    if any(example.plain is not None for example in dataset.examples):
        return keep_known(dataset, model, size, seed)
    return keep_answered(dataset, model, size, seed)


def keep_answered(dataset: Dataset, model: Model, size: int | None, seed: int) -> Dataset:
    """The examples about which the model says something; with a `size`, as many, in the order of the lottery.

    An instructed model may end the text right after a prompt, and what is not said cannot be explained. A prompt that
    cannot be read at all is kept: its cells fail and say why.
    """
    kept: set[str] = set()
    for example in by_lot(dataset.examples, seed):
        if size is not None and len(kept) == size:
            break
        if example.target is not None or not _is_silent(model, example.prompt):
            kept.add(example.id)
    return replace(dataset, examples=tuple(one for one in dataset.examples if one.id in kept))


def _is_silent(model: Model, prompt: str) -> bool:
    try:
        model.case(prompt, None, 1)
    except EmptyGenerationError:
        return True
    except InputError:
        return False
    return False
