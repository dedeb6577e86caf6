"""What a masked language model, such as RoBERTa, finds likely where a token stands: the paper's replacer.

Each position is masked once, with all the rest of prompt and continuation visible. What is masked are
the characters of the explained model's token, whatever the masked LM's own tokens are: the text to their
left and to their right are read by the masked LM's tokenizer, with one mask between them.

A token that is part of a word is masked together with the rest of its word, which would betray it: " Jap"
of " Japan" masks the whole word, and the fills are words. A piece further on masks from there to the end
("an" asks for what may follow "Jap"): what fills a whole word begins with a space, and could never stand
in the middle of one. Scripts without spaces have words of one character here. Pieces of one character
(bytes of an emoji) all ask for the whole character.

A fill counts if the explained model spells it with one token that has the leading space of the original:
positions stay aligned. Written with a space, the original takes fills that begin a word; right after a
letter, a digit or a closing sign, fills that go on; at the start of the text or of a line, or behind an
opening bracket or a quote, both. Fills of a masked LM that knows no capitals take those of the original
where that is a token. One that differs from the original in capitals only is no replacement. Where white
space stands, words are asked for.

Where fewer than MINIMUM fills count, tokens of the same kind (leading space; word or sign), drawn
uniformly, make up the rest, each with the weight of the least likely fill that counted; in a vocabulary
with too few of that kind, tokens with the same leading space, then any.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.models._transformers import cached_revision
from reagent.models.base import Model
from reagent.models.tokenization import Span
from reagent.replacers.base import Proposals, table
from reagent.replacers.masked_network import Fill, load
from reagent.replacers.vocabulary import Vocabulary, is_sign
from reagent.segmentation import words
from reagent.validation import check_integer

MINIMUM = 3


@dataclass(frozen=True)
class MaskedLMReplacer:
    """The `candidates` likeliest fills of a masked LM: a hub id or a folder, at `revision` if it is given.

    `weighted` draws by the masked LM's probabilities instead of uniformly.
    """

    model: str = "roberta-base"
    candidates: int = 10
    weighted: bool = False
    revision: str | None = None

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "roberta", **asdict(self), "revision": self.revision or cached_revision(self.model)}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        vocabulary = Vocabulary(model, "replacer 'roberta'")
        lm = load(self.model, self.revision)
        text = case.prompt + case.completion
        places = {i: _place(text, *which, int(case.ids[i]), vocabulary) for i, which in _spans(case, text)}
        before = lm.meter.forward_passes
        fills = lm.fill(text, tuple(dict.fromkeys(place.span for place in places.values())))
        ids = np.zeros((len(case.ids), self.candidates), dtype=np.int64)
        weights, sampled = np.zeros(ids.shape), np.zeros(len(ids), dtype=np.bool_)
        for i, place in places.items():
            best = self._choose(place, fills[place.span], vocabulary, lm.knows_capitals)
            more = self._made_up(best, place, vocabulary, rng)
            best, sampled[i] = best | more, bool(more)
            ids[i, : len(best)] = list(best)
            weights[i, : len(best)] = list(best.values()) if self.weighted else 1.0
        return replace(table(case, ids, weights, sampled), foreign_passes=lm.meter.forward_passes - before)

    def _choose(
        self, place: "_Place", fills: list[Fill], vocabulary: Vocabulary, knows_capitals: bool
    ) -> dict[int, float]:
        """Token → probability, the likeliest first, of the fills that count."""
        chosen: dict[int, float] = {}
        for fill in fills:
            word = fill.text.strip()
            if not place.takes(fill) or place.is_as_before(word):
                continue
            token = vocabulary.id_of(place.lead + word)
            if not knows_capitals:
                cased = vocabulary.id_of(place.lead + _with_capitals_of(place.original.strip(), word))
                token = token if cased is None else cased
            if token is not None and token != place.token:
                chosen.setdefault(token, fill.probability)
            if len(chosen) == self.candidates:
                break
        return chosen

    def _made_up(
        self, chosen: dict[int, float], place: "_Place", vocabulary: Vocabulary, rng: np.random.Generator
    ) -> dict[int, float]:
        """What is missing to MINIMUM, or as many as there are."""
        missing = min(MINIMUM, self.candidates) - len(chosen)
        if missing <= 0:
            return {}
        others = vocabulary.like(place.original, but=[place.token, *chosen], least=missing)
        drawn = rng.choice(others, size=min(missing, len(others)), replace=False)
        return dict.fromkeys(drawn.tolist(), min(chosen.values(), default=1.0))


@dataclass(frozen=True)
class _Place:
    """Where a token stands, and what may stand there."""

    span: Span  # what is masked
    masked: str  # its text
    token: int
    original: str  # the token, as the explained model spells it
    space: bool | None  # whether a fill begins with a space; None: both do

    @property
    def lead(self) -> str:
        return " " if self.original[:1].isspace() else ""

    def takes(self, fill: Fill) -> bool:
        if fill.space is None:  # a sign after a space: only where one stood
            return self.space is not True or is_sign(self.original)
        return self.space is None or self.space == fill.space

    def is_as_before(self, word: str) -> bool:
        return word.casefold() in (self.original.strip().casefold(), self.masked.strip().casefold())


def _spans(case: Case, text: str) -> Iterator[tuple[int, tuple[Span, Span]]]:
    """Of every token that may be replaced: its index; its span in the text and that of what is masked."""
    tokens = case.input + case.output
    shifts = [0] * len(case.input) + [len(case.prompt)] * len(case.output)
    spans = [(token.start + by, token.end + by) for token, by in zip(tokens, shifts, strict=True)]
    kept = (start for (start, _), token in zip(spans, tokens, strict=True) if token.protected)
    gaps = (i for i, character in enumerate(text) if character.isspace())
    stops = sorted({len(text), *(end for _, end in words(text)), *gaps, *kept})
    for i, (start, end) in enumerate(spans):
        if not tokens[i].protected:
            inside = start < end and not text[end - 1].isspace()
            yield i, ((start, end), (start, stops[bisect_left(stops, end)] if inside else end))


def _place(text: str, span: Span, mask: Span, token: int, vocabulary: Vocabulary) -> _Place:
    piece, masked = text[slice(*span)], text[slice(*mask)]
    start = span[1] - len(piece.lstrip())
    before = text[start - 1 : start] if start else ""
    # The spelling knows of a space that is not in the text: before the first word, in many vocabularies.
    original = vocabulary.text_of(token) or piece
    if not piece.strip() or before == " ":
        return _Place(mask, masked, token, original, True)
    return _Place(mask, masked, token, original, None if _opens(before) else False)


def _opens(character: str) -> bool:
    """Whether a word begins after it without a space."""
    return not character or character.isspace() or character in "\"'" or unicodedata.category(character) in "Ps Pi Pd"


def _with_capitals_of(original: str, word: str) -> str:
    if len(original) > 1 and original.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if original[:1].isupper() else word
