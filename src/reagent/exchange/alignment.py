"""Where the pieces of another tool are in a text.

Tools name a piece by its text, without its place. The pieces are looked up one after another, as bytes, because a piece
may be a part of a character. Tools write spaces and bytes in several ways: as they are, with `▁` for a space, in the
alphabet of GPT-2 (`Ġ` for a space), as `<0x0A>`; and some leave spaces out.
"""

import re
from collections.abc import Iterator, Sequence

from reagent.errors import InputError
from reagent.segmentation import Span

_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]|")  # a token that is not part of the text
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_OVERLAP = " [OVERLAP]"  # captum marks a further token of one character with it
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_ALPHABET = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in _PRINTABLE)
}  # the character that GPT-2 writes for each byte


def find_pieces(text: str, pieces: Sequence[str], gaps: bool = False) -> list[Span | None]:
    """The characters of each piece; None for a special token, which is not part of the text.

    Pieces follow each other, with spaces or, with `gaps`, any text between them. All of the text must be covered.

    >>> find_pieces("Say é!", ["<s>", "Say", "ĠÃ", "©", "!"])
    [None, (0, 3), (3, 5), (4, 5), (5, 6)]
    """
    data = text.encode("utf-8", "surrogatepass")
    spans, cursor = list[Span | None](), 0
    for number, piece in enumerate(pieces):
        found = _find(data, cursor, piece, gaps)
        if found is None and _SPECIAL.fullmatch(piece.strip()) is None:
            rest = data[cursor:].decode("utf-8", "replace")
            raise InputError(
                f"piece {number} of the text, {_short(piece)}, is not where it is expected, at {_short(rest)}: the "
                "attributions must be of this text"
            )
        spans.append(found)
        cursor = cursor if found is None else found[1]
    if data[cursor:].strip() and not gaps:
        rest = data[cursor:].decode("utf-8", "replace")
        raise InputError(f"no piece covers the end of the text, {_short(rest)}: the attributions must be of this text")
    characters = _characters(text)
    return [None if span is None else (characters[span[0]], characters[span[1] - 1] + 1) for span in spans]


def join_pieces(pieces: Sequence[str]) -> str:
    """The text of all pieces, without special tokens and in plain characters.

    >>> join_pieces(["<s>", "Say", "ĠÃ", "©", "!"]), join_pieces(["▁Say", "▁é!"]), join_pieces(["Say", " é!"])
    ('Say é!', 'Say é!', 'Say é!')
    """
    text = "".join(piece for piece in pieces if _SPECIAL.fullmatch(piece.strip()) is None)
    if all(character in _ALPHABET for character in text) and set(text) & {"Ġ", "Ċ"}:
        return bytes(_ALPHABET[character] for character in text).decode("utf-8", "replace")
    return text.replace("▁", " ").removeprefix(" ") if "▁" in text else text


def _find(data: bytes, cursor: int, piece: str, gaps: bool) -> Span | None:
    """The bytes of a piece at the cursor: exactly, after spaces, as a repeated character, or, with `gaps`, later."""
    forms = [form for form in _forms(piece) if form]
    for form in forms:
        if data.startswith(form, cursor):
            return cursor, cursor + len(form)
    bare = [form.strip() for form in forms if form.strip()]
    after_spaces = len(data) - len(data[cursor:].lstrip())
    for form in bare:
        if data.startswith(form, after_spaces):
            return cursor, after_spaces + len(form)
        if data[:cursor].endswith(form) and is_long_character(form):  # some tools repeat it for each of its tokens
            return cursor - len(form), cursor
    places = [(data.find(form, cursor), len(form)) for form in bare] if gaps else []
    return min(((at, at + length) for at, length in places if at >= 0), default=None)


def _forms(piece: str) -> Iterator[bytes]:
    """What a piece may stand for."""
    if match := _BYTE.fullmatch(piece):
        yield bytes([int(match[1], 16)])
    piece = piece.removesuffix(_OVERLAP)
    yield piece.encode("utf-8", "surrogatepass")
    if all(character in _ALPHABET for character in piece):
        yield bytes(_ALPHABET[character] for character in piece)
    yield piece.replace("▁", " ").encode("utf-8", "surrogatepass")
    yield piece.replace("\\n", "\n").encode("utf-8", "surrogatepass")


def is_long_character(form: bytes) -> bool:
    """Whether these bytes are one character of several bytes."""
    return len(form) > 1 and len(form.decode("utf-8", "replace")) == 1


def _characters(text: str) -> list[int]:
    """The character that each byte belongs to."""
    return [i for i, character in enumerate(text) for _ in character.encode("utf-8", "surrogatepass")]


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:30] + "…")
