"""Haystacks of the benchmark of long documents: the needle is at the stated depth, and nothing else answers."""

import sys
from pathlib import Path

import pytest

from reagent.segmentation import split_sentences

FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not available", allow_module_level=True)
sys.path.insert(0, str(FOLDER))
from haystacks import DEPTHS, LENGTHS, LIMIT, MARGIN, NEEDLES, filler, make_haystack  # noqa: E402


def count_words(text: str) -> int:
    return len(text.split())


def test_there_is_enough_filler_for_the_longest_without_repeats() -> None:
    lines = filler()
    assert len(set(lines)) == len(lines)
    assert sum(map(count_words, lines)) > LIMIT
    assert {line[0].isupper() and line.endswith(".") for line in lines} == {True}


def test_no_filler_mentions_what_a_needle_says() -> None:
    text = " ".join(filler()).lower()
    for needle in NEEDLES:
        assert needle.key in needle.sentence
        assert needle.key in needle.answer
        assert needle.key not in text
        assert needle.key not in needle.question


@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_length_and_the_depth_are_as_asked(tokens: int) -> None:
    for depth in DEPTHS:
        hay = make_haystack(tokens, depth, 3, count_words)
        size = min(tokens, LIMIT - MARGIN)
        assert size - 30 <= count_words(hay.text) <= size
        assert hay.sentences[hay.position] == hay.needle.sentence
        assert hay.position / (len(hay.sentences) - 1) == pytest.approx(depth, abs=1 / (len(hay.sentences) - 1))


def test_only_the_place_of_the_needle_depends_on_the_depth() -> None:
    def others(depth: float, seed: int) -> list[str]:
        hay = make_haystack(500, depth, seed, count_words)
        return [line for line in hay.sentences if line != hay.needle.sentence]

    assert others(0.05, 1) == others(0.95, 1)
    assert others(0.05, 1) != others(0.05, 2)
    needles = {make_haystack(500, 0.5, seed, count_words).needle for seed in range(len(NEEDLES))}
    assert needles == set(NEEDLES)


def test_the_sentences_are_cut_as_they_were_written() -> None:
    hay = make_haystack(2000, 0.35, 0, count_words)
    text = hay.text
    assert [text[start:end].strip() for start, end in split_sentences(text)] == list(hay.sentences)
    assert f"Document 1:\n{text}\n\nQuestion: {hay.needle.question}" in hay.message
