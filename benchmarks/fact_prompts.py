"""Own prompts about facts other than countries and their capitals: `develop` is for choosing, `blind` for reporting.

Each fact of facts.tsv has a sentence that states it, two that repeat its words, and one that says the same in other
words. [Brackets] mark the mentions. A prompt ends with a distractor, further mentions and a sentence that leads to the
answer.

A prompt is used if the model predicts the answer, and if the mentions are what they are meant to be: without all of
them the answer loses at least 2 nats, and with any one of them at most half of that. The split `blind` was written
before any explanation of its prompts was seen; what has been looked at becomes part of `develop`.
"""

import csv
import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reagent.case import Case
from reagent.data.base import Example
from reagent.models.base import Model
from reagent.removal import Delete
from reagent.segmentation import Span

FACT_SPLITS = ("develop", "blind")
MENTION = re.compile(r"\[(.+?)\]")
LEAST_DROP, ENOUGH = 2.0, 0.5


class Fact(NamedTuple):
    """A fact that leads to an answer."""

    split: str
    stated: str
    repeated: str
    repeated_again: str
    paraphrased: str
    distractor: str
    question: str
    answer: str


def load_facts() -> list[Fact]:
    with Path(__file__).with_name("facts.tsv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file, delimiter="\t")
    return [Fact(*row) for row in rows]


def choose_facts(model: Model, kind: str, split: str, size: int) -> list[Example]:
    """Up to `size` prompts of a kind."""
    examples = (_example(model, fact, kind) for fact in load_facts() if fact.split == split)
    return [example for example in examples if example is not None][:size]


def _sentences(fact: Fact, kind: str) -> list[str]:
    return {
        "once": [fact.stated, fact.distractor],
        "twice": [fact.stated, fact.distractor, fact.repeated],
        "three": [fact.stated, fact.repeated, fact.distractor, fact.repeated_again],
        "paraphrase": [fact.stated, fact.distractor, fact.paraphrased],
    }[kind]


def _example(model: Model, fact: Fact, kind: str) -> Example | None:
    """The prompt with the spans of its mentions; None if it is not used."""
    prompt, spans = strip_marks(" ".join([*_sentences(fact, kind), fact.question]))
    case = model.case(prompt, max_new_tokens=1)
    predicted, name = case.output[0].text, MENTION.findall(fact.stated)[0].replace(" ", "_")
    if not predicted.strip() or not f" {fact.answer}".startswith(predicted) or not _are_used(model, case, spans):
        return None
    return Example(f"facts/{fact.answer}-{name}/{kind}", prompt, predicted, kind, spans)


def _are_used(model: Model, case: Case, spans: tuple[Span, ...]) -> bool:
    """Whether the answer needs the mentions, and any one of them is enough."""
    case = case.with_logprobs(model)
    remover = Delete(model, case)
    subsets = [spans, *(combinations(spans, len(spans) - 1) if len(spans) > 1 else ())]
    removed = np.array(
        [[any(_overlaps(case, int(i), span) for span in some) for i in remover.free] for some in subsets]
    )
    drops = (case.values - remover.score(removed).value)[:, 0]
    return bool(drops[0] >= LEAST_DROP and (drops[1:] <= ENOUGH * drops[0]).all())


def _overlaps(case: Case, unit: int, span: Span) -> bool:
    return case.units[unit].start < span[1] and case.units[unit].end > span[0]


def strip_marks(text: str) -> tuple[str, tuple[Span, ...]]:
    """The text without brackets, and the spans that they marked.

    >>> strip_marks("He left [Rome]. I like [Rome].")
    ('He left Rome. I like Rome.', ((8, 12), (21, 25)))
    """
    spans: list[Span] = []
    for match in MENTION.finditer(text):
        start = match.start() - 2 * len(spans)
        spans.append((start, start + len(match[1])))
    return MENTION.sub(r"\1", text), tuple(spans)
