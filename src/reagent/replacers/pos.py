"""Any token of the same part of speech, whatever the context: the paper's "POS".

The tagger is HanTa (the extra `pos`), since its English model is inside its wheel: nothing is fetched when
it runs, and it needs numpy alone. spaCy, NLTK, Stanza and Flair take their English models from elsewhere;
TextBlob has its rules inside, but brings NLTK along and was wrong more often on sentences tagged by hand.
Its tags are those of the British National Corpus (C5: NN1 a noun in
the singular, VVD a verb in the past). It is an English tagger: in other languages the groups are rough.

In the prompt a word is tagged in its sentence; in the vocabulary each token is tagged alone, once, and
the tags are kept in the cache folder. A part of a word ("Jap" of "Japan") has no part of speech: other
parts of words stand in for it. A replacement has the leading space of the original, and its capital. In
a group with fewer than MINIMUM others these conditions fall one after the other: the exact tag (any noun
for a plural noun), the capital, at last the part of speech, so that any word stands in for a word.
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
from typing import Any

import numpy as np

from reagent.case import Case, Ids
from reagent.errors import InputError
from reagent.models import cache
from reagent.models.base import Model
from reagent.models.tokenization import Span
from reagent.replacers.base import Proposals, table
from reagent.replacers.vocabulary import Vocabulary, is_sign
from reagent.validation import check_integer

logger = logging.getLogger(__name__)

MINIMUM = 3
RECIPE = "1"  # part of every stamp: raise it when `_tag_alone` answers otherwise

PART, SIGN, DIGITS, SPACE = "part", "sign", "digits", "space"  # what needs no tagger, or what it does not know
_UNKNOWN = "UNC"  # the tagger's own word for it
_KNOWN = -25.0  # log-probability: words that the tagger has seen lie above -22, all else below -31
_KIN = {"TO0": "PR", "EX0": "PN", "XX0": "AV", "AT0": "DT", "DPS": "DT"}  # nearest of kin of very small groups
_WORD = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")

Groups = Mapping[tuple[Any, ...], Ids]


@dataclass(frozen=True)
class PartOfSpeechReplacer:
    """`candidates` tokens per position, drawn uniformly from those of the same part of speech."""

    candidates: int = 256

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "pos", **asdict(self), "tagger": _tagger_id()}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        vocabulary = Vocabulary(model, "replacer 'pos'")
        groups = _groups(vocabulary.texts)
        ids = np.zeros((len(case.ids), self.candidates), dtype=np.int64)
        weights, sampled = np.zeros(ids.shape), np.zeros(len(ids), dtype=np.bool_)
        for i, (token, tag) in enumerate(zip(case.input + case.output, _tags_in(case), strict=True)):
            if not token.protected:
                spelled = vocabulary.text_of(int(case.ids[i])) or token.text
                others = self._others(spelled, tag, groups, vocabulary, int(case.ids[i]))
                drawn = rng.choice(others, size=min(self.candidates, len(others)), replace=False)
                ids[i, : len(drawn)] = drawn
                weights[i, : len(drawn)], sampled[i] = 1.0, len(drawn) < len(others)
        return table(case, ids, weights, sampled)

    @staticmethod
    def _others(spelled: str, tag: str, groups: Groups, vocabulary: Vocabulary, original: int) -> Ids:
        """The first group, from the narrowest to the widest, that has enough tokens besides the original."""
        for key in _keys(spelled, tag):
            members = groups.get(key)
            if members is not None and len(others := np.setdiff1d(vocabulary.ids[members], original)) >= MINIMUM:
                return others
        return vocabulary.like(spelled, but=[original], least=1)


def _keys(spelled: str, tag: str) -> Iterator[tuple[Any, ...]]:
    """The groups that a token belongs to, narrowest first."""
    space, capital = spelled[:1].isspace(), spelled.strip()[:1].isupper()
    yield space, tag, capital
    yield space, _family(tag), capital
    yield space, _family(tag)


def _family(tag: str) -> str:
    return _KIN.get(tag, tag[:2] if tag.isupper() else tag)


# --- the vocabulary ---


@lru_cache(2)
def _groups(texts: tuple[str, ...]) -> Groups:
    """Group → where its tokens stand in `texts`."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, (text, tag) in enumerate(zip(texts, _tags_of_vocabulary(texts), strict=True)):
        for key in dict.fromkeys(_keys(text, tag)):
            groups[key].append(i)
    return {key: np.array(members) for key, members in groups.items()}


def _tags_of_vocabulary(texts: Sequence[str]) -> list[str]:
    """One tag for each token; from the cache if this vocabulary was tagged before."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    entry = cache.CacheEntry(f"pos-{digest[:12]}", stamp=f"{RECIPE}:{_tagger_id()}:{digest}")

    def build(folder: Path) -> None:
        logger.info(f"tagging {len(texts):,} tokens by part of speech, once; this takes some seconds")
        (folder / "tags.json").write_text(json.dumps(_tag_alone(texts)), "utf-8")

    tags: list[str] = json.loads((cache.ensure_entry(entry, build) / "tags.json").read_text("utf-8"))
    return tags


def _tag_alone(texts: Sequence[str]) -> list[str]:
    tagger = _tagger()
    tags = []
    for text in texts:
        word = text.strip()
        best, logprob = next(iter(tagger.tag_word(word)), (_UNKNOWN, 0.0))
        tags.append(_tag_of(word, best if logprob > _KNOWN else _UNKNOWN))
    return tags


def _tag_of(word: str, tag: str) -> str:
    if word.isdecimal():
        return DIGITS
    return tag if tag != _UNKNOWN else SIGN if is_sign(word) else PART


# --- the prompt ---


def _tags_in(case: Case) -> list[str]:
    """One tag for each token of prompt and continuation."""
    text = case.prompt + case.completion
    words = [match.span() for match in _WORD.finditer(text)]
    tags = dict(zip(words, _tag_in_context(text, words), strict=True))
    for (a, b), (c, d) in pairwise(words):
        if b == c and d - c == 3 and text[c] == "n":  # "is" and "n't" to the tagger, "isn" and "'t" to most models
            tags[a, b + 1], tags[c + 1, d] = tags[a, b], tags[c, d]
    shifts = [0] * len(case.input) + [len(case.prompt)] * len(case.output)
    found = []
    for token, shift in zip(case.input + case.output, shifts, strict=True):
        start, end = token.start + shift, token.end + shift
        piece = text[start:end]
        core = (end - len(piece.lstrip()), start + len(piece.rstrip()))
        found.append(tags.get(core, _tag_of(piece, _UNKNOWN) if piece.strip() else SPACE))
    return found


def _tag_in_context(text: str, words: Sequence[Span]) -> list[str]:
    sentences: list[list[str]] = [[]]
    for a, b in words:
        sentences[-1].append(text[a:b])
        if text[a:b] in ".!?":
            sentences.append([])
    tagger = _tagger()
    tagged = (
        (word, tag) for part in sentences for word, tag in zip(part, tagger.tag_sent(part, taglevel=0), strict=True)
    )
    return [_tag_of(word, tag) for word, tag in tagged]


# --- the tagger ---


@lru_cache(1)
def _tagger() -> Any:
    try:
        from HanTa.HanoverTagger import HanoverTagger
    except ImportError as error:
        raise InputError(
            "replacer 'pos' needs a part-of-speech tagger, which is not installed: pip install 'reagent-lm[pos]'"
        ) from error
    # By its full path: given a bare name, HanTa would unpickle a file of that name in the working folder.
    return HanoverTagger(str(files("HanTa") / "morphmodel_en.pgz"))


def _tagger_id() -> str:
    try:
        return f"HanTa {metadata.version('HanTa')}"
    except metadata.PackageNotFoundError:
        return "HanTa"
