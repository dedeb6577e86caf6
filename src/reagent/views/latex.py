"""Running text for LaTeX, with each piece in a shaded box."""

import re
from collections.abc import Mapping, Sequence

from reagent.views.shading import NO_MARKS, join_marks, split_margins
from reagent.views.summary import Caption
from reagent.views.text import NEWLINE, SPACE, TAB, Kind, Piece, pieces_before, sum_weights

FULL = (1.0, 0.59, 0.16)  # the colour of the largest score; white is 0
JOIN = r"\penalty999 "  # discourages a line break between two boxes without a space
BREAK = r"\newline\mbox{}"  # the empty box preserves leading spaces of a line

# LaTeX commands, characters that LaTeX prints differently, and our marks, which some fonts lack.
_ESCAPES = str.maketrans(
    {character: "\\" + character for character in "{}$&#_%"}
    | {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        '"': r"\char34{}",
        SPACE: r"\textperiodcentered{}",
        "…": r"\ldots{}",
        "−": "$-$",
        "±": r"$\pm$",
        NEWLINE: r"$\hookleftarrow$",
        TAB: r"$\mapsto$",
    }
)


def escape_latex(text: str) -> str:
    r"""Escape the text for LaTeX; characters outside ASCII stay.

    >>> escape_latex("50% of {a_1}")
    '50\\% of \\{a\\_1\\}'
    """
    return text.translate(_ESCAPES).replace("--", "-{}-{}")  # two hyphens would become a dash


def render_shaded(pieces: Sequence[Piece], weights: Sequence[float], marks: Mapping[int, str] = NO_MARKS) -> str:
    """Shade the running text that has weights, each by its share of the largest; `marks` are superscripts."""
    context = pieces_before(len(weights), pieces)
    totals = sum_weights(context, weights)
    largest = max(totals.values(), default=0.0) or 1.0
    text = ""
    for piece in context:
        if piece.kind is Kind.ROLE:
            text += (BREAK if text else "") + rf"\textit{{{escape_latex(piece.text)}:}} "
        elif not piece.positions:
            text += _render_words(piece.text)
        else:
            head, body, tail = split_margins(piece.text)
            text += _render_words(head) + _render_words(body, totals[piece.positions] / largest)
            text += _render_mark(join_marks(piece, marks)) + _render_words(tail)
    return text.replace(r"}\colorbox", rf"}}{JOIN}\colorbox")


def render_caption(caption: Caption, mark: str = "") -> str:
    """Write a sentence with its quoted parts in bold, after the mark."""
    parts = (rf"\textbf{{{escape_latex(part.text)}}}" if part.quoted else escape_latex(part.text) for part in caption)
    return _render_mark(mark) + "".join(parts)


def _render_mark(letters: str) -> str:
    return rf"\textsuperscript{{{letters}}}" if letters else ""


def _render_words(text: str, share: float | None = None) -> str:
    """Put each word in a box, so that lines can break between words; without a share, leave out the boxes."""
    if share is not None and not text.strip(" "):
        return _box(r"\ " * len(text), share)
    return "".join(_render_word(word, share) for word in re.findall(r"\n| +|[^\n ]+", text))


def _render_word(word: str, share: float | None) -> str:
    if word == "\n":
        return BREAK
    if word.isspace():
        return word if word == " " else r"\ " * len(word)
    return escape_latex(word) if share is None else _box(escape_latex(word), share)


def _box(content: str, share: float) -> str:
    colour = ",".join(f"{1 - share * (1 - value):.3g}" for value in FULL)
    return rf"\colorbox[rgb]{{{colour}}}{{\strut {content}}}"
