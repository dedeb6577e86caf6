"""How tokens are made readable; every view uses this.

Two forms. *Running text* is what a person reads: the prompt and the completion as they are, cut at
tokens (or at larger units), and of a chat only what was said and by whom. A *label* names one token
outside its text, in a table or beside an axis, so spaces and newlines become visible and the pieces of
one character are told apart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from unicodedata import bidirectional, category

import regex

from reagent.explanation import Explanation, Message, Token

SPACE, NEWLINE, TAB = "·", "⏎", "⇥"
CONTINUED = "⁺"  # stands for a later piece of a character that was already shown
MANY_SPACES = 4
ANSWERS, ROLE_LENGTH = "assistant", 16  # the role of the completion; the characters that a role may have

# Format characters that steer the layout or hide text. The others of their category are either
# visible (Arabic number signs) or harmless and needed (marks of direction, joiners).
_STEERING = {"BN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_JOINERS = "\u200c\u200d"
_INVISIBLE = {*_JOINERS, "\u200e", "\u200f", "\u061c", *map(chr, range(0xFE00, 0xFE10))}  # + variation selectors


class Kind(StrEnum):
    TOKEN = "token"
    CONTINUED = "continued"  # a later piece of a character
    SPECIAL = "special"  # a token that stands outside the text
    GAP = "gap"  # text that belongs to no token
    ROLE = "role"  # who says what follows, in a chat


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of running text; `position` counts through the prompt's tokens, then the output's."""

    text: str
    kind: Kind
    position: int | None


def visible(text: str) -> str:
    r"""The text with everything replaced that could steer a terminal or hide; newline and tab stay.

    >>> visible("a\x1b[31m\u202eb\n")
    'a␛[31m⟨U+202E⟩b\n'
    """
    return "".join(map(_visible, text))


def label(token: Token) -> str:
    r"""A name for one token that shows its spaces and newlines.

    >>> label(Token(ids=(1,), text=" Japan\n", start=0, end=7))
    '·Japan⏎'
    """
    return quoted(token.text) or "#" + ",".join(map(str, token.ids))


def quoted(text: str) -> str:
    """The same for a text that is no token: nothing for nothing, and no spaces around several words."""
    text = text.strip() if len(text.split()) > 1 else text
    text = visible(text).replace("\n", NEWLINE).replace("\t", TAB)
    if text and _INVISIBLE.issuperset(text):
        return " ".join(f"U+{ord(character):04X}" for character in text)
    body = text.strip()
    before = _spaces(len(text) - len(text.lstrip()))
    after = _spaces(len(text) - len(text.rstrip())) if body else ""
    if body and category(body[0]).startswith("M"):
        body = "◌" + body  # a combining mark needs something to sit on
    return before + body + after


def labels(tokens: Sequence[Token]) -> list[str]:
    """One label for each token of a text."""
    return [
        label(token) if of == 1 else f"{label(token)} ({number}/{of})"
        for token, (number, of) in zip(tokens, _piece_numbers(tokens), strict=True)
    ]


def all_labels(explanation: Explanation) -> list[str]:
    """One label for each token of the prompt, then one for each token of the output."""
    return labels(explanation.input) + labels(explanation.output)


def running(explanation: Explanation) -> list[Piece]:
    """The prompt, then the completion, cut at tokens; nothing of the two texts is lost or shown twice.

    Of a chat, each message follows its role, and the template around the messages is left out.
    """
    prompt, units, messages = explanation.prompt, list(enumerate(explanation.input)), explanation.messages
    pieces = [] if messages else [*_cut(prompt, units)]
    for message in messages:
        pieces.append(_role(message.role))
        pieces += _cut(prompt[: message.end], [(i, unit) for i, unit in units if _said(message, unit)], message.start)
    goes_on = messages and messages[-1].role == ANSWERS and messages[-1].end >= len(prompt.rstrip())
    if messages and not goes_on:
        pieces.append(_role(ANSWERS))
    return [*pieces, *_cut(explanation.completion, enumerate(explanation.output, start=len(units)))]


def before(position: int, pieces: Sequence[Piece]) -> list[Piece]:
    """The running text up to a token."""
    return list(takewhile(lambda piece: piece.position != position, pieces))


def template(explanation: Explanation) -> frozenset[int]:
    """The positions of what a chat's template adds around the messages."""
    return frozenset(
        i
        for i, unit in enumerate(explanation.input)
        if unit.protected and explanation.messages and not any(_said(message, unit) for message in explanation.messages)
    )


def shortened(text: str, length: int) -> str:
    """At most `length` characters, as a reader counts them: the beginning and the end, cut between words if possible.

    >>> shortened("She rents a small flat in the capital of Japan.", 24)
    'She rents a … Japan.'
    """
    characters = regex.findall(r"\X", text) if len(text) > length else []
    if len(characters) <= length:
        return text
    after = (length - 1) // 3
    head = "".join(characters[: length - 1 - after])
    tail = "".join(characters[len(characters) - after :])
    words, space, _ = head.rpartition(" ")
    _, gap, ending = tail.partition(" ")
    head = words + space if 3 * len(words) > len(head) else head
    tail = gap + ending if 3 * len(ending) > len(tail) else tail
    return f"{head}…{tail}"


def _cut(text: str, tokens: Iterable[tuple[int, Token]], shown: int = 0) -> Iterator[Piece]:
    """The text from `shown`, which grows with what is already out."""
    for position, token in tokens:
        if token.end <= token.start:
            yield Piece(label(token), Kind.SPECIAL, position)
            continue
        if token.start > shown:
            yield Piece(visible(text[shown : token.start]), Kind.GAP, None)
        # A byte token may hold a space and the first byte of a character, so spans can also overlap in part.
        new = text[max(shown, token.start) : token.end]
        yield Piece(visible(new) or CONTINUED, Kind.TOKEN if new else Kind.CONTINUED, position)
        shown = max(shown, token.end)
    if shown < len(text):
        yield Piece(visible(text[shown:]), Kind.GAP, None)


def _said(message: Message, unit: Token) -> bool:
    return unit.start < message.end and unit.end > message.start


def _role(name: str) -> Piece:
    return Piece(shortened(" ".join(visible(name).split()), ROLE_LENGTH), Kind.ROLE, None)


def _piece_numbers(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """For each token, which piece it is of how many: tokens whose spans overlap share a character."""
    groups: list[int] = []
    end = 0
    for token in tokens:
        if groups and token.start < min(end, token.end):
            groups[-1] += 1
        else:
            groups.append(1)
        end = token.end
    return [(number, size) for size in groups for number in range(1, size + 1)]


def _visible(character: str) -> str:
    if character in "\n\t":
        return character
    match category(character):
        case "Cc" if character < "\x20":
            return chr(0x2400 + ord(character))
        case "Cc" if character == "\x7f":
            return "␡"
        case "Cs":  # half of a surrogate pair: no encoding can write it
            return "�"
        case "Cf" if character in _JOINERS or bidirectional(character) not in _STEERING:
            return character
        case "Cc" | "Cf" | "Zl" | "Zp":
            return f"⟨U+{ord(character):04X}⟩"
    return character


def _spaces(count: int) -> str:
    return SPACE * count if count < MANY_SPACES else f"{SPACE}×{count}"
