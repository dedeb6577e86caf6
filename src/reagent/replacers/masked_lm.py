"""The predictions of a masked language model, such as RoBERTa, for each token: the paper's replacer.

Each position is masked once, and the rest of prompt and continuation stays visible. The mask covers the characters of
the explained model's token, whatever the tokens of the masked LM are: the masked LM's tokenizer encodes the text to the
left and the text to the right, with one mask token between them. A prediction for the mask is called a fill.

A token that begins a word is masked together with the rest of the word, which would reveal it: " Jap" of " Japan" masks
the whole word, and its fills are words. A token inside a word is masked from there to the end of the word ("an" is
replaced by a continuation of "Jap"), because the fill of a whole word begins with a space and cannot continue a word.
In scripts without spaces a word is one character. Tokens that are parts of one character (bytes of an emoji) all mask
the whole character.

A fill is used only if a single token of the explained model spells it, with the same leading space as the original:
positions stay aligned. After a space, the fill must begin a word. Directly after a letter, a digit or a closing symbol,
it must continue one. At the start of the text or of a line, or after an opening bracket or a quote, both are allowed.
Fills of an uncased masked LM get the capitals of the original if that is a token. A fill that differs from the original
only in capitals is not used. White space is replaced by words.

If fewer than MIN_CANDIDATES fills can be used, similar tokens (same leading space; word or symbol), sampled uniformly,
are added. Each has the weight of the least likely fill that is used. If the vocabulary has too few similar tokens,
tokens with the same leading space are added, then any tokens.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.models._transformers import cached_revision
from reagent.models.base import HasTokenTexts, Model
from reagent.models.tokenization import Span
from reagent.replacers.base import Proposals, make_proposals
from reagent.replacers.masked_network import Fill, load_masked_lm
from reagent.replacers.vocabulary import Vocabulary, is_symbol
from reagent.segmentation import split_words
from reagent.validation import check_integer

MIN_CANDIDATES = 3


@dataclass(frozen=True)
class MaskedLMReplacer:
    """The `candidates` most likely fills of a masked LM, which is a hub id (optionally at `revision`) or a folder.

    `weighted` samples by the masked LM's probabilities instead of uniformly.
    """

    requires: ClassVar[tuple[type, ...]] = (HasTokenTexts,)

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
        lm = load_masked_lm(self.model, self.revision)
        text = case.text
        masks = {i: _make_mask(text, *spans, int(case.ids[i]), vocabulary) for i, spans in _find_spans(case, text)}
        passes_before = lm.meter.forward_passes
        fills = lm.fill(text, tuple(dict.fromkeys(mask.span for mask in masks.values())))
        ids = np.zeros((len(case.ids), self.candidates), dtype=np.int64)
        weights, sampled = np.zeros(ids.shape), np.zeros(len(ids), dtype=np.bool_)
        for i, mask in masks.items():
            best = self._select(mask, fills[mask.span], vocabulary, lm.is_cased)
            added = self._sample_similar(best, mask, vocabulary, rng)
            best, sampled[i] = best | added, bool(added)
            ids[i, : len(best)] = list(best)
            weights[i, : len(best)] = list(best.values()) if self.weighted else 1.0
        proposals = make_proposals(case, ids, weights, sampled)
        return replace(proposals, auxiliary_passes=lm.meter.forward_passes - passes_before)

    def _select(self, mask: "_Mask", fills: list[Fill], vocabulary: Vocabulary, is_cased: bool) -> dict[int, float]:
        """The tokens of the fills that can be used, with their probabilities, most likely first."""
        selected: dict[int, float] = {}
        for fill in fills:
            word = fill.text.strip()
            if not mask.accepts(fill) or mask.is_original(word):
                continue
            token = vocabulary.id_of(mask.leading_space + word)
            if not is_cased:
                cased = vocabulary.id_of(mask.leading_space + _copy_capitals(mask.original.strip(), word))
                token = token if cased is None else cased
            if token is not None and token != mask.token:
                selected.setdefault(token, fill.probability)
            if len(selected) == self.candidates:
                break
        return selected

    def _sample_similar(
        self, selected: dict[int, float], mask: "_Mask", vocabulary: Vocabulary, rng: np.random.Generator
    ) -> dict[int, float]:
        """Similar tokens that fill up the selected ones to MIN_CANDIDATES, or as many as there are."""
        missing = min(MIN_CANDIDATES, self.candidates) - len(selected)
        if missing <= 0:
            return {}
        similar = vocabulary.similar_to(mask.original, exclude=[mask.token, *selected], minimum=missing)
        sample = rng.choice(similar, size=min(missing, len(similar)), replace=False)
        return dict.fromkeys(sample.tolist(), min(selected.values(), default=1.0))


@dataclass(frozen=True)
class _Mask:
    """A token, the span that is masked for it, and which fills can replace it."""

    span: Span
    masked: str  # the text of the span
    token: int
    original: str  # the text of the token, as the explained model spells it
    space: bool | None  # whether a fill must begin with a space; None: it may

    @property
    def leading_space(self) -> str:
        return " " if self.original[:1].isspace() else ""

    def accepts(self, fill: Fill) -> bool:
        if fill.space is None:  # a symbol: after a space it may only replace another symbol
            return self.space is not True or is_symbol(self.original)
        return self.space is None or self.space == fill.space

    def is_original(self, word: str) -> bool:
        return word.casefold() in (self.original.strip().casefold(), self.masked.strip().casefold())


def _find_spans(case: Case, text: str) -> Iterator[tuple[int, tuple[Span, Span]]]:
    """For every token that may be replaced: its index, its span in the text, and the span to mask."""
    tokens, spans = case.units, case.spans
    protected = (start for (start, _), token in zip(spans, tokens, strict=True) if token.protected)
    gaps = (i for i, character in enumerate(text) if character.isspace())
    stops = sorted({len(text), *(end for _, end in split_words(text)), *gaps, *protected})
    for i, (start, end) in enumerate(spans):
        if not tokens[i].protected:
            in_word = start < end and not text[end - 1].isspace()
            yield i, ((start, end), (start, stops[bisect_left(stops, end)] if in_word else end))


def _make_mask(text: str, span: Span, mask: Span, token: int, vocabulary: Vocabulary) -> _Mask:
    piece, masked = text[slice(*span)], text[slice(*mask)]
    start = span[1] - len(piece.lstrip())
    before = text[start - 1 : start] if start else ""
    # In many vocabularies the first word is spelled with a space that is not in the text.
    original = vocabulary.text_of(token) or piece
    if not piece.strip() or before == " ":
        return _Mask(mask, masked, token, original, True)
    return _Mask(mask, masked, token, original, None if _may_precede_word(before) else False)


def _may_precede_word(character: str) -> bool:
    """Whether a word may begin directly after the character, without a space."""
    return not character or character.isspace() or character in "\"'" or unicodedata.category(character) in "Ps Pi Pd"


def _copy_capitals(original: str, word: str) -> str:
    if len(original) > 1 and original.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if original[:1].isupper() else word
