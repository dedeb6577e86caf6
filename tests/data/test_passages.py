"""The bundled collections: the answer is where the file says, and nowhere else."""

import re
from collections import Counter

import pytest

from reagent.data.passages import KINDS, SPLITS, Collection, load_collections
from reagent.errors import InputError
from reagent.models.base import HasChatTemplate, Model

ALL = load_collections()
SOURCED = [collection for collection in ALL if collection.from_documents]
COMMON = {"the", "a", "an", "of", "in", "is", "are", "was", "were", "by", "at", "to", "and", "there", "its", "it"}


def words(text: str) -> list[str]:
    return re.findall(r"[\w,]*\w", text.lower())


def value_words(collection: Collection) -> set[str]:
    """Words of the answer that are in every source and not in the question, also not in another form."""
    asked = {word[:4] for word in words(collection.question)}
    new = {word for word in words(collection.answer) if word not in COMMON and word[:4] not in asked}
    return new.intersection(*(words(collection.sentence(place)) for place in collection.sources))


def test_every_kind_is_in_both_splits_in_the_same_proportion() -> None:
    counts = Counter((collection.kind, collection.split) for collection in ALL)
    assert len(ALL) >= 48
    assert set(counts) == {(kind, split) for kind in KINDS for split in SPLITS}
    for kind in KINDS:
        assert counts[kind, "choose"] >= 2
        assert counts[kind, "report"] == 2 * counts[kind, "choose"]


def test_the_splits_share_no_topic_and_no_sentence() -> None:
    choose, report = (load_collections(split) for split in SPLITS)
    assert (*choose, *report) == ALL
    assert not {one.topic for one in choose} & {one.topic for one in report}
    for collections in (choose, report):
        assert len({one.topic for one in collections}) >= 6
    texts = [document.text for collection in ALL for document in collection.documents]
    assert len(set(texts)) == len(texts)
    questions = [collection.question for collection in ALL]
    assert len(set(questions)) == len({one.id for one in ALL}) == len(questions)


@pytest.mark.parametrize("collection", ALL, ids=lambda one: one.id)
def test_documents_are_cut_into_the_sentences_that_were_written(collection: Collection) -> None:
    assert len(collection.documents) == len({document.id for document in collection.documents}) == 5
    for document in collection.documents:
        assert 2 <= len(document.sentences) <= 4
        assert " ".join(document.sentences) == document.text
        assert list(document.sentences) == re.findall(r"[A-Z][^.?!]*\.", document.text)
    assert collection.answer.endswith(".")
    assert collection.question.endswith("?")


def test_every_source_states_the_value_and_no_other_sentence_does() -> None:
    for collection in SOURCED:
        values = value_words(collection)
        assert values, collection.id
        stating = {place for place in collection.places if values <= set(words(collection.sentence(place)))}
        assert stating == set(collection.sources), collection.id


def test_each_kind_is_what_it_says() -> None:
    for collection in ALL:
        sources = [collection.sentence(place) for place in collection.sources]
        documents = {document for document, _ in collection.sources}
        expected = {"two_exact": (2, 1), "two_paraphrase": (2, 2), "known": (0, 0), "invented": (0, 0)}
        assert (len(sources), len(set(sources))) == expected.get(collection.kind, (1, 1)), collection.id
        assert len(documents) == len(sources)


def test_contradictions_and_distractors_repeat_the_words_of_the_question() -> None:
    for collection in ALL:
        asked = {word[:4] for word in words(collection.question)} - {word[:4] for word in COMMON}
        shared = {
            place: len(asked & {word[:4] for word in words(collection.sentence(place))}) / len(asked)
            for place in collection.places
        }
        others = sorted((share for place, share in shared.items() if place not in collection.sources), reverse=True)
        if collection.kind == "contradicting":
            assert others[0] >= 0.5 > others[1], collection.id
        elif collection.kind == "distractor":
            assert others[1] >= 0.3, collection.id
        elif collection.kind in ("known", "invented"):
            assert others[0] <= 0.35, collection.id


def test_removed_sentences_are_left_out_of_the_message() -> None:
    collection = next(one for one in ALL if one.kind == "two_exact")
    complete, without = collection.message(), collection.message(collection.sources)
    fact = collection.sentence(collection.sources[0])
    assert (complete.count(fact), without.count(fact)) == (2, 0)
    assert complete.startswith("Answer the question with the help of the documents.\n\nDocument 1:\n")
    assert complete.endswith(f"\n\nQuestion: {collection.question}")
    assert all(f"\n\nDocument {i + 1}:\n{d.text}\n\n" in complete for i, d in enumerate(collection.documents))
    assert collection.message(collection.places).count("Document ") == 5


def test_an_unknown_split_is_one_clear_line() -> None:
    with pytest.raises(InputError, match=r"unknown split 'test'\. Known: choose, report"):
        load_collections("test")


@pytest.mark.parametrize("name", ["one-ferry", "two_paraphrase-library", "contradicting-school", "known-library"])
def test_the_embedded_model_depends_on_the_sources(name: str, smollm2: Model) -> None:
    """Four of them: benchmarks/planted_passages.py measures them all."""
    collection = next(one for one in ALL if one.id == name)
    removed = collection.sources or collection.places
    drop = _logprob(smollm2, collection, ()) - _logprob(smollm2, collection, removed)
    assert drop >= 2 if collection.from_documents else abs(drop) < 1


def _logprob(model: Model, collection: Collection, removed: tuple[tuple[int, int], ...]) -> float:
    assert isinstance(model, HasChatTemplate)
    message = {"role": "user", "content": collection.message(removed)}
    return float(model.chat([message], collection.answer).with_logprobs(model).values.sum())
