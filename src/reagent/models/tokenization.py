"""Texts to tokens and back, wherever the tokenizer is: here, or on a server.

A `Codec` knows how to encode and to decode; the functions turn that into tokens that know their place in a text.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Message, Token
from reagent.models.tokens import Span, spans_by_decoding, spellings, tile
from reagent.segmentation import assign

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Codec(Protocol):
    """Between text and the ids of one vocabulary."""

    @property
    def special_ids(self) -> Container[int]:
        """Ids that are no text: start, end, marks of a template."""
        ...

    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]:
        """Ids and spans that cover the text; with `special`, what the tokenizer puts before a text, but nothing after.

        A special token that stands outside the text has an empty span.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def name(self, token: int) -> str:
        """What to call a token that stands outside the text."""
        ...


def read(codec: Codec, text: str, special: bool = True) -> tuple[Token, ...]:
    """The tokens of a text."""
    ids, spans = codec.encode(text, special)
    return tuple(
        Token((i,), text[a:b] if a < b else codec.name(i), a, b, protected=i in codec.special_ids)
        for i, (a, b) in zip(ids, spans, strict=True)
    )


def read_chat(codec: Codec, text: str, messages: Sequence[Message]) -> tuple[Token, ...]:
    """The tokens of a chat as its template has written it; what stands outside the messages is protected."""
    tokens = read(codec, text, special=False)  # the template has written them
    inside = assign([(token.start, token.end) for token in tokens], [(m.start, m.end) for m in messages], text)
    return tuple(
        replace(token, protected=token.protected or message is None)
        for token, message in zip(tokens, inside, strict=True)
    )


def read_target(codec: Codec, prompt: str, special: bool, ids: Sequence[int], target: str) -> tuple[Token, ...]:
    """The target as the tokens that follow the prompt's `ids`; alone, where the two would merge into one token."""
    if not target:
        raise InputError("the target is empty: give the text that the model said, or leave --target out")
    together = read(codec, prompt + target, special)
    n = len(prompt)
    if [t.ids[0] for t in together[: len(ids)]] == list(ids) and all(t.start >= n for t in together[len(ids) :]):
        return tuple(Token(t.ids, t.text, t.start - n, t.end - n) for t in together[len(ids) :])
    # Behind a line end, so that a tokenizer which puts a space before every text puts none before this one.
    for start in ("\n", ""):
        before = codec.encode(start, special=False)[0]
        tokens = read(codec, start + target, special=False)
        if [t.ids[0] for t in tokens[: len(before)]] == before:
            break
    n = len(start)
    return tuple(Token(t.ids, t.text, t.start - n, t.end - n) for t in tokens[len(before) :])


def follow(codec: Codec, ids: Sequence[int], new: Sequence[int]) -> tuple[str, tuple[Token, ...]]:
    """What `new` tokens add to the text of `ids`, and where each stands in that."""
    if not new:
        raise EmptyGenerationError
    completion = added(codec, ids, new)
    spans = spans_by_decoding(codec.decode, ids, new)
    return completion, tuple(Token((i,), completion[a:b], a, b) for i, (a, b) in zip(new, spans, strict=True))


def added(codec: Codec, ids: Sequence[int], new: Sequence[int]) -> str:
    """The text that `new` tokens add to that of `ids`."""
    return codec.decode([*ids, *new])[len(codec.decode(ids)) :]


class TokenizerCodec:
    """A tokenizer of `transformers`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer

    @cached_property
    def special_ids(self) -> frozenset[int]:
        added: Mapping[int, Any] = getattr(self.tokenizer, "added_tokens_decoder", {})
        return frozenset(self.tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}

    @cached_property
    def spelled(self) -> dict[int, str]:
        """Every token that is not special, as it stands inside a text."""
        ids = [i for i in range(len(self.tokenizer)) if i not in self.special_ids]
        return dict(zip(ids, spellings(self.tokenizer, ids), strict=True))

    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]:
        fast = self.tokenizer.is_fast
        encoded = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=fast, verbose=False)
        ids = list(encoded["input_ids"])
        if fast:
            spans = tile([tuple(pair) for pair in encoded["offset_mapping"]], len(text))
        else:
            outside = next((k for k, i in enumerate(ids) if i not in self.special_ids), len(ids))
            spans = [(0, 0)] * outside + spans_by_decoding(self.decode, ids[:outside], ids[outside:])
        while ids and ids[-1] in self.special_ids and spans[-1][0] == spans[-1][1]:
            ids.pop()
            spans.pop()
        return ids, spans

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def name(self, token: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token))


def is_ordinary(text: str) -> bool:
    """Whether a token is printable text, more than white space, and whole characters."""
    return bool(text.strip()) and text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text
