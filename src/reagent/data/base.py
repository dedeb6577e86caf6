"""Examples, and the datasets that hold them."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

from reagent.errors import InputError
from reagent.segmentation import Span
from reagent.validation import check_integer


@dataclass(frozen=True)
class Example:
    """One prompt, with its annotation."""

    id: str  # stable, and unique within its dataset
    prompt: str
    target: str | None = None  # the continuation to explain; None: the model's own
    group: str = ""  # the relation, or another sub-division
    antecedent: tuple[Span, ...] = ()  # characters of the prompt that the answer depends on
    distractor: tuple[Span, ...] = ()  # characters that are unrelated to it
    plain: str | None = None  # the same prompt without its distractor, for `keep_predicted`


@dataclass(frozen=True)
class Dataset:
    """Examples, their source, and how they are explained."""

    id: str  # longra, tellmewhy, wikibio, or the name of a file
    source: str  # "bundled", a hub id or a file
    revision: str  # a short hash of all examples; a sample keeps it
    licence: str
    level: str  # "token": one target; "sequence": a continuation
    max_new_tokens: int
    stride: int  # every `stride`-th token of a continuation is explained
    examples: tuple[Example, ...]
    usual_size: int | None = None  # the number of examples of a study by default; None: all

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
    """`size` of the examples, in their order in the dataset; None takes the usual size of the dataset.

    The rank of an example in the random order depends on the seed and its id alone. Therefore a larger sample
    contains every smaller one of the same seed, and filtering commutes with sampling.
    """
    size = dataset.usual_size if size is None else size
    if size is None:
        return dataset
    check_integer("a sample", "size", size, 1)
    chosen = {example.id for example in shuffle(dataset.examples, seed)[:size]}
    return replace(dataset, examples=tuple(example for example in dataset.examples if example.id in chosen))


def shuffle(examples: Iterable[Example], seed: int) -> list[Example]:
    """The examples in the random order in which samples of this seed take them."""
    return sorted(examples, key=lambda example: hashlib.sha256(f"{seed}\n{example.id}".encode()).digest())
