"""Long-range agreement (LongRA, after Vafa et al., 2021): the prompt has one word of a pair, the other is the target.

The pairs are those of the Google analogy set (Mikolov et al., 2013), which are facts: 573 of them, in 14 relations.
The sentences are our own. A sentence in parentheses between the word and the target is a distractor. Every pair of
a relation is combined with every template of that relation.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from reagent.data.base import Dataset, Example, revision_of
from reagent.data.readers import TABLES, Row, bundled_path, read_examples, read_rows
from reagent.data.user_files import read_example
from reagent.errors import FileError

SUMMARY = "a word, a distractor, and a sentence that leads to the related word"
LICENCE = "Apache-2.0; the word pairs are facts"
SOURCE = "own templates; pairs of the Google analogy set (Mikolov et al., 2013)"

PAIRS, _TEMPLATES = "longra_pairs.tsv", "longra_templates.tsv"
_SLOT = re.compile(r"\{(first|second)\}")
_WITH_ARTICLE = {"Bahamas", "Gambia", "Netherlands", "Philippines", "USA"}
_DISTRACTOR = re.compile(r"\([^()]*\)\.?")


class Template(NamedTuple):
    """Sentences with a slot for one word of a pair."""

    number: int
    text: str
    unfit: frozenset[str] = frozenset()  # first words with which the sentence is not grammatical


class Pair(NamedTuple):
    """Two words of one relation."""

    relation: str
    first: str
    second: str


def load_longra(source: str | None = None) -> Dataset:
    """All pairs in all templates of their relations.

    A `source` is a file with `relation`, `first` and `second`, whose pairs replace the bundled ones, or one with
    `prompt`, `target` and optionally `antecedent` and `distractor`.
    """
    if source is None or source == "bundled":
        return make_dataset("longra", "bundled", tuple(_fill_all(read_pairs(bundled_path(PAIRS)))))
    return make_dataset("longra", source, _from_file(source))


def make_dataset(name: str, source: str, examples: tuple[Example, ...]) -> Dataset:
    """A dataset of examples with one target each."""
    return Dataset(
        id=name,
        source=source,
        revision=revision_of(examples),
        licence=LICENCE if source == "bundled" else "yours",
        level="token",
        max_new_tokens=1,
        stride=1,
        examples=examples,
    )


def _from_file(source: str) -> tuple[Example, ...]:
    path = Path(source).expanduser()
    if not path.is_file():
        raise FileError(
            f"there is no file {source!r}: LongRA is bundled, or read from a file ({', '.join(TABLES)}) "
            "with relation, first and second, or with prompt and target"
        )
    rows = list(read_rows(path))
    if rows and "prompt" in rows[0].fields:
        return read_examples(source, rows, _read_example)
    examples = tuple(_fill_all(read_pairs(path)))
    if not examples:
        raise FileError(f"{source} holds no example: it is empty")
    return examples


def _read_example(row: Row) -> Example | None:
    """An example with its own prompt; its plain form is the prompt without the distractor."""
    example = read_example(row)
    if example is None:
        return None
    if example.target is None:
        raise FileError(f"{row.where} has no target: LongRA needs the expected word")
    return example if example.plain else replace(example, plain=remove(example.prompt, example.distractor))


def _fill_all(pairs: Iterable[Pair]) -> Iterator[Example]:
    templates = load_templates()
    for pair in pairs:
        for template in templates[pair.relation]:
            if pair.first not in template.unfit:
                yield fill(template, pair)


def read_pairs(path: Path) -> list[Pair]:
    """The pairs in a file, each of a relation that has templates."""
    templates, pairs = load_templates(), []
    for row in read_rows(path):
        relation, first, second = (row.text(name) for name in Pair._fields)
        if relation is None or first is None or second is None:
            raise FileError(f"{row.where} has an empty field: give relation, first and second")
        if relation not in templates:
            raise FileError(f"{row.where}: no templates for the relation {relation!r}. Known: {', '.join(templates)}")
        pairs.append(Pair(relation, first, second))
    return pairs


def load_templates() -> dict[str, list[Template]]:
    """The bundled templates of each relation."""
    templates: dict[str, list[Template]] = {}
    for row in read_rows(bundled_path(_TEMPLATES)):
        of_relation = templates.setdefault(row.fields["relation"], [])
        unfit = frozenset(row.fields["unfit"].split(","))
        of_relation.append(Template(len(of_relation) + 1, row.fields["template"], unfit))
    return templates


def fill(template: Template, pair: Pair) -> Example:
    """A template with one word of a pair in it; the other is the target.

    >>> fill(Template(1, "We left {second}. (It rains). We miss the capital,"), Pair("capital", "Oslo", "Norway"))
    ... # doctest: +NORMALIZE_WHITESPACE
    Example(id='capital/Oslo-Norway/1', prompt='We left Norway. (It rains). We miss the capital,', target=' Oslo',
            group='capital', antecedent=((8, 14),), distractor=((16, 27),),
            plain='We left Norway. We miss the capital,')
    """
    slot = _find_slot(template)
    given, expected = given_word(template, pair)
    before = template.text[: slot.start()] + article(given)
    prompt = before + given + template.text[slot.end() :]
    distractor = tuple(match.span() for match in _DISTRACTOR.finditer(prompt))
    return Example(
        id=f"{pair.relation}/{pair.first}-{pair.second}/{template.number}",
        prompt=prompt,
        target=f" {expected}",
        group=pair.relation,
        antecedent=((len(before), len(before) + len(given)),),
        distractor=distractor,
        plain=remove(prompt, distractor),
    )


def given_word(template: Template, pair: Pair) -> tuple[str, str]:
    """The word of a pair that the template shows, and the expected word."""
    return (pair.first, pair.second) if _find_slot(template)[1] == "first" else (pair.second, pair.first)


def article(word: str) -> str:
    """The article that belongs to the name of a country.

    >>> article("Netherlands"), article("Norway")
    ('the ', '')
    """
    return "the " if word in _WITH_ARTICLE else ""


def _find_slot(template: Template) -> re.Match[str]:
    slot = _SLOT.search(template.text)
    assert slot is not None, template.text
    return slot


def remove(prompt: str, spans: tuple[tuple[int, int], ...]) -> str:
    """The prompt without these parts and the space before each."""
    for start, end in sorted(spans, reverse=True):
        prompt = prompt[:start].rstrip() + prompt[end:]
    return prompt
