"""LongRA: every example says where its antecedent and its distractor are, and gives nothing away."""

import re
from pathlib import Path

import pytest

from reagent.data import load_dataset
from reagent.data.longra import Pair, Template, fill
from reagent.errors import FileError

WHOLE = load_dataset("longra")


def test_all_pairs_of_all_relations_are_there() -> None:
    relations = {example.group for example in WHOLE.examples}
    pairs = {example.id.rsplit("/", 1)[0] for example in WHOLE.examples}
    assert (len(relations), len(pairs)) == (14, 573)
    for relation in relations:
        numbers = {example.id.rsplit("/", 1)[1] for example in WHOLE.examples if example.group == relation}
        assert len(numbers) >= 3, f"{relation} has too few templates"
    assert (WHOLE.level, WHOLE.source) == ("token", "bundled")


def test_the_spans_are_the_words_they_claim_to_be() -> None:
    for example in WHOLE.examples:
        ((start, end),), ((begin, stop),) = example.antecedent, example.distractor
        first, second = example.id.split("/")[1].split("-", 1)
        antecedent, target = example.prompt[start:end], example.target
        assert {antecedent, (target or "").strip()} == {first, second}, example.id
        assert target == f" {target.strip()}"
        assert re.fullmatch(r"\([A-Z][^()]+[^.]\)\.", example.prompt[begin:stop]), example.prompt
        assert end < begin < stop < len(example.prompt), "the antecedent, the distractor, and then the question"


def test_the_plain_form_differs_by_the_distractor_alone() -> None:
    for example in WHOLE.examples:
        ((begin, stop),) = example.distractor
        assert example.plain == example.prompt[: begin - 1] + example.prompt[stop:]
        assert "  " not in example.plain


def test_the_answer_stands_nowhere_in_the_prompt() -> None:
    for example in WHOLE.examples:
        assert not re.search(rf"\b{example.target.strip()}\b", example.prompt, re.IGNORECASE), example.prompt


def test_the_distractor_has_nothing_to_do_with_the_pair() -> None:
    for example in WHOLE.examples:
        ((begin, stop),) = example.distractor
        words = set(re.findall(r"\w+", example.prompt[begin:stop]))
        assert not words & set(example.id.split("/")[1].split("-")), example.prompt


def test_the_prompt_that_everything_shows_is_one_of_them(prompt: str) -> None:
    assert [e.target for e in WHOLE.examples if e.prompt == prompt] == [" Tokyo"]


def test_no_two_examples_are_the_same_question_with_different_answers() -> None:
    prompts: dict[str, set[str]] = {}
    for example in WHOLE.examples:
        prompts.setdefault(example.prompt, set()).add(example.id)
    # Two cities of the list have the same name.
    assert {p for p, ids in prompts.items() if len(ids) > 1} == {
        e.prompt for e in WHOLE.examples if e.id.startswith("city-in-state/Glendale-Arizona/")
    }


@pytest.mark.parametrize(("country", "text"), [("Philippines", "to the Philippines"), ("Chile", "to Chile")])
def test_some_countries_have_an_article_that_is_not_marked(country: str, text: str) -> None:
    example = fill(Template(1, "We went to {second}. (It rains). It is far from the capital,"), Pair("c", "X", country))
    assert text in example.prompt
    assert example.prompt[slice(*example.antecedent[0])] == country


def test_own_pairs_take_the_place_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("relation,first,second\ncapital-world,Vaduz,Liechtenstein\n", encoding="utf-8")
    found = load_dataset("longra", str(path))
    assert {e.target for e in found.examples} == {" Vaduz"}
    assert (found.source, found.licence, found.id) == (str(path), "yours", "longra")


def test_own_sentences_get_their_plain_form(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"prompt": "Il vit en France. (Il pleut). Il aime la capitale,", "target": " Paris", '
        '"antecedent": "France", "distractor": "(Il pleut)."}\n',
        encoding="utf-8",
    )
    (example,) = load_dataset("longra", str(path)).examples
    assert example.plain == "Il vit en France. Il aime la capitale,"
    assert example.prompt[slice(*example.antecedent[0])] == "France"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relation,first,second\nunheard-of,a,b\n", r"pairs.csv, line 2: no templates for the relation 'unheard-of'"),
        ("relation,first,second\ncapital-world,a,\n", r"pairs.csv, line 2 has an empty field"),
        ("relation,first\ncapital-world,a\n", r"pairs.csv, line 2 has no field 'second'; it has: relation, first"),
        ("relation,first,second\n", "holds no example: it is empty"),
        ("prompt\nOne day\n", r"pairs.csv, line 2 has no target"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        load_dataset("longra", str(path))


def test_longra_is_not_on_the_hub() -> None:
    with pytest.raises(FileError, match="there is no file 'some/thing': LongRA is bundled"):
        load_dataset("longra", "some/thing")
