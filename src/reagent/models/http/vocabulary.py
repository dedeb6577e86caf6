"""Two kinds of tokens: the model's own, or pieces of text such as words if the server does not report its tokens.

The id of a piece of text is a hash of the text, so that it is the same in every run.
"""

import hashlib
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from typing import Protocol

from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.http.responses import ParsedResponse, TokenLogprob
from reagent.models.http.tokenizers import TextCodec, looks_special
from reagent.models.tokenization import Span, is_ordinary, locate_continuation, tokenize, tokenize_target

LONGEST = 64  # characters of a registered piece


class Vocabulary(Protocol):
    """Conversion between texts, ids and the tokens of a response."""

    @property
    def description(self) -> str:
        """What a token is, for the record of an explanation."""
        ...

    @property
    def ordinary(self) -> dict[int, str]:
        """The known tokens that are printable text."""
        ...

    @property
    def never_replaced(self) -> Container[int]:
        """Tokens that are never replaced: special tokens and roles."""
        ...

    def tokenize(self, text: str) -> tuple[Token, ...]:
        """The tokens of a prompt."""
        ...

    def tokenize_target(self, prompt: str, ids: Sequence[int], target: str, special: bool, /) -> tuple[Token, ...]:
        """The tokens of a target that follows the prompt's `ids`; `special`: the prompt begins with special tokens."""
        ...

    def parse_continuation(
        self, prompt: str, ids: Sequence[int], response: ParsedResponse, special: bool, /
    ) -> tuple[str, tuple[Token, ...]]:
        """The continuation in a response, and its tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text to send if prompts are sent as text."""
        ...

    def matches(self, listed: TokenLogprob, token: int) -> bool:
        """Whether a listed token is `token`."""
        ...

    def replacement_id(self, listed: TokenLogprob, original: int, /) -> int | None:
        """The id of a listed token as a replacement of `original`; None if it is special or unknown."""
        ...


class TokenVocabulary:
    """The model's own tokens, through a codec."""

    def __init__(self, codec: TextCodec, description: str) -> None:
        self.codec, self.description = codec, description

    @property
    def ordinary(self) -> dict[int, str]:
        return {i: text for i, text in self.codec.token_texts.items() if is_ordinary(text)}

    @property
    def never_replaced(self) -> Container[int]:
        return self.codec.special_ids

    def tokenize(self, text: str) -> tuple[Token, ...]:
        return tokenize(self.codec, text)

    def tokenize_target(self, prompt: str, ids: Sequence[int], target: str, special: bool, /) -> tuple[Token, ...]:
        return tokenize_target(self.codec, prompt, special, ids, target)

    def parse_continuation(
        self, prompt: str, ids: Sequence[int], response: ParsedResponse, special: bool, /
    ) -> tuple[str, tuple[Token, ...]]:
        new = [None if p.actual is None else self.codec.find_id(p.actual) for p in response.positions]
        if not response.text:
            return "", ()
        if None in new:  # some ids are unknown
            return response.text, self.tokenize_target(prompt, ids, response.text, special)
        known = [i for i in new if i is not None]
        while known and known[-1] in self.codec.special_ids:
            known.pop()  # an end token is not part of the text
        return locate_continuation(self.codec, ids, known)

    def decode(self, ids: Sequence[int]) -> str:
        before = self._start  # the server adds it to every text
        return self.codec.decode(ids[len(before) :] if list(ids[: len(before)]) == before else ids)

    def matches(self, listed: TokenLogprob, token: int) -> bool:
        return listed.text == self.codec.token_text(token) if listed.id is None else listed.id == token

    def replacement_id(self, listed: TokenLogprob, _original: int, /) -> int | None:
        token = self.codec.find_id(listed)
        return None if token in self.codec.special_ids else token

    @cached_property
    def _start(self) -> list[int]:
        plain, whole = (self.codec.encode("a", special)[0] for special in (False, True))
        return whole[: len(whole) - len(plain)]


class TextVocabulary:
    """Pieces of text. Every message of a chat begins with a role, which is a token without text."""

    def __init__(
        self,
        split: Callable[[str], Sequence[Span]],
        split_target: Callable[[Sequence[int], str], Sequence[str]],
        description: str,
        restores_spaces: bool = False,
    ) -> None:
        self.split, self.split_target, self.description = split, split_target, description
        self.restores_spaces = restores_spaces  # an answer of a chat begins without the space of a word in a text
        self.roles: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        self._registered: dict[int, str] = {}
        self.answer_id = self._id("\0answer")  # begins the answer of a chat

    @property
    def ordinary(self) -> dict[int, str]:
        return {i: text for i, text in sorted(self._texts.items()) if is_ordinary(text)}

    @property
    def never_replaced(self) -> Container[int]:
        return self.roles

    def tokenize(self, text: str) -> tuple[Token, ...]:
        return tuple(self._token(text[a:b], a) for a, b in self.split(text))

    def tokenize_target(self, _prompt: str, ids: Sequence[int], target: str, _special: bool, /) -> tuple[Token, ...]:
        return self.consecutive_tokens(self.split_target(ids, target))

    def parse_continuation(
        self, _prompt: str, _ids: Sequence[int], response: ParsedResponse, _special: bool, /
    ) -> tuple[str, tuple[Token, ...]]:
        tokens = self.consecutive_tokens([p.text for p in response.positions if p.text and not looks_special(p.text)])
        return "".join(token.text for token in tokens), tokens

    def decode(self, ids: Sequence[int]) -> str:
        try:
            return "".join(self._texts[i] if i in self._texts else self._registered[i] for i in ids)
        except KeyError as error:
            raise InputError(
                "the sequence has a piece of text that this model has not seen: make a case of it first"
            ) from error

    def matches(self, listed: TokenLogprob, token: int) -> bool:
        return listed.text == self._texts.get(token)

    def replacement_id(self, listed: TokenLogprob, original: int, /) -> int | None:
        text = listed.text
        if self.restores_spaces:
            text = (" " if self._texts.get(original, "")[:1] == " " else "") + text.strip()
        return self._id(text) if is_ordinary(text) and not looks_special(text.strip()) else None

    def consecutive_tokens(self, texts: Sequence[str]) -> tuple[Token, ...]:
        """Pieces that follow each other without gaps, from character 0."""
        tokens: list[Token] = []
        for text in texts:
            tokens.append(self._token(text, tokens[-1].end if tokens else 0))
        return tuple(tokens)

    def register_text(self, text: str) -> None:
        """Register all pieces of a text by their ids: an explanation from a file has ids of another run."""
        for start in range(len(text)):
            for end in range(start + 1, min(start + LONGEST, len(text)) + 1):
                self._registered.setdefault(_id_of(text[start:end]), text[start:end])

    def role_token(self, name: str, text: str, start: int, marker: int | None = None) -> Token:
        """The token at the beginning of a message; `text` is the separator before it."""
        marker = self._id(f"\0{name}") if marker is None else marker
        self._texts[marker], self.roles[marker] = "", name
        return Token((marker,), text or name, start, start + len(text), protected=True)

    def _token(self, text: str, start: int) -> Token:
        return Token((self._id(text),), text, start, start + len(text))

    def _id(self, text: str) -> int:
        token = _id_of(text)
        self._texts.setdefault(token, text)
        return token


def _id_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big")
