"""Long-range agreement (LongRA, after Vafa et al., 2021): one word of a pair early, the other is what comes next.

The pairs are those of the Google analogy set (Mikolov et al., 2013), which are facts: 573 of them, in 14 relations.
The sentences around them are our own. Between the word and its answer stands a sentence in parentheses that has
nothing to do with either. Every pair of a relation meets every template of it.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from reagent.data.base import Dataset, Example, revision_of
from reagent.data.readers import TABLES, Row, bundled, examples_of, read_rows
from reagent.data.user_files import example_of
from reagent.errors import FileError

SUMMARY = "a word, a distractor, and a sentence that leads to the related word"
LICENCE = "Apache-2.0; the word pairs are facts"
SOURCE = "own templates; pairs of the Google analogy set (Mikolov et al., 2013)"

_PAIRS, _TEMPLATES = "longra_pairs.tsv", "longra_templates.tsv"
_SLOT = re.compile(r"\{(first|second)\}")
_WITH_ARTICLE = {"Bahamas", "Gambia", "Netherlands", "Philippines", "USA"}
_DISTRACTOR = re.compile(r"\([^()]*\)\.?")


class Template(NamedTuple):
    """Sentences with room for one word of a pair."""

    number: int
    text: str
    unfit: frozenset[str] = frozenset()  # first words of pairs with which it would be no English


class Pair(NamedTuple):
    """Two words of one relation."""

    relation: str
    first: str
    second: str


def load(source: str | None = None) -> Dataset:
    """All pairs in all templates of their relations.

    A `source` is a file with `relation`, `first` and `second`, whose pairs take the place of ours, or one with
    `prompt`, `target` and, where they are known, `antecedent` and `distractor`.
    """
    if source in (None, "bundled"):
        name, examples = "bundled", tuple(_all(read_rows(bundled(_PAIRS))))
    else:
        assert source is not None
        name, examples = source, _from_file(source)
    return Dataset(
        id="longra",
        source=name,
        revision=revision_of(examples),
        licence=LICENCE if name == "bundled" else "yours",
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
        return examples_of(source, rows, _whole)
    examples = tuple(_all(iter(rows)))
    if not examples:
        raise FileError(f"{source} holds no example: it is empty")
    return examples


def _whole(row: Row) -> Example | None:
    """A row with its own prompt, whose plain form follows from its distractor."""
    example = example_of(row)
    if example is None:
        return None
    if example.target is None:
        raise FileError(f"{row.where} has no target: LongRA needs the word that is expected")
    return example if example.plain else replace(example, plain=without(example.prompt, example.distractor))


def _all(rows: Iterator[Row]) -> Iterator[Example]:
    templates = _templates()
    for row in rows:
        relation, first, second = (row.text(name) for name in Pair._fields)
        if relation is None or first is None or second is None:
            raise FileError(f"{row.where} is empty in part: give relation, first and second")
        if relation not in templates:
            raise FileError(f"{row.where}: no templates for the relation {relation!r}. Known: {', '.join(templates)}")
        for template in templates[relation]:
            if first not in template.unfit:
                yield filled(template, Pair(relation, first, second))


def _templates() -> dict[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for row in read_rows(bundled(_TEMPLATES)):
        known = found.setdefault(row.fields["relation"], [])
        known.append(Template(len(known) + 1, row.fields["template"], frozenset(row.fields["unfit"].split(","))))
    return found


def filled(template: Template, pair: Pair) -> Example:
    """A template with one word of a pair in it; the other is the target.

    >>> filled(Template(1, "We left {second}. (It rains). We miss the capital,"), Pair("capital", "Oslo", "Norway"))
    ... # doctest: +NORMALIZE_WHITESPACE
    Example(id='capital/Oslo-Norway/1', prompt='We left Norway. (It rains). We miss the capital,', target=' Oslo',
            group='capital', antecedent=((8, 14),), distractor=((16, 27),),
            plain='We left Norway. We miss the capital,')
    """
    slot = _SLOT.search(template.text)
    assert slot is not None, template.text
    given, expected = (pair.first, pair.second) if slot[1] == "first" else (pair.second, pair.first)
    before = template.text[: slot.start()] + ("the " if given in _WITH_ARTICLE else "")
    prompt = before + given + template.text[slot.end() :]
    distractor = tuple(match.span() for match in _DISTRACTOR.finditer(prompt))
    return Example(
        id=f"{pair.relation}/{pair.first}-{pair.second}/{template.number}",
        prompt=prompt,
        target=f" {expected}",
        group=pair.relation,
        antecedent=((len(before), len(before) + len(given)),),
        distractor=distractor,
        plain=without(prompt, distractor),
    )


def without(prompt: str, spans: tuple[tuple[int, int], ...]) -> str:
    """The prompt without these parts, nor the space before them."""
    for start, end in sorted(spans, reverse=True):
        prompt = prompt[:start].rstrip() + prompt[end:]
    return prompt
