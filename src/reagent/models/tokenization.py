"""Texts to tokens and back, with a tokenizer on this machine or on a server.

A `Codec` encodes and decodes. The functions make `Token` objects of that, which have character offsets.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Message, Token
from reagent.segmentation import assign

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_BYTES = 4  # of a character in UTF-8


class Codec(Protocol):
    """Between text and the ids of one vocabulary."""

    @property
    def special_ids(self) -> Container[int]:
        """Ids of special tokens: start, end, marks of a chat template."""
        ...

    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]:
        """Ids and the spans that they cover; with `special`, also the special tokens before a text, but none after.

        A special token that is not part of the text has an empty span.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def name(self, token: int) -> str:
        """The name of a token that is not part of the text."""
        ...


@runtime_checkable
class EncodesLetters(Protocol):
    """A codec that can read the text of a control token as letters."""

    def encode_letters(self, text: str) -> tuple[list[int], list[Span]]:
        """As `encode` inside a text, without control tokens."""
        ...


def tokenize(codec: Codec, text: str, special: bool = True) -> tuple[Token, ...]:
    """The tokens of a text."""
    ids, spans = codec.encode(text, special)
    return tuple(
        Token((i,), text[a:b] if a < b else codec.name(i), a, b, protected=i in codec.special_ids)
        for i, (a, b) in zip(ids, spans, strict=True)
    )


def tokenize_chat(codec: Codec, text: str, messages: Sequence[Message]) -> tuple[Token, ...]:
    """The tokens of a rendered chat; all tokens outside the messages are protected."""
    tokens = tokenize(codec, text, special=False)  # the template has added them
    return protect_template(tokens, text, messages)


def protect_template(tokens: Sequence[Token], text: str, messages: Sequence[Message]) -> tuple[Token, ...]:
    """The tokens of a rendered chat, with those outside the messages protected."""
    inside = assign([(token.start, token.end) for token in tokens], [(m.start, m.end) for m in messages], text)
    return tuple(
        replace(token, protected=token.protected or message is None)
        for token, message in zip(tokens, inside, strict=True)
    )


def find_control_tokens(codec: Codec, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> list[int]:
    """Indices of the special tokens that are written out in a text, or in the messages of a chat.

    The token of an unknown word is not among them: it is special, but its name is not in the text.
    """
    return [
        i
        for i, token in enumerate(tokens)
        if token.start < token.end
        and any(j in codec.special_ids and codec.name(j).strip() == token.text.strip() for j in token.ids)
        and (not messages or any(token.start < m.end and token.end > m.start for m in messages))
    ]


def read_as_text(codec: Codec, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> tuple[Token, ...]:
    """The tokens of a text, with the letters of control tokens in place of the control tokens."""
    controls, result = set(find_control_tokens(codec, tokens, messages)), list[Token]()
    for i, token in enumerate(tokens):
        result += _letters(codec, token) if i in controls else [token]
    return tuple(result)


def _letters(codec: Codec, token: Token) -> list[Token]:
    """A control token as the tokens of its text."""
    if not isinstance(codec, EncodesLetters):
        raise InputError(
            f"{token.text!r} cannot be read as text: the tokenizer of the server reads it as a control token; give its "
            "`tokenizer`, or leave out `control_tokens`"
        )
    ids, spans = codec.encode_letters(token.text)
    if not ids or any(i in codec.special_ids for i in ids):
        raise InputError(
            f"{token.text!r} cannot be read as text: the tokenizer has no other tokens for it; leave out "
            "`control_tokens`, or write it in another way"
        )
    return [
        Token((i,), token.text[a:b], a + token.start, b + token.start) for i, (a, b) in zip(ids, spans, strict=True)
    ]


def tokenize_target(codec: Codec, prompt: str, special: bool, ids: Sequence[int], target: str) -> tuple[Token, ...]:
    """The target as the tokens that follow the prompt's `ids`; tokenized alone if it would merge with the prompt."""
    if not target:
        raise InputError("`target` is empty: give the text of the continuation, or leave it out")
    together = tokenize(codec, prompt + target, special)
    n = len(prompt)
    if [t.ids[0] for t in together[: len(ids)]] == list(ids) and all(t.start >= n for t in together[len(ids) :]):
        return tuple(Token(t.ids, t.text, t.start - n, t.end - n) for t in together[len(ids) :])
    # After a line end, because some tokenizers put a space before every text.
    for start in ("\n", ""):
        before = codec.encode(start, special=False)[0]
        tokens = tokenize(codec, start + target, special=False)
        if [t.ids[0] for t in tokens[: len(before)]] == before:
            break
    # A tokenizer that drops line ends gives this one to the first token.
    spans = [(max(0, t.start - len(start)), t.end - len(start)) for t in tokens[len(before) :]]
    return tuple(Token(t.ids, target[a:b], a, b) for t, (a, b) in zip(tokens[len(before) :], spans, strict=True))


def locate_continuation(codec: Codec, ids: Sequence[int], new: Sequence[int]) -> tuple[str, tuple[Token, ...]]:
    """The text that `new` tokens add to the text of `ids`, and the tokens with their offsets in it."""
    if not new:
        raise EmptyGenerationError
    completion = added_text(codec.decode, ids, new)
    spans = spans_by_decoding(codec.decode, ids, new)
    return completion, tuple(Token((i,), completion[a:b], a, b) for i, (a, b) in zip(new, spans, strict=True))


class TokenizerCodec:
    """A tokenizer of `transformers`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer

    @cached_property
    def special_ids(self) -> frozenset[int]:
        added: Mapping[int, Any] = getattr(self.tokenizer, "added_tokens_decoder", {})
        return frozenset(self.tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}

    @cached_property
    def token_texts(self) -> dict[int, str]:
        """The text of every token that is not special, as part of a sentence."""
        ids = [i for i in range(len(self.tokenizer)) if i not in self.special_ids]
        return dict(zip(ids, decode_each(self.tokenizer, ids), strict=True))

    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]:
        fast = self.tokenizer.is_fast
        encoded = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=fast, verbose=False)
        ids = list(encoded["input_ids"])
        if not fast:
            return self._without_end(ids, list(self.tokenizer(text, add_special_tokens=False)["input_ids"]), len(text))
        spans = fill_gaps([tuple(pair) for pair in encoded["offset_mapping"]], len(text))
        while ids and ids[-1] in self.special_ids and spans[-1][0] == spans[-1][1]:
            ids.pop()
            spans.pop()
        return ids, spans

    def encode_letters(self, text: str) -> tuple[list[int], list[Span]]:
        def encode(part: str) -> list[int]:
            return list(self.tokenizer(part, add_special_tokens=False, split_special_tokens=True)["input_ids"])

        for start in ("\n", ""):  # some tokenizers put a space before every text
            before = encode(start)
            whole = encode(start + text)
            if whole[: len(before)] == before:
                break
        ids, last = whole[len(before) :], max(0, len(text) - 1)
        spans = spans_by_decoding(self.decode, before, ids)
        return ids, [(min(a, last), min(b, len(text))) for a, b in spans]

    def _without_end(self, ids: list[int], own: list[int], length: int) -> tuple[list[int], list[Span]]:
        """The tokens up to the last one of the text itself, `own`, and spans in a text of this length."""
        starts = range(len(ids) - len(own) + 1)
        start = next((k for k in starts if ids[k : k + len(own)] == own), 0)
        before, own = ids[:start], ids[start : start + len(own)]
        spans = spans_by_decoding(self.decode, before, own)
        inside = [(min(a, max(0, length - 1)), min(b, length)) for a, b in spans]  # a decoded text may be longer
        return [*before, *own], [(0, 0)] * start + inside

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def name(self, token: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token))


def is_ordinary(text: str) -> bool:
    """Whether a token is printable text, more than white space, and whole characters."""
    return bool(text.strip()) and text.isprintable() and REPLACEMENT not in text


# --- where tokens are in a text ---


def fill_gaps(offsets: Sequence[Span], length: int) -> list[Span]:
    """Spans that cover the text without gaps: characters between two tokens belong to the second.

    Tokenizers disagree on whether a leading space is part of a token's offsets; after this they agree.

    >>> fill_gaps([(0, 2), (3, 7), (7, 8)], 9)
    [(0, 2), (2, 7), (7, 9)]
    """
    spans: list[Span] = []
    covered = 0
    for start, end in offsets:
        if end <= start:  # a special token that is not part of the text
            spans.append((covered, covered))
            continue
        spans.append((min(start, covered), end))
        covered = max(covered, end)
    last = next((i for i in reversed(range(len(spans))) if spans[i][0] < spans[i][1]), None)
    if last is not None and covered < length:
        spans[last] = (spans[last][0], length)
    return spans


def added_text(decode: Callable[[Sequence[int]], str], before: Sequence[int], ids: Sequence[int]) -> str:
    """The text that `ids` add to that of `before`; a character with missing bytes at its end is one replacement."""
    base = len(decode(before))
    text = decode([*before, *ids])[base:]
    if not text.endswith(REPLACEMENT):
        return text
    complete = text.rstrip(REPLACEMENT)
    # Decoders of byte tokens replace every byte of a run that ends inside a character, its whole characters too.
    for missing in range(1, min(MAX_BYTES, len(ids) + 1)):
        shorter = decode([*before, *ids[:-missing]])[base:]
        if not shorter.endswith(REPLACEMENT) and len(shorter) > len(complete):
            complete = shorter
    return complete + REPLACEMENT


def spans_by_decoding(decode: Callable[[Sequence[int]], str], before: Sequence[int], ids: Sequence[int]) -> list[Span]:
    """Spans of `ids` in the text that they add to `before`; pieces of one character share its span."""
    base = len(decode(before))
    text = added_text(decode, before, ids)
    spans: list[Span] = []
    done = 0  # characters that are complete so far
    for k in range(1, len(ids) + 1):
        added = decode([*before, *ids[:k]])[base:]
        # A character with missing bytes decodes to replacement characters at the end.
        complete = len(added) if added == text[: len(added)] else len(added.rstrip(REPLACEMENT))
        complete = min(max(done, complete), len(text))
        start = max(0, min(done, len(text) - 1))
        spans.append((start, max(complete, min(start + 1, len(text)))))
        done = complete
    return spans


def decode_each(tokenizer: "PreTrainedTokenizerBase", ids: Iterable[int]) -> list[str]:
    """The text of each token inside a sentence. Decoded alone, some tokens lose their leading space."""
    before = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    start = len(tokenizer.decode(before, clean_up_tokenization_spaces=False))
    texts = tokenizer.batch_decode([[*before, i] for i in ids], clean_up_tokenization_spaces=False)
    return [text[start:] for text in texts]
