"""LongRA with repeated mentions: all mentions are marked, and none gives the answer away."""

import re
from collections import Counter
from pathlib import Path

import pytest

from reagent.data import Example, load_dataset
from reagent.errors import FileError

WHOLE = load_dataset("longra_repeated")
COUNTRIES_WITH_ARTICLE = ("Bahamas", "Gambia", "Netherlands", "Philippines", "USA")


def marked(example: Example) -> list[str]:
    return [example.prompt[start:end] for start, end in example.antecedent]


def words_of(example: Example) -> tuple[str, str]:
    """The words of the pair: the given one, and the expected one."""
    assert example.target is not None
    first, second = example.id.split("/")[1].split("-", 1)
    return (second, first) if example.target == f" {first}" else (first, second)


def other_words() -> dict[str, set[str]]:
    """For each country, its nationality and its capital."""
    words: dict[str, set[str]] = {}
    for example in load_dataset("longra").examples:
        relation, pair, _ = example.id.split("/")
        first, second = pair.split("-", 1)
        if relation.startswith("capital"):
            words.setdefault(second, set()).add(first)
        elif relation.startswith("gram6"):
            words.setdefault(first, set()).add(second)
    return words


def test_there_are_enough_of_every_kind() -> None:
    kinds = Counter(example.group for example in WHOLE.examples)
    assert set(kinds) == {"2-exact", "3-exact", "2-paraphrase", "3-paraphrase"}
    assert min(kinds.values()) >= 50
    assert {example.id.split("/")[2] for example in WHOLE.examples} == set(kinds)
    assert (WHOLE.id, WHOLE.level, WHOLE.source) == ("longra_repeated", "token", "bundled")


def test_it_is_the_same_every_time() -> None:
    assert load_dataset("longra_repeated", "bundled") == WHOLE


def test_the_spans_are_the_mentions_in_their_order() -> None:
    others = other_words()
    for example in WHOLE.examples:
        given, _ = words_of(example)
        count, wording = example.group.split("-")
        first, *more = marked(example)
        assert first == given
        assert len(more) == int(count) - 1
        allowed = {given} if wording == "exact" else others[given]
        assert set(more) <= allowed, example.prompt
        assert list(example.antecedent) == sorted(example.antecedent)


def test_every_mention_is_marked() -> None:
    """Words of the same stem count: an unmarked "Japanese" would carry the answer, too."""
    for example in WHOLE.examples:
        given, _ = words_of(example)
        unmarked = example.prompt
        for start, end in sorted(example.antecedent, reverse=True):
            unmarked = unmarked[:start] + unmarked[end:]
        for word in {given, *marked(example)}:
            assert not re.search(rf"\b{word}\b", unmarked, re.IGNORECASE), example.prompt


def test_the_answer_is_not_in_the_prompt() -> None:
    for example in WHOLE.examples:
        _, expected = words_of(example)
        assert not re.search(rf"\b{expected}\b", example.prompt, re.IGNORECASE), example.prompt


def test_the_plain_form_differs_by_the_distractor_alone() -> None:
    for example in WHOLE.examples:
        ((begin, stop),) = example.distractor
        assert re.fullmatch(r"\([A-Z][^()]+[^.]\)\.", example.prompt[begin:stop]), example.prompt
        assert example.plain == example.prompt[: begin - 1] + example.prompt[stop:]
        assert "  " not in example.prompt
        assert "{" not in example.prompt


def test_it_is_a_longra_prompt_with_sentences_added() -> None:
    once = {(e.id.rpartition("/")[0], e.prompt) for e in load_dataset("longra").examples}
    for example in WHOLE.examples:
        parts = re.split(r"(?<=[.]) ", example.prompt)
        added = [
            part
            for part in parts[1:-1]
            if not part.startswith("(") and any(re.search(rf"\b{word}\b", part) for word in marked(example))
        ]
        rest = " ".join(part for part in parts if part not in added)
        assert (example.id.rpartition("/")[0], rest) in once, example.prompt
        assert len(added) == len(example.antecedent) - 1


@pytest.mark.parametrize("count", [2, 3])
def test_additional_sentences_are_before_and_after_the_distractor(count: int) -> None:
    places = Counter(
        tuple(start > example.distractor[0][0] for start, _ in example.antecedent[1:])
        for example in WHOLE.examples
        if len(example.antecedent) == count
    )
    assert len(places) == (2 if count == 2 else 3)
    assert min(places.values()) > 0.8 * max(places.values())


def test_countries_have_their_article_at_every_mention() -> None:
    seen = set()
    for example in WHOLE.examples:
        for start, end in example.antecedent:
            word = example.prompt[start:end]
            if word in COUNTRIES_WITH_ARTICLE:
                seen.add(word)
                assert example.prompt[:start].endswith(" the "), example.prompt
            elif words_of(example)[0] == word and not example.id.startswith(("family", "gram8")):
                assert not example.prompt[:start].endswith(" the "), example.prompt
        assert not re.search(r"\ban? (?=[A-Z])", example.prompt), "the article would depend on the word"
    assert seen == set(COUNTRIES_WITH_ARTICLE)


def test_own_pairs_take_the_place_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("relation,first,second\ncapital-world,Vaduz,Liechtenstein\n", encoding="utf-8")
    repeated = load_dataset("longra_repeated", str(path))
    assert [example.group for example in repeated.examples] == ["2-exact", "3-exact"], "there is no nationality"
    assert (repeated.source, repeated.licence) == (str(path), "yours")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relation,first,second\ngram2-opposite,sure,unsure\n", "holds no pair of a relation with repeats: capital-"),
        ("relation,first,second\nunheard-of,a,b\n", r"pairs.csv, line 2: no templates for the relation 'unheard-of'"),
    ],
)
def test_pairs_without_repeats_are_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        load_dataset("longra_repeated", str(path))


def test_it_is_not_on_the_hub() -> None:
    with pytest.raises(FileError, match="there is no file 'some/thing': longra_repeated is bundled"):
        load_dataset("longra_repeated", "some/thing")
