"""Long documents with one sentence that answers a question: a needle at a chosen depth.

All text is our own. The filler is made from templates about several topics; no sentence occurs twice, and none mentions
the words of a needle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from reagent.data.passages import INSTRUCTION

LENGTHS = (500, 2000, 8000)
DEPTHS = tuple(round(0.05 + 0.1 * i, 2) for i in range(10))
MARGIN = 150  # tokens that the chat template, the question and the answer may add to a haystack
LIMIT = 8192  # tokens that the embedded model reads

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class Needle:
    """A sentence, and a question that only it answers."""

    sentence: str
    question: str
    answer: str
    key: str  # the word that carries the answer

    @property
    def asked_for_key(self) -> str:
        """The question, and the answer up to its key word."""
        return f"\n\nQuestion: {self.question}\nAnswer: {self.answer.partition(self.key)[0].rstrip()}"


NEEDLES = (
    Needle(
        "The spare key of the boathouse is hidden under the blue bucket.",
        "Where is the spare key of the boathouse hidden?",
        "The spare key of the boathouse is hidden under the blue bucket.",
        "bucket",
    ),
    Needle(
        "The password of the observatory is marmalade.",
        "What is the password of the observatory?",
        "The password of the observatory is marmalade.",
        "marmalade",
    ),
    Needle(
        "The treasure of captain Morrow lies beneath the copper statue.",
        "Where does the treasure of captain Morrow lie?",
        "The treasure of captain Morrow lies beneath the copper statue.",
        "statue",
    ),
    Needle(
        "The secret ingredient of the royal soup is dried lavender.",
        "What is the secret ingredient of the royal soup?",
        "The secret ingredient of the royal soup is dried lavender.",
        "lavender",
    ),
    Needle(
        "The lost violin of Ilse Tamm was found in a coal cellar.",
        "Where was the lost violin of Ilse Tamm found?",
        "The lost violin of Ilse Tamm was found in a coal cellar.",
        "cellar",
    ),
)

# Each template with the words of its slots.
_FILLER = (
    (
        "{}, {} {} {}.",
        ("On Monday", "In early spring", "After the storm", "One rainy morning", "Last autumn"),
        ("the gardener", "our neighbour", "a young teacher", "an old sailor", "the postwoman"),
        ("painted", "repaired", "sold", "measured", "photographed"),
        ("a wooden bench", "the garden gate", "two old chairs", "the church bell", "a broken clock"),
    ),
    (
        "The {} from {} carries {} and stops {}.",
        ("night train", "slow bus", "mail van", "morning tram"),
        ("Ostby", "Lerum", "Vadheim", "Kolding", "Tarnow"),
        ("milk and newspapers", "only a few passengers", "sacks of grain", "parcels"),
        ("at every village", "near the school", "beside the canal", "twice before noon"),
    ),
    (
        "{} in the {} are {} {}.",
        ("Apples", "Cherries", "Potatoes", "Onions", "Plums"),
        ("northern valley", "lower fields", "monastery orchard", "school yard"),
        ("picked", "sorted", "weighed", "planted"),
        ("by hand", "in September", "before the frost", "by volunteers"),
    ),
    (
        "The {} of {} has {} and {}.",
        ("town hall", "museum", "station", "swimming pool", "theatre"),
        ("Ostby", "Lerum", "Vadheim", "Kolding", "Tarnow"),
        ("a tall tower", "new windows", "a narrow entrance", "three floors"),
        ("a small cafe", "a flat roof", "very thick walls", "a friendly porter"),
    ),
    (
        "A {} {} {} {}.",
        ("heron", "fox", "squirrel", "stork", "hedgehog"),
        ("was seen", "slept", "was photographed", "left its tracks"),
        ("near the mill", "behind the dike", "on the football field", "below the bridge"),
        ("at dawn", "during the fair", "in the first week of May", "after midnight"),
    ),
    (
        "{} learned {} from {} {}.",
        ("My cousin", "The baker", "Mrs Alder", "Our doctor", "A student"),
        ("chess", "Norwegian", "carpentry", "swimming", "the accordion"),
        ("an uncle", "a retired clerk", "two sisters", "a book"),
        ("within a year", "during a long winter", "without much effort", "for a bet"),
    ),
)


@dataclass(frozen=True)
class Haystack:
    """Sentences, one of which is the needle."""

    sentences: tuple[str, ...]
    position: int  # of the needle
    needle: Needle

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def message(self) -> str:
        """As the message of a collection with one document."""
        return f"{INSTRUCTION}\n\nDocument 1:\n{self.text}\n\nQuestion: {self.needle.question}"


def make_haystack(tokens: int, depth: float, seed: int, count_tokens: CountTokens) -> Haystack:
    """A document of at most `tokens` tokens and at least `tokens` − 30, with a needle at a relative depth in [0, 1].

    The needle and the order of the filler depend on the seed alone.
    """
    needle = NEEDLES[seed % len(NEEDLES)]
    lines = filler()
    order = np.random.default_rng(seed).permutation(len(lines))
    left = min(tokens, LIMIT - MARGIN) - count_tokens(needle.sentence)
    chosen: list[str] = []
    for line in (lines[i] for i in order):
        left -= count_tokens(f" {line}")
        if left < 0:
            break
        chosen.append(line)
    position = round(depth * len(chosen))
    return Haystack((*chosen[:position], needle.sentence, *chosen[position:]), position, needle)


def filler() -> list[str]:
    """All filler sentences, each once."""
    return list(chain.from_iterable(map(template.format, *zip(*product(*slots))) for template, *slots in _FILLER))  # noqa: B905
