"""Readable forms of tokens, which every view uses.

There are two forms. *Running text* is the prompt and the completion, split at tokens or larger units, but never
inside a character: tokens that share a character are drawn as one piece. In a chat it contains the messages and
their roles; the text of the chat template is shown separately. Source and output of an encoder–decoder are set apart
in the same way. A *label* names one token outside its text, in a
table or beside an axis. It shows spaces and newlines, and it numbers the tokens that together encode one character.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, takewhile
from unicodedata import bidirectional, category

import regex

from reagent.explanation import Explanation, Message, Token

SPACE, NEWLINE, TAB = "·", "⏎", "⇥"
MANY_SPACES = 4
ASSISTANT, ROLE_LENGTH = "assistant", 24  # the role of the completion; the maximum length of a role and a tool
SOURCE, OUTPUT = "source", "output"  # the two texts of an encoder–decoder
LONGEST_CHARACTER = 32  # code points of a grapheme; longer ones are not language
CUT = "⟨…⟩"  # a character of which only the first bytes were generated

# Bidirectional classes of the format characters that change the layout or hide text. Other format characters
# are visible (Arabic number signs), or they are harmless and needed (direction marks, joiners).
_LAYOUT_CONTROLS = {"BN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_JOINERS = "\u200c\u200d"
_INVISIBLE = {*_JOINERS, "\u200e", "\u200f", "\u061c", *map(chr, range(0xFE00, 0xFE10))}  # + variation selectors

# The flag of a region such as England: a black flag, the code of the region in invisible tags, and an end tag.
_REGION_FLAG = regex.compile(r"(\U0001F3F4[\U000E0030-\U000E0039\U000E0061-\U000E007A]{3,6}\U000E007F)")

# Text that is drawn as one shape: a grapheme cluster, and the next one if both form an Indic conjunct or if their
# letters join, as in Arabic. The viramas are those of rule GB9c of UAX #29, which \X does not have yet.
_AFTER_VIRAMA = r"(?<=[\u094D\u09CD\u0ACD\u0B4D\u0C4D\u0D4D]\u200D?)(?=\p{L})"
_BETWEEN_JOINED = r"(?<=[\p{jt=D}\p{jt=L}\p{jt=C}]\p{jt=T}*)(?=[\p{jt=D}\p{jt=R}\p{jt=C}])"
_SHAPE = regex.compile(rf"\X(?:(?:{_AFTER_VIRAMA}|{_BETWEEN_JOINED})\X)*")
_EMOJI = regex.compile(r"(?=\p{Extended_Pictographic})\X")


class Kind(StrEnum):
    """The kinds of pieces of running text."""

    TOKEN = "token"
    SPECIAL = "special"  # a token outside the text, or a control token that the user wrote
    GAP = "gap"  # text that belongs to no token
    ROLE = "role"  # the author of the chat message that follows, or the name of the text that follows


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the running text; `positions` count the tokens of the prompt, then those of the output.

    A piece has several positions if its tokens share a character or letters that join.
    """

    text: str
    kind: Kind
    positions: tuple[int, ...]


def sanitize(text: str) -> str:
    r"""Replace control characters and hidden characters by visible ones, except newline, tab and parts of flags.

    >>> sanitize("a\x1b[31m\u202eb\n")
    'a␛[31m⟨U+202E⟩b\n'
    """
    if text.isprintable():
        return text
    parts = _REGION_FLAG.split(text)  # each second part is a flag
    return "".join(part if i % 2 else "".join(map(_sanitize_character, part)) for i, part in enumerate(parts))


def mark_cut(text: str) -> str:
    """Mark the end of a generated text that was cut inside a character.

    >>> mark_cut("दिल्\N{REPLACEMENT CHARACTER}")
    'दिल्⟨…⟩'
    """
    complete = text.rstrip("\N{REPLACEMENT CHARACTER}")
    return text if complete == text else complete + CUT


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


def labels(tokens: Sequence[Token], text: str) -> list[str]:
    """Label each token of the text; the parts of a character or of an emoji get its name and a number."""
    names = _name_by_emoji(tokens, text)
    return [
        label(token) if count == 1 else f"{label(token)} ({number}/{count})"
        for token, (number, count) in zip(names, _number_pieces(names), strict=True)
    ]


def all_labels(explanation: Explanation) -> list[str]:
    """Label each unit of the prompt, then each unit of the output; words have no marks of the spaces around them.

    A message of a chat has its role before it. The labels are computed once for each explanation, since every row of
    a view needs them.
    """
    known = vars(explanation)  # not a field: equality, `replace` and the JSON form do not see it
    if "_labels" not in known:
        known["_labels"] = _label_all(explanation)
    names: list[str] = known["_labels"]
    return names


def _label_all(explanation: Explanation) -> list[str]:
    names = labels(explanation.input, explanation.prompt)
    if explanation.unit == "message":
        at = _Overlaps(explanation.messages)
        names = [
            _label_message([explanation.messages[i] for i in at.find(unit)], unit, name)
            for unit, name in zip(explanation.input, names, strict=True)
        ]
    names = names + labels(explanation.output, explanation.completion)
    return names if explanation.unit == "token" else [name.strip(SPACE) or name for name in names]


def split_into_pieces(explanation: Explanation) -> list[Piece]:
    """Split the prompt, then the completion, at tokens but not inside characters; the pieces are the whole text.

    In a chat, each message follows its role, and the template around the messages is left out. The source and the
    output of an encoder–decoder each follow their name, and special tokens around them are left out.
    """
    prompt, units, messages = explanation.prompt, list(enumerate(explanation.input)), explanation.messages
    controls = frozenset(explanation.control_tokens)
    pieces = [] if messages else _split(prompt, units, controls=controls)
    if explanation.has_separate_output and not messages:
        outside = {(i,) for i, unit in units if unit.end <= unit.start}
        source = (piece for piece in pieces if piece.positions not in outside)
        pieces = [_role_piece(SOURCE), *source, _role_piece(OUTPUT)]
    at = _Overlaps(explanation.input)
    for message in messages:
        pieces.append(_role_piece(role_name(message)))
        inside = [units[i] for i in at.find(message)]
        pieces += _split(prompt[: message.end], inside, message.start, controls)
    is_prefilled = messages and messages[-1].role == ASSISTANT and messages[-1].end >= len(prompt.rstrip())
    if messages and not is_prefilled:
        pieces.append(_role_piece(ASSISTANT))
    return pieces + _split(explanation.completion, enumerate(explanation.output, start=len(units)), controls=controls)


def pieces_before(position: int, pieces: Sequence[Piece]) -> list[Piece]:
    """Take the running text before the piece that contains the token at `position`."""
    return list(takewhile(lambda piece: position not in piece.positions, pieces))


def sum_weights(pieces: Iterable[Piece], weights: Sequence[float]) -> dict[tuple[int, ...], float]:
    """Sum the weights of the tokens of each piece, by its positions."""
    return {piece.positions: sum(weights[i] for i in piece.positions) for piece in pieces if piece.positions}


def role_name(message: Message) -> str:
    """Name the author of a message: its role, and the tool that gave it.

    >>> role_name(Message("user", 0, 5)), role_name(Message("tool", 0, 5, name="read_mail"))
    ('user', 'tool read_mail')
    """
    return shorten(" ".join(sanitize(f"{message.role} {message.name or ''}").split()), ROLE_LENGTH)


def template_text(explanation: Explanation) -> str:
    """Return the text that the chat template adds around the messages, with an ellipsis for each message."""
    ends = [0, *(message.end for message in explanation.messages)]
    starts = [*(message.start for message in explanation.messages), len(explanation.prompt)]
    parts = [explanation.prompt[end:start] for end, start in zip(ends, starts, strict=True)]
    is_empty = not explanation.messages or not "".join(parts).strip()
    return "" if is_empty else sanitize("…".join(parts).strip())


def template_positions(explanation: Explanation) -> frozenset[int]:
    """Find the positions of tokens around the text: of a chat template, or between source and output."""
    messages, is_separate = _Overlaps(explanation.messages), explanation.has_separate_output
    return frozenset(
        i
        for i, unit in enumerate(explanation.input)
        if unit.protected
        and ((explanation.messages and not messages.find(unit)) or (is_separate and unit.start == unit.end))
    )


def shorten(text: str, length: int) -> str:
    """Keep the beginning and the end, in at most `length` characters (graphemes), cut between words if possible.

    >>> shorten("She rents a small flat in the capital of Japan.", 24)
    'She rents a … Japan.'
    """
    reach = LONGEST_CHARACTER * length
    ends = text if len(text) <= 2 * reach else text[:reach] + text[-reach:]  # the rest is left out in any case
    characters = regex.findall(r"\X", ends) if len(text) > length else []
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


def _split(
    text: str, tokens: Iterable[tuple[int, Token]], start: int = 0, controls: frozenset[str] = frozenset()
) -> list[Piece]:
    """Split the text from `start` at the tokens, but not inside a shape. Control tokens in the text are special."""
    boundaries = {start, *(start + shape.end() for shape in _SHAPE.finditer(text[start:]))}
    pieces: list[Piece] = []

    def add(begin: int, end: int, kind: Kind, *positions: int) -> None:
        inside = next((i for i in range(begin, end) if i in boundaries), end)
        _append(pieces, Piece(text[begin:end], kind, positions), inside - begin)

    shown = start  # the end of the text in the pieces so far
    for position, token in tokens:
        if token.end <= token.start:
            pieces.append(Piece(label(token), Kind.SPECIAL, (position,)))
            continue
        if token.start > shown:
            add(shown, token.start, Kind.GAP)
        # A byte token may contain a space and the first byte of a character, so spans can overlap in part.
        kind = Kind.SPECIAL if token.protected and token.text.strip() in controls else Kind.TOKEN
        add(max(shown, token.start), max(shown, token.end), kind, position)
        shown = max(shown, token.end)
    if shown < len(text):
        add(shown, len(text), Kind.GAP)
    return [replace(piece, text=sanitize(piece.text)) for piece in pieces]


def _append(pieces: list[Piece], piece: Piece, inside: int) -> None:
    """Append a piece whose first `inside` characters belong to the last shape of the piece before it.

    Parts of words become one piece. A longer unit stays a piece of its own, and loses these characters.
    """
    if not pieces or (piece.text and not inside):
        pieces.append(piece)
        return
    last = pieces[-1]
    if inside == len(piece.text) or (_is_in_word(last) and _is_in_word(piece)):
        kind = piece.kind if last.kind is Kind.GAP else last.kind
        pieces[-1] = Piece(last.text + piece.text, kind, last.positions + piece.positions)
    else:
        pieces[-1:] = replace(last, text=last.text + piece.text[:inside]), replace(piece, text=piece.text[inside:])


def _is_in_word(piece: Piece) -> bool:
    return piece.kind is Kind.TOKEN and len(piece.text.split()) < 2


class _Overlaps:
    """Finds the spans that overlap another one; in a file, spans can have any order."""

    def __init__(self, spans: Sequence[Message | Token]) -> None:
        self.spans = spans
        self.reached = list(accumulate((span.end for span in spans), max))  # ascending, as is the next list
        self.ahead = list(accumulate((span.start for span in reversed(spans)), min))[::-1]

    def find(self, other: Message | Token) -> list[int]:
        candidates = range(bisect_right(self.reached, other.start), bisect_left(self.ahead, other.end))
        return [i for i in candidates if self.spans[i].start < other.end and self.spans[i].end > other.start]


def _label_message(messages: Sequence[Message], unit: Token, name: str) -> str:
    return f"{role_name(messages[0])}: {name}" if messages and not unit.protected else name


def _role_piece(name: str) -> Piece:
    return Piece(name, Kind.ROLE, ())


def _name_by_emoji(tokens: Sequence[Token], text: str) -> list[Token]:
    """Extend tokens that are parts of an emoji to the whole of it, because most of its code points are invisible."""
    spans = {i: emoji.span() for emoji in _EMOJI.finditer(text) for i in range(*emoji.span())}
    extended = []
    for token in tokens:
        start, _ = spans.get(token.start, (token.start, 0))
        _, end = spans.get(token.end - 1, (0, token.end))
        changed = token.start < token.end and (start, end) != (token.start, token.end)
        extended.append(replace(token, text=text[start:end], start=start, end=end) if changed else token)
    return extended


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
