"""Readable forms of tokens, which every view uses.

There are two forms. *Running text* is the prompt and the completion, split at tokens or larger units.
In a chat it contains the messages and their roles, and not the chat template. A *label* names one token
outside its text, in a table or beside an axis. It shows spaces and newlines, and it numbers the tokens
that together encode one character.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from unicodedata import bidirectional, category

import regex

from reagent.explanation import Explanation, Message, Token

SPACE, NEWLINE, TAB = "·", "⏎", "⇥"
CONTINUED = "⁺"  # a later token of a character that is already shown
MANY_SPACES = 4
ASSISTANT, ROLE_LENGTH = "assistant", 16  # the role of the completion; the maximum length of a role

# Bidirectional classes of the format characters that change the layout or hide text. Other format characters
# are visible (Arabic number signs), or they are harmless and needed (direction marks, joiners).
_LAYOUT_CONTROLS = {"BN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_JOINERS = "\u200c\u200d"
_INVISIBLE = {*_JOINERS, "\u200e", "\u200f", "\u061c", *map(chr, range(0xFE00, 0xFE10))}  # + variation selectors


class Kind(StrEnum):
    """The kinds of pieces of running text."""

    TOKEN = "token"
    CONTINUED = "continued"  # a later token of a character
    SPECIAL = "special"  # a token outside the text
    GAP = "gap"  # text that belongs to no token
    ROLE = "role"  # the author of the chat message that follows


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the running text; `position` counts the tokens of the prompt, then those of the output."""

    text: str
    kind: Kind
    position: int | None


def sanitize(text: str) -> str:
    r"""Replace control characters and hidden characters by visible ones, except newline and tab.

    >>> sanitize("a\x1b[31m\u202eb\n")
    'a␛[31m⟨U+202E⟩b\n'
    """
    return "".join(map(_sanitize_character, text))


def label(token: Token) -> str:
    r"""Name one token so that its spaces and newlines are visible.

    >>> label(Token(ids=(1,), text=" Japan\n", start=0, end=7))
    '·Japan⏎'
    """
    return mark_whitespace(token.text) or "#" + ",".join(map(str, token.ids))


def mark_whitespace(text: str) -> str:
    """Make the spaces and newlines of a text visible; several words lose the spaces around them."""
    text = text.strip() if len(text.split()) > 1 else text
    text = sanitize(text).replace("\n", NEWLINE).replace("\t", TAB)
    if text and _INVISIBLE.issuperset(text):
        return " ".join(f"U+{ord(character):04X}" for character in text)
    body = text.strip()
    leading = _space_marks(len(text) - len(text.lstrip()))
    trailing = _space_marks(len(text) - len(text.rstrip())) if body else ""
    if body and category(body[0]).startswith("M"):
        body = "◌" + body  # a combining mark needs a base character
    return leading + body + trailing


def labels(tokens: Sequence[Token]) -> list[str]:
    """Label each token of a text."""
    return [
        label(token) if count == 1 else f"{label(token)} ({number}/{count})"
        for token, (number, count) in zip(tokens, _number_pieces(tokens), strict=True)
    ]


def all_labels(explanation: Explanation) -> list[str]:
    """Label each token of the prompt, then each token of the output."""
    return labels(explanation.input) + labels(explanation.output)


def split_into_pieces(explanation: Explanation) -> list[Piece]:
    """Split the prompt, then the completion, at tokens; the pieces contain each character once.

    In a chat, each message follows its role, and the template around the messages is left out.
    """
    prompt, units, messages = explanation.prompt, list(enumerate(explanation.input)), explanation.messages
    pieces = [] if messages else [*_split(prompt, units)]
    for message in messages:
        pieces.append(_role_piece(message.role))
        inside = [(i, unit) for i, unit in units if _overlaps(message, unit)]
        pieces += _split(prompt[: message.end], inside, message.start)
    is_prefilled = messages and messages[-1].role == ASSISTANT and messages[-1].end >= len(prompt.rstrip())
    if messages and not is_prefilled:
        pieces.append(_role_piece(ASSISTANT))
    return [*pieces, *_split(explanation.completion, enumerate(explanation.output, start=len(units)))]


def pieces_before(position: int, pieces: Sequence[Piece]) -> list[Piece]:
    """Take the running text before the token at `position`."""
    return list(takewhile(lambda piece: piece.position != position, pieces))


def template_positions(explanation: Explanation) -> frozenset[int]:
    """Find the positions of the tokens that a chat template adds around the messages."""
    return frozenset(
        i
        for i, unit in enumerate(explanation.input)
        if unit.protected
        and explanation.messages
        and not any(_overlaps(message, unit) for message in explanation.messages)
    )


def shorten(text: str, length: int) -> str:
    """Keep the beginning and the end, in at most `length` characters (graphemes), cut between words if possible.

    >>> shorten("She rents a small flat in the capital of Japan.", 24)
    'She rents a … Japan.'
    """
    characters = regex.findall(r"\X", text) if len(text) > length else []
    if len(characters) <= length:
        return text
    tail_length = (length - 1) // 3
    head = "".join(characters[: length - 1 - tail_length])
    tail = "".join(characters[len(characters) - tail_length :])
    words, space, _ = head.rpartition(" ")
    _, gap, ending = tail.partition(" ")
    head = words + space if 3 * len(words) > len(head) else head
    tail = gap + ending if 3 * len(ending) > len(tail) else tail
    return f"{head}…{tail}"


def _split(text: str, tokens: Iterable[tuple[int, Token]], start: int = 0) -> Iterator[Piece]:
    """Split the text from `start` at the tokens."""
    shown = start  # the end of the text in the pieces so far
    for position, token in tokens:
        if token.end <= token.start:
            yield Piece(label(token), Kind.SPECIAL, position)
            continue
        if token.start > shown:
            yield Piece(sanitize(text[shown : token.start]), Kind.GAP, None)
        # A byte token may contain a space and the first byte of a character, so spans can overlap in part.
        new = text[max(shown, token.start) : token.end]
        yield Piece(sanitize(new) or CONTINUED, Kind.TOKEN if new else Kind.CONTINUED, position)
        shown = max(shown, token.end)
    if shown < len(text):
        yield Piece(sanitize(text[shown:]), Kind.GAP, None)


def _overlaps(message: Message, unit: Token) -> bool:
    return unit.start < message.end and unit.end > message.start


def _role_piece(name: str) -> Piece:
    return Piece(shorten(" ".join(sanitize(name).split()), ROLE_LENGTH), Kind.ROLE, None)


def _number_pieces(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return (number, count) of each token within its character; tokens with overlapping spans share one."""
    groups: list[int] = []
    end = 0
    for token in tokens:
        if groups and token.start < min(end, token.end):
            groups[-1] += 1
        else:
            groups.append(1)
        end = token.end
    return [(number, size) for size in groups for number in range(1, size + 1)]


def _sanitize_character(character: str) -> str:
    if character in "\n\t":
        return character
    match category(character):
        case "Cc" if character < "\x20":
            return chr(0x2400 + ord(character))
        case "Cc" if character == "\x7f":
            return "␡"
        case "Cs":  # half of a surrogate pair, which no encoding can write
            return "�"
        case "Cf" if character in _JOINERS or bidirectional(character) not in _LAYOUT_CONTROLS:
            return character
        case "Cc" | "Cf" | "Zl" | "Zp":
            return f"⟨U+{ord(character):04X}⟩"
    return character


def _space_marks(count: int) -> str:
    return SPACE * count if count < MANY_SPACES else f"{SPACE}×{count}"
