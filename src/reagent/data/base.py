"""What is explained in bulk: examples, and the data sets that hold them."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

from reagent.errors import InputError
from reagent.segmentation import Span
from reagent.validation import check_integer


@dataclass(frozen=True)
class Example:
    """One prompt, and what is known about it."""

    id: str  # stable, and unique within its data set
    prompt: str
    target: str | None = None  # what to explain; None: what the model says
    group: str = ""  # the relation, or another sub-division
    antecedent: tuple[Span, ...] = ()  # characters of the prompt that the answer rests on
    distractor: tuple[Span, ...] = ()  # characters that have nothing to do with it
    plain: str | None = None  # the same prompt without its distractor, for `keep_known`


@dataclass(frozen=True)
class Dataset:
    """Examples, where they come from, and how they are asked."""

    id: str  # longra, tellmewhy, wikibio, or the name of a file
    source: str  # "bundled", a hub id or a file
    revision: str  # a short hash of all examples that were loaded; a sample of them keeps it
    licence: str
    level: str  # "token": one target; "sequence": a continuation
    max_new_tokens: int
    stride: int  # of a continuation, every `stride`-th token is explained
    examples: tuple[Example, ...]
    usual_size: int | None = None  # how many a study takes where nothing else is said; None: all

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for example in self.examples:
            if example.id in seen:
                raise InputError(f"{self.source}: the id {example.id!r} occurs twice; give each row an id of its own")
            seen.add(example.id)

    def __len__(self) -> int:
        return len(self.examples)


def revision_of(examples: Iterable[Example]) -> str:
    """A short hash that changes when any example does.

    >>> revision_of([Example("1", "One day")]) == revision_of([Example("1", "One night")])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps(astuple(example)).encode())
    return digest.hexdigest()[:12]


def sample(dataset: Dataset, size: int | None, seed: int) -> Dataset:
    """`size` of the examples, in the order in which they stand; None takes the usual size of the data set.

    Each example's place in the lottery follows from the seed and its id alone. So a larger sample contains every
    smaller one of the same seed, and a sample of what a filter keeps is what it keeps of a larger sample.
    """
    size = dataset.usual_size if size is None else size
    if size is None:
        return dataset
    check_integer("a sample", "size", size, 1)
    chosen = {example.id for example in by_lot(dataset.examples, seed)[:size]}
    return replace(dataset, examples=tuple(example for example in dataset.examples if example.id in chosen))


def by_lot(examples: Iterable[Example], seed: int) -> list[Example]:
    """The examples in the order in which samples of this seed take them."""
    return sorted(examples, key=lambda one: hashlib.sha256(f"{seed}\n{one.id}".encode()).digest())
