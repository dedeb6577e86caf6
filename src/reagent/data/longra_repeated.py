"""LongRA with the word mentioned two or three times: each mention is enough for the answer, none is necessary.

An example is one of LongRA with one or two more sentences, before or after the distractor. Each of them mentions the
word again. In an exact repeat it is the same word. In a paraphrase it is another word that identifies the answer as
well: the nationality ("Japanese") or the capital ("Tokyo") stands for the country. Relations without such a word have
exact repeats only; relations of grammar in which repeats sound unnatural are left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reagent.data.base import Dataset, Example
from reagent.data.longra import (
    PAIRS,
    Pair,
    Template,
    article,
    fill,
    given_word,
    load_templates,
    make_dataset,
    read_pairs,
    remove,
)
from reagent.data.readers import TABLES, bundled_path, read_rows
from reagent.errors import FileError
from reagent.segmentation import Span

SUMMARY = "longra with the word mentioned two or three times, in the same words or in others"
SOURCE = "own templates and sentences; pairs of the Google analogy set (Mikolov et al., 2013)"

_MENTIONS = "longra_mentions.tsv"
_SLOT = re.compile(r"\{(given|adjective|capital)\}")
_NATIONALITIES, _CAPITALS = "gram6-nationality-adjective", ("capital-common-countries", "capital-world")


class Kind(NamedTuple):
    """How often the word is mentioned, and how the additional sentences mention it."""

    mentions: int
    wording: str  # "exact" or "paraphrase"

    @property
    def name(self) -> str:
        return f"{self.mentions}-{self.wording}"


KINDS = (Kind(2, "exact"), Kind(3, "exact"), Kind(2, "paraphrase"), Kind(3, "paraphrase"))
# Where the additional sentences are, by the number of mentions.
_PLACES = {
    2: (("before",), ("after",)),
    3: (("before", "after"), ("after", "after"), ("before", "before")),
}
Sentences = Mapping[tuple[str, int, str], list[str]]  # by relation, template and wording


class Mention(NamedTuple):
    """An additional sentence, and the characters of it that mention the word."""

    text: str
    span: Span


def load_longra_repeated(source: str | None = None) -> Dataset:
    """Every pair once in each kind, with alternating templates, sentences and places.

    A `source` is a file with `relation`, `first` and `second`, whose pairs replace the bundled ones.
    """
    bundled = read_pairs(bundled_path(PAIRS))
    source = "bundled" if source is None else source
    pairs = bundled if source == "bundled" else _pairs_of_file(source)
    examples = tuple(_examples(pairs, _other_words(bundled)))
    if not examples:
        raise FileError(f"{source} holds no pair of a relation with repeats: {', '.join(_relations())}")
    return make_dataset("longra_repeated", source, examples)


def _pairs_of_file(source: str) -> list[Pair]:
    path = Path(source).expanduser()
    if not path.is_file():
        raise FileError(
            f"there is no file {source!r}: longra_repeated is bundled, or made from a file ({', '.join(TABLES)}) "
            "with relation, first and second"
        )
    return read_pairs(path)


def _examples(pairs: list[Pair], other_words: Mapping[str, Mapping[str, str]]) -> Iterator[Example]:
    templates, sentences = load_templates(), _sentences()
    numbers: defaultdict[str, int] = defaultdict(int)  # of pairs, by relation
    for pair in pairs:
        number, numbers[pair.relation] = numbers[pair.relation], numbers[pair.relation] + 1
        fitting = [template for template in templates[pair.relation] if _fits(template, pair)]
        for k, kind in enumerate(KINDS if fitting else ()):
            template = fitting[(number + k) % len(fitting)]
            given, _ = given_word(template, pair)
            words = {"given": given, **other_words.get(given, {})}
            texts = sentences.get((pair.relation, template.number, kind.wording), [])
            mentions = [mention for text in texts if (mention := _mention(text, words)) is not None]
            if len(mentions) >= kind.mentions - 1:
                first = number % len(mentions)
                chosen = [*mentions[first:], *mentions[:first]][: kind.mentions - 1]
                places = _PLACES[kind.mentions]
                yield repeat(fill(template, pair), kind, chosen, places[number // 2 % len(places)])


def _fits(template: Template, pair: Pair) -> bool:
    """Whether the sentences are grammatical with the pair, and mention its word only in their slot."""
    given, _ = given_word(template, pair)
    return pair.first not in template.unfit and re.search(rf"\b{re.escape(given)}\b", template.text) is None


def repeat(example: Example, kind: Kind, mentions: list[Mention], places: tuple[str, ...]) -> Example:
    """The example with additional sentences, each before or after the distractor.

    >>> template = Template(1, "We left {second}. (It rains). We miss the capital,")
    >>> once = fill(template, Pair("capital", "Oslo", "Norway"))
    >>> twice = repeat(once, Kind(2, "paraphrase"), [Mention("I like Norwegian food.", (7, 16))], ("after",))
    >>> twice.id, twice.prompt
    ('capital/Oslo-Norway/2-paraphrase', 'We left Norway. (It rains). I like Norwegian food. We miss the capital,')
    >>> [twice.prompt[start:end] for start, end in twice.antecedent]
    ['Norway', 'Norwegian']
    """
    ((begin, end),) = example.distractor
    prompt, spans = example.prompt[:begin], list(example.antecedent)

    def add(place: str, before: str, after: str) -> None:
        nonlocal prompt
        for mention in (mention for mention, where in zip(mentions, places, strict=True) if where == place):
            prompt += before
            spans.append((len(prompt) + mention.span[0], len(prompt) + mention.span[1]))
            prompt += mention.text + after

    add("before", "", " ")
    distractor = ((len(prompt), len(prompt) + end - begin),)
    prompt += example.prompt[begin:end]
    add("after", " ", "")
    prompt += example.prompt[end:]
    return Example(
        id=f"{example.id.rpartition('/')[0]}/{kind.name}",
        prompt=prompt,
        target=example.target,
        group=kind.name,
        antecedent=tuple(spans),
        distractor=distractor,
        plain=remove(prompt, distractor),
    )


def _mention(text: str, words: Mapping[str, str]) -> Mention | None:
    """The sentence with its slot filled; None if there is no word for the slot."""
    slot = _SLOT.search(text)
    assert slot is not None, text
    word = words.get(slot[1])
    if word is None:
        return None
    before = text[: slot.start()] + article(word)
    return Mention(before + word + text[slot.end() :], (len(before), len(before) + len(word)))


def _sentences() -> Sentences:
    sentences: defaultdict[tuple[str, int, str], list[str]] = defaultdict(list)
    for row in read_rows(bundled_path(_MENTIONS)):
        relation, number, wording = (row.fields[name] for name in ("relation", "template", "kind"))
        sentences[relation, int(number), wording].append(row.fields["sentence"])
    return sentences


def _relations() -> list[str]:
    return list(dict.fromkeys(relation for relation, _, _ in _sentences()))


def _other_words(pairs: list[Pair]) -> dict[str, dict[str, str]]:
    """The nationality and the capital of each country that has them among the pairs."""
    words: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for pair in pairs:
        if pair.relation == _NATIONALITIES:
            words[pair.first]["adjective"] = pair.second
        elif pair.relation in _CAPITALS:
            words[pair.second]["capital"] = pair.first
    return dict(words)
