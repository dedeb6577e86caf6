"""Cut a text into the units that people think in: words, sentences, paragraphs, or parts marked by hand.

A unit is a span of characters. Words, sentences and paragraphs tile the text: no gap, no overlap. White
space belongs to the unit that follows it, as it does with tokens, and at the very end to the last unit.
No cut falls inside what a reader sees as one character: an emoji sequence, a letter and its accents.
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


def words(text: str) -> list[Span]:
    """Words as Unicode sees them (UAX 29), and each punctuation mark by itself.

    Two rules differ: a run of one mark is one unit (`...`, `==`), and no word goes on behind a colon or
    a keycap.
    Scripts without spaces have no dictionary here: Han and Hiragana come character by character, Thai
    and its like syllable sign by syllable sign, with their vowels and tones.

    >>> text = "Don't pay 3.50... for naïve_code!"
    >>> [text[start:end] for start, end in words(text)]
    ["Don't", ' pay', ' 3.50', '...', ' for', ' naïve_code', '!']
    """
    cuts = {edge.start() for edge in _WORD_EDGE.finditer(text)}
    for run in _SAME_MARKS.finditer(text):
        cuts.difference_update(range(run.start() + 1, run.end()))
    return _tile(text, cuts)


# --- paragraphs ------------------------------------------------------------------------------------------

_BREAK = regex.compile(r"\r\n|[\n\v\f\r\x85\u2028\u2029]")
_LINE = regex.compile(r"\S(?:[^\n\v\f\r\x85\u2028\u2029]*\S)?")  # without the white space around it


def paragraphs(text: str) -> list[Span]:
    r"""What blank lines separate.

    >>> paragraphs("one\ntwo\n\nthree\n")
    [(0, 7), (7, 15)]
    """
    return _tile(text, (line.before for line in _lines(text) if line.apart))


# --- sentences -------------------------------------------------------------------------------------------

# What a line is, by the first of these that fits. A whole line is a unit and is not cut further.
_FENCE = regex.compile(r"```|~~~")
_WHOLE = regex.compile(
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

# How a line begins.
_OPENING = r"""[\p{Ps}\p{Pi}"'*_`¿¡]*"""
_LOWER = regex.compile(_OPENING + r"\p{Ll}")
_CAPITAL = regex.compile(_OPENING + r"[\p{Lu}\p{Lt}\p{N}]")
_LABEL = regex.compile(r"\p{Lu}[^.!?:]{0,30}:(?:\s|$)")
_WRAPPED = range(60, 101)  # the length of a line that was broken for its length

# A stop, more stops, and whatever closes behind them: `.`, `?!`, `. . .`, `.)`, `?).`, `.“`, `. »`, `.[2]`.
_MARK = r"(?:[.…\p{SB=STerm}]|．(?!\d))\p{M}*"
_CLOSING = r"""[\p{Pe}\p{Pf}"'*_`]|[«“‘](?=\s|$|\p{P})|[ \xa0\u202f]»|\[\d+\]"""
_STOP = regex.compile(rf"{_MARK}(?:{_MARK}| [.!?…]++(?!\w)|{_CLOSING})*+")
_UNCLOSED = regex.compile(rf"{_MARK}$")
_UNSPACED = regex.compile(r"(?V1)[\p{SB=STerm}--[!?]]|．")  # stops that need no space behind them
_IDEOGRAPH = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_QUOTATIVE = regex.compile(r"と|って|[、，,]")  # 「行こう。」と言った goes on
_NEXT = regex.compile(rf"(?P<gap>\s*){_OPENING}(?P<word>[\p{{L}}\p{{M}}\p{{N}}]*)(?P<dot>\.?)")
_BEFORE = regex.compile(r"(?r)[\p{L}\p{M}\p{N}.]*")

# Abbreviations, without the last stop.
_TITLE = regex.compile("mr|mrs|ms|dr|prof|gen|col|sgt|capt|lt|cmdr|rev|hon|pres|gov|sen|rep|mme|mlle|mt|ft")
_NEVER_LAST = regex.compile(r"e\.g|i\.e|cf|vs|v|viz|approx|ca|bzw|z\.b|d\.h")
_NUMBERED = regex.compile("nos?|nr|figs?|eqs?|sec|ch|chap|vol|art|pp?|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec")
_SELDOM_LAST = regex.compile(r"st|inc|ltd|co|corp|bros|jr|sr|ave|blvd|rd|al|ph\.d|\p{L}(?:\.\p{L})+")
_STARTER = regex.compile(
    "an?|the|this|that|these|those|i|you|he|she|it|we|they|my|your|his|her|its|our|their|there|here|and|but|or|so"
    "|then|however|also|if|when|while|after|before|since|although|because|as|in|on|at|for|from|to|what|who|why"
    "|where|how|which|is|are|was|were|do|does|did|can|will|would|not|no|yes|please"
)


def sentences(text: str) -> list[Span]:
    """Sentences; and each heading, row of a table and line of code by itself.

    A list item, an indented line and what follows a line that ends with a colon begin a new unit.
    A full stop ends no sentence before a lower-case letter (unless the text has no capitals at all),
    after a title, an initial or `e.g.`, or between `No.` or `Jan.` and a number. `U.S.`, `Inc.` and
    initials end one only before a word that often begins sentences ("in the U.S. The", but "the U.S.
    Senate"); `etc.` does before any capital. A new line goes on with the sentence if it begins in lower
    case behind no stop, or, with a capital, if the line before it has the length of wrapped text. In
    scripts without capitals it begins a new unit.

    >>> text = 'Dr. Wu paid 3.50 (why?) for it. "Odd!" he said. 不会吧！真的。'
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Wu paid 3.50 (why?) for it.', ' "Odd!" he said.', ' 不会吧！', '真的。']
    """
    lines = _lines(text)
    plain = not any(map(str.isupper, text))
    cuts = []
    for i, line in enumerate(lines):
        if i and not _goes_on(lines[i - 1], line):
            cuts.append(line.before)
        if line.kind != "whole":
            marker = _ITEM.match(line.text)
            start = line.start + (marker.end() if marker else 0)
            cuts += [stop.end() for stop in _STOP.finditer(text, start, line.end) if _ends(text, stop, plain)]
    return _tile(text, cuts)


_Kind = Literal["whole", "item", "indented", "prose"]


class _Line(NamedTuple):
    """A line without the white space around it, which begins where the line `before` it ends."""

    before: int
    start: int
    end: int
    text: str
    apart: bool  # behind a blank line
    kind: _Kind


def _lines(text: str) -> list[_Line]:
    """All lines that are not blank."""
    lines: list[_Line] = []
    end, fenced, in_item = 0, False, False
    for match in _LINE.finditer(text):
        *breaks, indentation = _BREAK.split(text[end : match.start()])
        indented = bool(_INDENTED.match(indentation))
        apart = len(breaks) > 1 and bool(lines)
        fence = bool(_FENCE.match(match[0]))
        kind: _Kind = "prose"
        if fenced or fence or _WHOLE.match(match[0]):
            kind = "whole"
        elif _ITEM.match(match[0]):
            kind = "item"
        elif indented and not in_item:
            kind = "indented"
        fenced ^= fence
        in_item = kind == "item" or (in_item and kind == "prose" and (indented or not apart))
        lines.append(_Line(end, match.start(), match.end(), match[0], apart, kind))
        end = match.end()
    return lines


def _goes_on(line: _Line, following: _Line) -> bool:
    """Whether the text of a line goes on in the following one."""
    if following.apart or following.kind == "item" or {line.kind, following.kind} & {"whole", "indented"}:
        return False
    if line.text.endswith((":", "：")):
        return False
    if _LOWER.match(following.text):
        return True
    wrapped = len(line.text) in _WRAPPED and not _LABEL.match(following.text)
    return wrapped and bool(_CAPITAL.match(following.text))


def _ends(text: str, stop: "regex.Match[str]", plain: bool) -> bool:
    """Whether a stop ends a sentence; in a `plain` text, which has no capitals, lower case says nothing."""
    marks, following = stop[0], _NEXT.match(text, stop.end())
    closed = not _UNCLOSED.search(marks)
    asked = "!" in marks or "?" in marks
    if closed and _QUOTATIVE.match(text, stop.end()):
        return False
    if _UNSPACED.search(marks) or (asked and _IDEOGRAPH.match(text, stop.end())):
        return True
    if not following["gap"]:
        return False
    lower = following["word"][:1].islower() and not _BREAK.search(following["gap"])
    if asked:
        return not (closed and lower)
    word = _BEFORE.match(text, 0, stop.start())[0]
    if not word and marks == ".":  # set apart by spaces, as in corpora
        return True
    if marks.count(".") == 1 and _abbreviated(word, following["word"], following["dot"], plain):
        return False
    return plain or not lower


def _abbreviated(word: str, following: str, dot: str, plain: bool) -> bool:
    """Whether the stop behind a word only shortens it, given the word that follows and the stop behind that."""
    name = word.casefold()
    if _NEVER_LAST.fullmatch(name) or (_TITLE.fullmatch(name) and (plain or word[0].isupper())):
        return True
    if _NUMBERED.fullmatch(name) and following[:1].isdigit():
        return True
    initial = len(word) == 1 and word.isupper()
    begins = not dot and _STARTER.fullmatch(following.casefold())
    return bool(initial or _SELDOM_LAST.fullmatch(name)) and not begins


# --- units given by hand ---------------------------------------------------------------------------------


def marked(text: str, opening: str = "⟦", closing: str = "⟧") -> tuple[str, list[Span]]:
    """The text without its marks, and the spans that they marked.

    >>> marked("The ⟦capital⟧ of ⟦Japan⟧ is")
    ('The capital of Japan is', [(4, 11), (15, 20)])
    """
    if not opening or not closing or opening == closing:
        raise InputError(f"marks must be two different strings, not {opening!r} and {closing!r}")
    marks = sorted((opening, closing), key=len, reverse=True)
    pieces: list[str] = []
    spans: list[Span] = []
    length = end = 0
    opened: int | None = None  # where the open mark stands in the given text
    start = 0  # and where its span begins in the text without marks
    for mark in regex.finditer("|".join(map(regex.escape, marks)), text):
        pieces.append(text[end : mark.start()])
        length += len(pieces[-1])
        end = mark.end()
        if mark[0] == opening:
            if opened is not None:
                raise InputError(
                    f"{opening!r} at character {mark.start()} stands inside the mark opened at character {opened}: "
                    f"close that with {closing!r} first; marks cannot be nested"
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
        raise InputError(f"{opening!r} at character {opened} is never closed: put {closing!r} behind the part")
    if not spans:
        raise InputError(f"nothing is marked: put {opening!r} and {closing!r} around at least one part of the text")
    return "".join(pieces) + text[end:], spans


def check_spans(spans: Iterable[Any], length: int) -> list[Span]:
    """The spans in the order of the text, once they are known to be apart and inside a text of that length.

    >>> check_spans([(6, 9), (0, 3)], length=9)
    [(0, 3), (6, 9)]
    >>> check_spans([(0, 3), (2, 9)], length=9)
    Traceback (most recent call last):
    reagent.errors.InputError: span (2, 9) overlaps (0, 3): units must not share characters
    """
    checked = sorted(_pair(span) for span in spans)
    for start, end in checked:
        if start >= end:
            raise InputError(f"span ({start}, {end}) is empty or reversed: its end must be greater than its start")
        if start < 0 or end > length:
            raise InputError(f"span ({start}, {end}) leaves the text: spans lie within 0…{length}")
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
        return [_pair(span) for span in data]
    except InputError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def _pair(span: Any) -> Span:
    """A pair of whole numbers, whatever it was written as."""
    match span:
        case [start, end] | {"start": start, "end": end} if _whole(start) and _whole(end):
            return int(start), int(end)
    raise InputError(f"{span!r} is not a span: give a pair of whole numbers [start, end]")


def _whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


# --- from units to tokens --------------------------------------------------------------------------------

UNITS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences, "paragraph": paragraphs}


def assign(tokens: Sequence[Span], units: Sequence[Span], text: str) -> list[int | None]:
    """For each token the unit with which it shares most characters, the first such; None if there is none.

    White space counts only in tokens that have nothing else. The units are apart and in the order of the
    text; so are the units of tokens that are in the order of the text.

    >>> assign([(0, 0), (0, 3), (3, 9)], units=[(0, 4), (4, 9)], text="The Japan")
    [None, 0, 1]
    """
    ends = [end for _, end in units]
    everything = range(len(text) + 1)
    solid = list(accumulate((not character.isspace() for character in text), initial=0))
    result: list[int | None] = []
    for start, end in tokens:
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


# --- common to all tilings -------------------------------------------------------------------------------

_CLUSTER = regex.compile(r"\X")
_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Cf}]")


def _tile(text: str, cuts: Iterable[int]) -> list[Span]:
    """Cut a text, but not inside a grapheme cluster, and not where only white space would be cut off."""
    allowed = {cluster.end() for cluster in _CLUSTER.finditer(text)}
    spans: list[Span] = []
    start = seen = 0
    for cut in sorted(allowed.intersection(cuts) | {len(text)}):
        if _VISIBLE.search(text, seen, cut):
            spans.append((start, cut))
            start = cut
        seen = cut
    if start < len(text):  # white space at the end
        spans[-1:] = [(spans[-1][0] if spans else 0, len(text))]
    return spans
