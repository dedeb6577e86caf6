"""Any token of the same part of speech, in any context: the paper's "POS".

The tagger is HanTa (the extra `pos`). Its English model is inside its wheel, so nothing is downloaded at run time, and
it needs only numpy. spaCy, NLTK, Stanza and Flair download their English models. TextBlob contains its rules, but needs
NLTK and made more errors on manually tagged sentences. The tags are those of the British National Corpus (C5: NN1 is a
singular noun, VVD a verb in the past). It is an English tagger; in other languages the groups are rough.

A word of the prompt is tagged in its sentence. The tokens of the vocabulary are tagged one by one, once, and the tags
are kept in the cache folder. A part of a word ("Jap" of "Japan") has no part of speech; other parts of words replace
it. A replacement has the leading space and the capital of the original. If a group has fewer than MIN_CANDIDATES
other tokens, these conditions are dropped one by one: first the exact tag (any noun for a plural noun), then the
capital, then the part of speech, so that any word may replace a word.
"""

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import metadata
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case, Ids
from reagent.errors import InputError
from reagent.models import cache
from reagent.models.base import HasTokenTexts, Model
from reagent.models.tokenization import Span
from reagent.replacers.base import Proposals, make_proposals
from reagent.replacers.vocabulary import Vocabulary, is_symbol
from reagent.validation import check_integer

logger = logging.getLogger(__name__)

MIN_CANDIDATES = 3
TAGGING_VERSION = "2"  # part of the cache key: increase it when `_tag_words` changes

PART, SYMBOL, DIGITS, SPACE = "part", "symbol", "digits", "space"  # our own tags, for tokens without a C5 tag
_UNKNOWN = "UNC"  # the tagger's tag for unknown words
_MIN_LOGPROB = -25.0  # words that the tagger was trained on are above -22, all others below -31
_MERGED_TAGS = {"TO0": "PR", "EX0": "PN", "XX0": "AV", "AT0": "DT", "DPS": "DT"}  # very small groups join a larger one
_WORD = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")

Groups = Mapping[tuple[Any, ...], Ids]


@dataclass(frozen=True)
class PartOfSpeechReplacer:
    """`candidates` tokens per position, sampled uniformly from those of the same part of speech."""

    requires: ClassVar[tuple[type, ...]] = (HasTokenTexts,)

    candidates: int = 256

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "pos", **asdict(self), "tagger": _tagger_id()}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        vocabulary = Vocabulary(model, "replacer 'pos'")
        groups = _group_tokens(vocabulary.texts)
        ids = np.zeros((len(case.ids), self.candidates), dtype=np.int64)
        weights, sampled = np.zeros(ids.shape), np.zeros(len(ids), dtype=np.bool_)
        for i, (token, tag) in enumerate(zip(case.input + case.output, _tag_case(case), strict=True)):
            if not token.protected:
                text = vocabulary.text_of(int(case.ids[i])) or token.text
                allowed = self._candidates_for(text, tag, groups, vocabulary, int(case.ids[i]))
                sample = rng.choice(allowed, size=min(self.candidates, len(allowed)), replace=False)
                ids[i, : len(sample)] = sample
                weights[i, : len(sample)], sampled[i] = 1.0, len(sample) < len(allowed)
        return make_proposals(case, ids, weights, sampled)

    @staticmethod
    def _candidates_for(text: str, tag: str, groups: Groups, vocabulary: Vocabulary, original: int) -> Ids:
        """The tokens of the narrowest group that has enough tokens besides the original."""
        for key in _group_keys(text, tag):
            members = groups.get(key)
            if members is not None and len(others := np.setdiff1d(vocabulary.ids[members], original)) >= MIN_CANDIDATES:
                return others
        return vocabulary.similar_to(text, exclude=[original], minimum=1)


def _group_keys(text: str, tag: str) -> Iterator[tuple[Any, ...]]:
    """The groups that a token belongs to, narrowest first."""
    space, capital = text[:1].isspace(), text.strip()[:1].isupper()
    yield space, tag, capital
    yield space, _coarse_tag(tag), capital
    yield space, _coarse_tag(tag)


def _coarse_tag(tag: str) -> str:
    return _MERGED_TAGS.get(tag, tag[:2] if tag.isupper() else tag)


# --- the vocabulary ---


@lru_cache(2)
def _group_tokens(texts: tuple[str, ...]) -> Groups:
    """The indices in `texts` of the tokens of each group."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, (text, tag) in enumerate(zip(texts, _tag_vocabulary(texts), strict=True)):
        for key in dict.fromkeys(_group_keys(text, tag)):
            groups[key].append(i)
    return {key: np.array(members) for key, members in groups.items()}


def _tag_vocabulary(texts: Sequence[str]) -> list[str]:
    """One tag for each token of the vocabulary, read from the cache if it was tagged before."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    entry = cache.CacheEntry(f"pos-{digest[:12]}", stamp=f"{TAGGING_VERSION}:{_tagger_id()}:{digest}")

    def build(folder: Path) -> None:
        logger.info("tagging %s tokens by part of speech, once; this takes some seconds", f"{len(texts):,}")
        (folder / "tags.json").write_text(json.dumps(_tag_words(texts)), "utf-8")

    tags: list[str] = json.loads((cache.ensure_entry(entry, build) / "tags.json").read_text("utf-8"))
    return tags


def _tag_words(texts: Sequence[str]) -> list[str]:
    """One tag for each text, without context."""
    tagger = _load_tagger()
    tags = []
    for text in texts:
        word = text.strip()
        tag, logprob = next(iter(tagger.tag_word(word)), (_UNKNOWN, 0.0))
        tags.append(_final_tag(word, tag if logprob > _MIN_LOGPROB else _UNKNOWN))
    return tags


def _final_tag(word: str, tag: str) -> str:
    """The tagger's tag, or our own for digits, symbols and parts of words."""
    if word.isdecimal():
        return DIGITS
    return tag if tag != _UNKNOWN else SYMBOL if is_symbol(word) else PART


# --- the prompt ---


def _tag_case(case: Case) -> list[str]:
    """One tag for each token of prompt and continuation."""
    text = case.text
    words = [match.span() for match in _WORD.finditer(text)]
    tags = dict(zip(words, _tag_in_context(text, words), strict=True))
    for (a, b), (c, d) in pairwise(words):
        if b == c and d - c == 3 and text[c] == "n":  # "is" and "n't" to the tagger, "isn" and "'t" to most models
            tags[a, b + 1], tags[c + 1, d] = tags[a, b], tags[c, d]
    case_tags = []
    for start, end in case.spans:
        piece = text[start:end]
        core = (end - len(piece.lstrip()), start + len(piece.rstrip()))
        case_tags.append(tags.get(core, _final_tag(piece, _UNKNOWN) if piece.strip() else SPACE))
    return case_tags


def _tag_in_context(text: str, words: Sequence[Span]) -> list[str]:
    """One tag for each word, tagged together with the other words of its sentence."""
    sentences: list[list[str]] = [[]]
    for a, b in words:
        sentences[-1].append(text[a:b])
        if text[a:b] in ".!?":
            sentences.append([])
    tagger = _load_tagger()
    tagged = (
        (word, tag) for part in sentences for word, tag in zip(part, tagger.tag_sent(part, taglevel=0), strict=True)
    )
    return [_final_tag(word, tag) for word, tag in tagged]


# --- the tagger ---


@lru_cache(1)
def _load_tagger() -> Any:
    try:
        from HanTa.HanoverTagger import HanoverTagger
    except ImportError as error:
        raise InputError(
            "replacer 'pos' needs a part-of-speech tagger, which is not installed: pip install 'reagent-lm[pos]'"
        ) from error
    # The full path matters: with a bare name, HanTa would unpickle a file of that name in the working folder.
    return HanoverTagger(str(files("HanTa") / "morphmodel_en.pgz"))


def _tagger_id() -> str:
    try:
        return f"HanTa {metadata.version('HanTa')}"
    except metadata.PackageNotFoundError:
        return "HanTa"
