"""A document of about 2,000 tokens with one sentence in its middle that answers a question; all text is our own."""

from itertools import islice, product

import numpy as np

WHO = ["the gardener", "our neighbour", "a young teacher", "the baker's son", "an old sailor", "the postwoman"]
DID = ["painted", "repaired", "sold", "measured", "cleaned", "photographed", "described", "borrowed"]
WHAT = ["a wooden bench", "the garden gate", "two old chairs", "the church bell", "a broken clock", "the long fence"]
WHERE = ["behind the mill", "near the harbour", "in the schoolyard", "on the market square", "by the railway line"]
WHEN = ["On Monday", "In early spring", "After the storm", "Before the festival", "One rainy morning", "Last autumn"]
ANSWER = "The spare key of the boathouse is hidden under the blue bucket."
QUESTION = "\n\nQuestion: Where is the spare key of the boathouse hidden?\nAnswer: It is hidden under the blue"
TARGET, KEY = " bucket", "bucket"


def document(sentences: int, seed: int = 0) -> str:
    """Sentences about everyday life in a village, with the answer in the middle."""
    everything = list(product(WHEN, WHO, DID, WHAT, WHERE))
    order = np.random.default_rng(seed).permutation(len(everything))
    lines = [
        f"{when}, {who} {did} {what} {where}."
        for when, who, did, what, where in islice((everything[i] for i in order), sentences)
    ]
    lines.insert(len(lines) // 2, ANSWER)
    return " ".join(lines)
