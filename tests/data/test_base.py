"""Samples that are the same everywhere, and revisions that notice every change."""

from dataclasses import replace

import pytest

from reagent.data import Dataset, Example, sample
from reagent.data.base import revision_of
from reagent.errors import InputError


def make_dataset(count: int, **changed: object) -> Dataset:
    examples = tuple(Example(f"e{i}", f"Prompt number {i}") for i in range(count))
    return replace(Dataset("made", "bundled", revision_of(examples), "none", "sequence", 10, 5, examples), **changed)


def ids(dataset: Dataset) -> list[str]:
    return [example.id for example in dataset.examples]


def test_a_sample_keeps_the_order_and_the_revision() -> None:
    whole = make_dataset(50)
    some = sample(whole, 12, seed=3)
    assert len(some) == 12
    assert ids(some) == [one for one in ids(whole) if one in ids(some)]
    assert some.revision == whole.revision, "a larger sample later must find what a smaller one left"


def test_a_larger_sample_contains_a_smaller_one_and_another_seed_does_not() -> None:
    whole = make_dataset(50)
    assert set(ids(sample(whole, 5, 0))) < set(ids(sample(whole, 20, 0)))
    assert ids(sample(whole, 20, 0)) == ids(sample(whole, 20, 0))
    assert ids(sample(whole, 20, 0)) != ids(sample(whole, 20, 1))


def test_a_sample_does_not_depend_on_which_others_there_are() -> None:
    whole = make_dataset(50)
    fewer = replace(whole, examples=whole.examples[::2])
    chosen = [one for one in ids(sample(whole, 30, 0)) if one in ids(fewer)]
    assert ids(sample(fewer, len(chosen), 0)) == chosen


def test_a_sample_is_drawn_evenly() -> None:
    whole = make_dataset(40)
    counts = dict.fromkeys(ids(whole), 0)
    for seed in range(400):
        for one in ids(sample(whole, 10, seed)):
            counts[one] += 1
    assert 60 < min(counts.values()) <= max(counts.values()) < 140, "100 are expected, with a deviation of 8.7"


@pytest.mark.parametrize(("usual", "asked", "found"), [(None, None, 30), (7, None, 7), (7, 9, 9), (None, 99, 30)])
def test_without_a_size_it_is_the_usual_one(usual: int | None, asked: int | None, found: int) -> None:
    assert len(sample(make_dataset(30, usual_size=usual), asked, 0)) == found


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_size_that_is_none(size: object) -> None:
    with pytest.raises(InputError, match="`size` of a sample must be a whole number"):
        sample(make_dataset(3), size, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed", [{"prompt": "other"}, {"target": " x"}, {"antecedent": ((0, 3),)}, {"plain": "p"}, {"id": "z"}]
)
def test_every_change_changes_the_revision(changed: dict[str, object]) -> None:
    one = Example("a", "Some text")
    assert revision_of([one]) == revision_of([one])
    assert revision_of([one]) != revision_of([replace(one, **changed)])


def test_ids_are_unique() -> None:
    with pytest.raises(InputError, match="'a' occurs twice"):
        make_dataset(1, examples=(Example("a", "One"), Example("a", "Two")))
