"""Where tokens stand in the text."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def tile(offsets: Sequence[Span], length: int) -> list[Span]:
    """Spans that cover the text without gaps: what lies between two tokens belongs to the second.

    Tokenizers disagree on whether a leading space is part of a token's offsets; after this they agree.

    >>> tile([(0, 2), (3, 7), (7, 8)], 9)
    [(0, 2), (2, 7), (7, 9)]
    """
    spans: list[Span] = []
    covered = 0
    for start, end in offsets:
        if end <= start:  # a special token that stands outside the text
            spans.append((covered, covered))
            continue
        spans.append((min(start, covered), end))
        covered = max(covered, end)
    last = next((i for i in reversed(range(len(spans))) if spans[i][0] < spans[i][1]), None)
    if last is not None and covered < length:
        spans[last] = (spans[last][0], length)
    return spans


def spans_by_decoding(decode: Callable[[Sequence[int]], str], before: Sequence[int], ids: Sequence[int]) -> list[Span]:
    """Spans of `ids` in the text that they add to `before`; pieces of one character share its span."""
    base = len(decode(before))
    text = decode([*before, *ids])[base:]
    spans: list[Span] = []
    done = 0  # characters that are complete so far
    for k in range(1, len(ids) + 1):
        added = decode([*before, *ids[:k]])[base:]
        # A character of which some bytes are missing decodes to replacement characters at the end.
        complete = len(added) if added == text[: len(added)] else len(added.rstrip(REPLACEMENT))
        complete = min(max(done, complete), len(text))
        start = max(0, min(done, len(text) - 1))
        spans.append((start, max(complete, min(start + 1, len(text)))))
        done = complete
    return spans


def spellings(tokenizer: "PreTrainedTokenizerBase", ids: Iterable[int]) -> list[str]:
    """The text of each token inside a text. Decoded alone, some tokenizers drop a token's leading space."""
    before = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    start = len(tokenizer.decode(before, clean_up_tokenization_spaces=False))
    texts = tokenizer.batch_decode([[*before, i] for i in ids], clean_up_tokenization_spaces=False)
    return [text[start:] for text in texts]
