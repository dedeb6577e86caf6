"""Split a text into words, sentences, paragraphs, or parts that the user marks.

A unit is a span of characters. Words, sentences and paragraphs cover the text without gaps and without overlap. White
space belongs to the unit that follows it, as in tokens; at the end of the text it belongs to the last unit. A grapheme
cluster (an emoji sequence, a letter and its accents) is never split.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple

import regex

from reagent.atomic_io import read_json
from reagent.errors import FileError, InputError

Span = tuple[int, int]


# --- words -----------------------------------------------------------------------------------------------

_WORD_EDGE = regex.compile(r"(?w)\b|(?=:)|(?<=[:\u20e3])")
_SAME_MARKS = regex.compile(r"(?V1)([\p{Po}\p{Pd}\p{Sm}--['\"]])\1+")


def split_words(text: str) -> list[Span]:
    """Words as Unicode defines them (UAX 29); each punctuation mark is a unit of its own.

    Two rules differ from the standard: a run of the same mark is one unit (`...`, `==`), and a word ends at a colon or
    a keycap. There is no dictionary for scripts without spaces: Han and Hiragana are split into characters, Thai and
    similar scripts into consonants with their vowels and tones.

    >>> text = "Don't pay 3.50... for naïve_code!"
    >>> [text[start:end] for start, end in split_words(text)]
    ["Don't", ' pay', ' 3.50', '...', ' for', ' naïve_code', '!']
    """
    cuts = {edge.start() for edge in _WORD_EDGE.finditer(text)}
    for run in _SAME_MARKS.finditer(text):
        cuts.difference_update(range(run.start() + 1, run.end()))
    return _tile(text, cuts)


# --- paragraphs ------------------------------------------------------------------------------------------

_BREAK = regex.compile(r"\r\n|[\n\v\f\r\x85\u2028\u2029]")
_LINE = regex.compile(r"\S(?:[^\n\v\f\r\x85\u2028\u2029]*\S)?")  # without the white space around it


def split_paragraphs(text: str) -> list[Span]:
    r"""Parts of the text that are separated by blank lines.

    >>> split_paragraphs("one\ntwo\n\nthree\n")
    [(0, 7), (7, 15)]
    """
    return _tile(text, (line.before for line in _find_lines(text) if line.after_blank))


# --- sentences -------------------------------------------------------------------------------------------

# The kind of a line, by the first pattern that matches. A line that matches _UNSPLIT is one unit.
_FENCE = regex.compile(r"```|~~~")
_UNSPLIT = regex.compile(
    r"""(?x)
      \#{1,6}\s | \|.*\|$ | (?:[-=*_]\ ?){3,}$                                        # heading, table, rule
    | >>>\s | \$\s[a-z] | // | /\* | \*/ | \#! | \#(?:include|define)\b               # shell, comment
    | [\[\](){}]+[;,]?$ | .*\{$ | .*[\])}"'\d]\s?;$ | ["']\w+["']\s*:\s               # brackets, JSON
    | @[\w.]+(?:\(.*\))?$ | [\w.]+\(.*\)[;:,]?$                                       # decorator, call
    | [a-zA-Z_][\w.]*(?:\[[^\]]*\])*\s*[-+*/%|&^:]?=\s*\S | [a-z_]\w*:\s[\w.\[\]|]+\s=\s   # assignment
    | (?:const|let|var)\s+\w+\s*= | (?:return|static|public|private|int|float|double|char|void|bool)\s.*;$
    | (?:async\s|export\s)?(?:def|fn|func|function)\s+\w+\s*[<(]                      # definition
    | (?:class|if|elif|for|while|with|except|match|case)\s.*:$ | (?:else|try|finally):
    | import\s+[\w.]+(?:\s+as\s+\w+)?;?$ | (?:from\s+[\w.]+\s+import|import\s.+\sfrom)\s
    """
)
_ITEM = regex.compile(
    r"""(?x)
      (?: [-*+•‣◦▪·] | [–—](?=\s+\P{Ll}) | [(\[]?(?:\d{1,3}|\p{L}|[ivx]+|[IVX]+)[.)\]] ) (?:\s|$)
    | \d{1,3}[、．]
    """
)
_INDENTED = regex.compile(r"\t|\s\s")

# The beginning of a line.
_OPENING = r"""[\p{Ps}\p{Pi}"'*_`¿¡]*"""
_LOWER = regex.compile(_OPENING + r"\p{Ll}")
_CAPITAL = regex.compile(_OPENING + r"[\p{Lu}\p{Lt}\p{N}]")
_LABEL = regex.compile(r"\p{Lu}[^.!?:]{0,30}:(?:\s|$)")
_WRAPPED = range(60, 101)  # lengths of a line of wrapped text

# Stops, and the quotes or brackets that close after them: `.`, `?!`, `. . .`, `.)`, `?).`, `.“`, `. »`, `.[2]`.
_MARK = r"(?:[.…\p{SB=STerm}]|．(?!\d))\p{M}*"
_CLOSING = r"""[\p{Pe}\p{Pf}"'*_`]|[«“‘](?=\s|$|\p{P})|[ \xa0\u202f]»|\[\d+\]"""
_STOP = regex.compile(rf"{_MARK}(?:{_MARK}| [.!?…]++(?!\w)|{_CLOSING})*+")
_UNCLOSED = regex.compile(rf"{_MARK}$")
_UNSPACED = regex.compile(r"(?V1)[\p{SB=STerm}--[!?]]|．")  # stops that need no space after them
_IDEOGRAPH = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_QUOTATIVE = regex.compile(r"と|って|[、，,]")  # 「行こう。」と言った is one sentence
_NEXT = regex.compile(rf"(?P<gap>\s*){_OPENING}(?P<word>[\p{{L}}\p{{M}}\p{{N}}]*)(?P<dot>\.?)")
_BEFORE = regex.compile(r"(?r)[\p{L}\p{M}\p{N}.]*")

# Abbreviations, without the final stop.
_TITLE = regex.compile("mr|mrs|ms|dr|prof|gen|col|sgt|capt|lt|cmdr|rev|hon|pres|gov|sen|rep|mme|mlle|mt|ft")
_NEVER_LAST = regex.compile(r"e\.g|i\.e|cf|vs|v|viz|approx|ca|bzw|z\.b|d\.h")
_NUMBERED = regex.compile("nos?|nr|figs?|eqs?|sec|ch|chap|vol|art|pp?|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec")
_SELDOM_LAST = regex.compile(r"st|inc|ltd|co|corp|bros|jr|sr|ave|blvd|rd|al|ph\.d|\p{L}(?:\.\p{L})+")
_STARTER = regex.compile(
    "an?|the|this|that|these|those|i|you|he|she|it|we|they|my|your|his|her|its|our|their|there|here|and|but|or|so"
    "|then|however|also|if|when|while|after|before|since|although|because|as|in|on|at|for|from|to|what|who|why"
    "|where|how|which|is|are|was|were|do|does|did|can|will|would|not|no|yes|please"
)


def split_sentences(text: str) -> list[Span]:
    """Sentences; each heading, row of a table and line of code is a unit of its own.

    A list item, an indented line and the line after a line that ends with a colon begin a new unit.

    A full stop does not end a sentence before a lower-case letter (unless the text has no capitals at all), after a
    title, an initial or `e.g.`, or between `No.` or `Jan.` and a number. `U.S.`, `Inc.` and initials end a sentence
    only before a word that often begins sentences ("in the U.S. The", but "the U.S. Senate"). `etc.` ends a sentence
    before any capital.

    A new line continues the sentence if it begins in lower case and the line before does not end with a stop. A line
    that begins with a capital continues it if the line before has the length of wrapped text. In scripts without
    capitals a new line begins a new unit.

    >>> text = 'Dr. Wu paid 3.50 (why?) for it. "Odd!" he said. 不会吧！真的。'
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. Wu paid 3.50 (why?) for it.', ' "Odd!" he said.', ' 不会吧！', '真的。']
    """
    lines = _find_lines(text)
    uncased = not any(map(str.isupper, text))
    cuts = []
    for i, line in enumerate(lines):
        if i and not _continues(lines[i - 1], line):
            cuts.append(line.before)
        if line.kind != "unsplit":
            marker = _ITEM.match(line.text)
            start = line.start + (marker.end() if marker else 0)
            cuts += [
                stop.end() for stop in _STOP.finditer(text, start, line.end) if _ends_sentence(text, stop, uncased)
            ]
    return _tile(text, cuts)


_Kind = Literal["unsplit", "item", "indented", "prose"]


class _Line(NamedTuple):
    """A line without the white space around it; `before` is where the line before it ends."""

    before: int
    start: int
    end: int
    text: str
    after_blank: bool  # whether a blank line precedes it
    kind: _Kind


def _find_lines(text: str) -> list[_Line]:
    """All lines that are not blank."""
    lines: list[_Line] = []
    end, fenced, in_item = 0, False, False
    for match in _LINE.finditer(text):
        *breaks, indentation = _BREAK.split(text[end : match.start()])
        indented = bool(_INDENTED.match(indentation))
        after_blank = len(breaks) > 1 and bool(lines)
        fence = bool(_FENCE.match(match[0]))
        kind: _Kind = "prose"
        if fenced or fence or _UNSPLIT.match(match[0]):
            kind = "unsplit"
        elif _ITEM.match(match[0]):
            kind = "item"
        elif indented and not in_item:
            kind = "indented"
        fenced ^= fence
        in_item = kind == "item" or (in_item and kind == "prose" and (indented or not after_blank))
        lines.append(_Line(end, match.start(), match.end(), match[0], after_blank, kind))
        end = match.end()
    return lines


def _continues(line: _Line, following: _Line) -> bool:
    """Whether the sentence of a line continues in the following one."""
    if following.after_blank or following.kind == "item" or {line.kind, following.kind} & {"unsplit", "indented"}:
        return False
    if line.text.endswith((":", "：")):
        return False
    if _LOWER.match(following.text):
        return True
    wrapped = len(line.text) in _WRAPPED and not _LABEL.match(following.text)
    return wrapped and bool(_CAPITAL.match(following.text))


def _ends_sentence(text: str, stop: "regex.Match[str]", uncased: bool) -> bool:
    """Whether a stop ends a sentence; in an `uncased` text, which has no capitals, lower case is no evidence."""
    marks, following = stop[0], _NEXT.match(text, stop.end())
    closed = not _UNCLOSED.search(marks)
    exclaimed = "!" in marks or "?" in marks
    if closed and _QUOTATIVE.match(text, stop.end()):
        return False
    if _UNSPACED.search(marks) or (exclaimed and _IDEOGRAPH.match(text, stop.end())):
        return True
    if not following["gap"]:
        return False
    lower = following["word"][:1].islower() and not _BREAK.search(following["gap"])
    if exclaimed:
        return not (closed and lower)
    word = _BEFORE.match(text, 0, stop.start())[0]
    if not word and marks == ".":  # a stop between spaces, as in tokenised corpora
        return True
    if marks.count(".") == 1 and _is_abbreviation(word, following["word"], following["dot"], uncased):
        return False
    return uncased or not lower


def _is_abbreviation(word: str, following: str, dot: str, uncased: bool) -> bool:
    """Whether the stop after a word only abbreviates it, given the following word and the stop after that one."""
    name = word.casefold()
    if _NEVER_LAST.fullmatch(name) or (_TITLE.fullmatch(name) and (uncased or word[0].isupper())):
        return True
    if _NUMBERED.fullmatch(name) and following[:1].isdigit():
        return True
    initial = len(word) == 1 and word.isupper()
    begins = not dot and _STARTER.fullmatch(following.casefold())
    return bool(initial or _SELDOM_LAST.fullmatch(name)) and not begins


# --- units given by the user -----------------------------------------------------------------------------


def parse_marks(text: str, opening: str = "⟦", closing: str = "⟧") -> tuple[str, list[Span]]:
    """Remove the marks from a text; return the text and the marked spans.

    >>> parse_marks("The ⟦capital⟧ of ⟦Japan⟧ is")
    ('The capital of Japan is', [(4, 11), (15, 20)])
    """
    if not opening or not closing or opening == closing:
        raise InputError(f"marks must be two different strings, not {opening!r} and {closing!r}")
    marks = sorted((opening, closing), key=len, reverse=True)
    pieces: list[str] = []
    spans: list[Span] = []
    length = end = 0
    opened: int | None = None  # the position of the open mark in the given text
    start = 0  # the start of its span in the text without marks
    for mark in regex.finditer("|".join(map(regex.escape, marks)), text):
        pieces.append(text[end : mark.start()])
        length += len(pieces[-1])
        end = mark.end()
        if mark[0] == opening:
            if opened is not None:
                raise InputError(
                    f"{opening!r} at character {mark.start()} is inside the mark opened at character {opened}: "
                    f"close that mark with {closing!r} first; marks cannot be nested"
                )
            opened, start = mark.start(), length
            continue
        if opened is None:
            raise InputError(f"{closing!r} at character {mark.start()} closes nothing: put {opening!r} before it")
        if start == length:
            raise InputError(f"the mark at character {opened} is empty: put text between {opening!r} and {closing!r}")
        spans.append((start, length))
        opened = None
    if opened is not None:
        raise InputError(f"{opening!r} at character {opened} is never closed: put {closing!r} after the part")
    if not spans:
        raise InputError(f"nothing is marked: put {opening!r} and {closing!r} around at least one part of the text")
    return "".join(pieces) + text[end:], spans


def check_spans(spans: Iterable[Any], length: int) -> list[Span]:
    """Check that spans do not overlap and lie inside a text of that length; return them in the order of the text.

    >>> check_spans([(6, 9), (0, 3)], length=9)
    [(0, 3), (6, 9)]
    >>> check_spans([(0, 3), (2, 9)], length=9)
    Traceback (most recent call last):
    reagent.errors.InputError: span (2, 9) overlaps (0, 3): units must not share characters
    """
    checked = sorted(_parse_span(span) for span in spans)
    for start, end in checked:
        if start >= end:
            raise InputError(f"span ({start}, {end}) is empty or reversed: its end must be greater than its start")
        if start < 0 or end > length:
            raise InputError(f"span ({start}, {end}) leaves the text: spans must lie within 0…{length}")
    for one, other in pairwise(checked):
        if other[0] < one[1]:
            raise InputError(f"span {other} overlaps {one}: units must not share characters")
    return checked


def read_spans(path: str | Path) -> list[Span]:
    """Read spans from a JSON file: a list of [start, end], or of objects that have a "start" and an "end"."""
    data = read_json(path, "a list like [[0, 5], [6, 11]]")
    if not isinstance(data, list):
        raise FileError(f"{str(path)!r} holds no list; give one like [[0, 5], [6, 11]]")
    try:
        return [_parse_span(span) for span in data]
    except InputError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def _parse_span(span: Any) -> Span:
    """A span from a pair of whole numbers, or from an object with "start" and "end"."""
    match span:
        case [start, end] | {"start": start, "end": end} if _is_integer(start) and _is_integer(end):
            return int(start), int(end)
    raise InputError(f"{span!r} is not a span: give a pair of whole numbers [start, end]")


def _is_integer(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


# --- from units to tokens --------------------------------------------------------------------------------

UNITS: dict[str, Callable[[str], list[Span]]] = {
    "word": split_words,
    "sentence": split_sentences,
    "paragraph": split_paragraphs,
}


def assign(tokens: Sequence[Span], units: Sequence[Span], text: str) -> list[int | None]:
    """For each token the first unit with which it shares most characters; None if it shares none.

    White space counts only in tokens that contain nothing else. The units must not overlap and must be in the order of
    the text. For tokens in the order of the text, the assigned units are in that order too. Tokens beyond the text, as
    in a damaged file, belong to no unit.

    >>> assign([(0, 0), (0, 3), (3, 9), (10, 12)], units=[(0, 4), (4, 9)], text="The Japan")
    [None, 0, 1, None]
    """
    ends = [end for _, end in units]
    everything = range(len(text) + 1)
    solid = list(accumulate((not character.isspace() for character in text), initial=0))
    result: list[int | None] = []
    for token in tokens:
        start, end = (min(place, len(text)) for place in token)
        count = solid if solid[start] < solid[end] else everything  # characters before each position
        best, most = None, 0
        for unit in range(bisect_right(ends, start), len(units)):
            first, last = units[unit]
            if first >= end:
                break
            shared = count[min(last, end)] - count[max(first, start)]
            if shared > most:
                best, most = unit, shared
        result.append(best)
    return result


# --- common to words, sentences and paragraphs -----------------------------------------------------------

_CLUSTER = regex.compile(r"\X")
_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Cf}]")


def _tile(text: str, cuts: Iterable[int]) -> list[Span]:
    """Cut a text, but not inside a grapheme cluster, and not if a part would be only white space."""
    allowed = {cluster.end() for cluster in _CLUSTER.finditer(text)}
    spans: list[Span] = []
    start = checked = 0
    for cut in sorted(allowed.intersection(cuts) | {len(text)}):
        if _VISIBLE.search(text, checked, cut):
            spans.append((start, cut))
            start = cut
        checked = cut
    if start < len(text):  # white space at the end
        spans[-1:] = [(spans[-1][0] if spans else 0, len(text))]
    return spans
