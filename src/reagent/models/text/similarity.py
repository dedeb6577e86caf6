"""How alike two texts are, from 0 to 1: F1 of words in order, and chrF (Popović, 2015)."""

import re
from collections import Counter
from difflib import SequenceMatcher

LONGEST = 6  # characters of an n-gram, as published
BETA = 2.0  # weight of the recall, as published


def normalize(text: str) -> str:
    """Lower case, and one space in place of any white space."""
    return " ".join(text.casefold().split())


def words(text: str) -> list[str]:
    """The words of a text; of a text without words, its characters."""
    plain = normalize(text)
    return re.findall(r"\w+", plain) or list(plain.replace(" ", ""))


def word_f1(answer: str, reference: str) -> float:
    """The F1 score of the words that an answer has in the same order.

    >>> word_f1("in Tokyo, Japan", "Tokyo"), word_f1("Japan in Tokyo", "Tokyo in Japan")
    (0.5, 0.3333333333333333)
    """
    return SequenceMatcher(None, words(answer), words(reference), autojunk=False).ratio()


def chrf(answer: str, reference: str) -> float:
    """The F score of the n-grams of characters, without spaces, averaged over n.

    >>> chrf("Tokyo", "Tokyo"), chrf("Kyoto", "Paris")
    (1.0, 0.0)
    """
    one, two = normalize(answer).replace(" ", ""), normalize(reference).replace(" ", "")
    sizes = range(1, min(LONGEST, max(len(one), len(two), 1)) + 1)
    return _f_score([_ngrams(one, n) for n in sizes], [_ngrams(two, n) for n in sizes], BETA)


def _ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def _f_score(answer: list[Counter[str]], reference: list[Counter[str]], beta: float) -> float:
    """The F score of mean precision and mean recall over several sizes of parts; two empty texts are equal."""
    if not any(reference) or not any(answer):
        return float(not any(reference) and not any(answer))
    common = [(one & two).total() for one, two in zip(answer, reference, strict=True)]
    precision = sum(c / max(one.total(), 1) for c, one in zip(common, answer, strict=True)) / len(common)
    recall = sum(c / max(two.total(), 1) for c, two in zip(common, reference, strict=True)) / len(common)
    if precision + recall == 0:
        return 0.0
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
