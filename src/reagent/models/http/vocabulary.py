"""What a token is: one of the model's own, or a piece of text such as a word where nobody tells the model's.

A piece of text has an id of our own, made from the text alone, so that it is the same in every run.
"""

import hashlib
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from typing import Protocol

from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.http.responses import Listed, Reply
from reagent.models.http.tokenizers import SpellingCodec, looks_special
from reagent.models.tokenization import follow, is_ordinary, read, read_target
from reagent.models.tokens import Span

LONGEST = 64  # characters of a piece that is known again from its id


class Vocabulary(Protocol):
    """Between text, ids, and what a server lists."""

    @property
    def about(self) -> str:
        """What a token is, for people."""
        ...

    @property
    def ordinary(self) -> dict[int, str]:
        """The tokens that are known and printable text."""
        ...

    @property
    def fixed(self) -> Container[int]:
        """Tokens for which nothing ever stands in: special ones, and roles."""
        ...

    def read(self, text: str) -> tuple[Token, ...]:
        """The tokens of a prompt."""
        ...

    def read_target(self, prompt: str, ids: Sequence[int], target: str, special: bool, /) -> tuple[Token, ...]:
        """The tokens of a target that follows the prompt's `ids`; `special`: these begin as every text does."""
        ...

    def follow(self, prompt: str, ids: Sequence[int], reply: Reply, special: bool, /) -> tuple[str, tuple[Token, ...]]:
        """The continuation that a server generated, and its tokens."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What to send where prompts are text."""
        ...

    def is_listed_as(self, listed: Listed, token: int) -> bool: ...

    def id_of(self, listed: Listed, instead_of: int, /) -> int | None:
        """The token that a server lists where another stands; None if it is special, or no token of ours."""
        ...


class Tokens:
    """The model's own tokens, through a codec."""

    def __init__(self, codec: SpellingCodec, about: str) -> None:
        self.codec, self.about = codec, about

    @property
    def ordinary(self) -> dict[int, str]:
        return {i: text for i, text in self.codec.spelled.items() if is_ordinary(text)}

    @property
    def fixed(self) -> Container[int]:
        return self.codec.special_ids

    def read(self, text: str) -> tuple[Token, ...]:
        return read(self.codec, text)

    def read_target(self, prompt: str, ids: Sequence[int], target: str, special: bool, /) -> tuple[Token, ...]:
        return read_target(self.codec, prompt, special, ids, target)

    def follow(self, prompt: str, ids: Sequence[int], reply: Reply, special: bool, /) -> tuple[str, tuple[Token, ...]]:
        new = [None if place.own is None else self.codec.learn(place.own) for place in reply.places]
        if not reply.text:
            return "", ()
        if None in new:  # not every token is known by its text
            return reply.text, self.read_target(prompt, ids, reply.text, special)
        known = [i for i in new if i is not None]
        while known and known[-1] in self.codec.special_ids:
            known.pop()  # an end token is no part of the text
        return follow(self.codec, ids, known)

    def text(self, ids: Sequence[int]) -> str:
        before = self._start  # the server puts it before every text by itself
        return self.codec.decode(ids[len(before) :] if list(ids[: len(before)]) == before else ids)

    def is_listed_as(self, listed: Listed, token: int) -> bool:
        return listed.text == self.codec.spell(token) if listed.id is None else listed.id == token

    def id_of(self, listed: Listed, _instead_of: int, /) -> int | None:
        found = self.codec.learn(listed)
        return None if found in self.codec.special_ids else found

    @cached_property
    def _start(self) -> list[int]:
        plain, whole = (self.codec.encode("a", special)[0] for special in (False, True))
        return whole[: len(whole) - len(plain)]


class Pieces:
    """Pieces of text. The messages of a chat begin with `roles`, which are pieces too, but of no text."""

    def __init__(
        self,
        cut: Callable[[str], Sequence[Span]],
        cut_target: Callable[[Sequence[int], str], Sequence[str]],
        about: str,
        respaced: bool = False,
    ) -> None:
        self.cut, self.cut_target, self.about = cut, cut_target, about
        self.respaced = respaced  # answers of a chat begin without the space that a word in a text has
        self.roles: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        self._once_said: dict[int, str] = {}
        self.answer = self._id("\0answer")  # begins the answer of a chat

    @property
    def ordinary(self) -> dict[int, str]:
        return {i: text for i, text in sorted(self._texts.items()) if is_ordinary(text)}

    @property
    def fixed(self) -> Container[int]:
        return self.roles

    def read(self, text: str) -> tuple[Token, ...]:
        return tuple(self._token(text[a:b], a) for a, b in self.cut(text))

    def read_target(self, _prompt: str, ids: Sequence[int], target: str, _special: bool, /) -> tuple[Token, ...]:
        return self.in_a_row(self.cut_target(ids, target))

    def follow(
        self, _prompt: str, _ids: Sequence[int], reply: Reply, _special: bool, /
    ) -> tuple[str, tuple[Token, ...]]:
        tokens = self.in_a_row([p.text for p in reply.places if p.text and not looks_special(p.text)])
        return "".join(token.text for token in tokens), tokens

    def text(self, ids: Sequence[int]) -> str:
        try:
            return "".join(self._texts[i] if i in self._texts else self._once_said[i] for i in ids)
        except KeyError as error:
            raise InputError("the sequence has a piece of text that this model has not read: read it first") from error

    def is_listed_as(self, listed: Listed, token: int) -> bool:
        return listed.text == self._texts.get(token)

    def id_of(self, listed: Listed, instead_of: int, /) -> int | None:
        text = listed.text
        if self.respaced:
            text = (" " if self._texts.get(instead_of, "")[:1] == " " else "") + text.strip()
        return self._id(text) if is_ordinary(text) and not looks_special(text.strip()) else None

    def in_a_row(self, texts: Sequence[str]) -> tuple[Token, ...]:
        """Pieces that follow each other from 0 on."""
        tokens: list[Token] = []
        for text in texts:
            tokens.append(self._token(text, tokens[-1].end if tokens else 0))
        return tuple(tokens)

    def remember(self, text: str) -> None:
        """Know any piece of a text again: an explanation from a file has ids, whose pieces another run has cut."""
        for start in range(len(text)):
            for end in range(start + 1, min(start + LONGEST, len(text)) + 1):
                self._once_said.setdefault(_id_of(text[start:end]), text[start:end])

    def role(self, name: str, text: str, start: int, marker: int | None = None) -> Token:
        """The beginning of a message; `text` is what stands between it and the one before."""
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
