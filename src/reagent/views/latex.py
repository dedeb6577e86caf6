"""Running text for LaTeX, each token in a box of its shade."""

import re
from collections.abc import Sequence

from reagent.views.shading import margins
from reagent.views.text import CONTINUED, NEWLINE, SPACE, TAB, Kind, Piece, before

FULL = (1.0, 0.59, 0.16)  # the colour of the largest score; white is 0
JOIN = r"\penalty999 "  # between two boxes without a space, a line breaks only where it cannot do otherwise
BREAK = r"\newline\mbox{}"  # the empty box keeps the spaces that begin a line

# What would steer LaTeX or come out as another character; and the marks that we add, which not every font has.
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
        NEWLINE: r"$\hookleftarrow$",
        TAB: r"$\mapsto$",
        CONTINUED: r"$^{+}$",
    }
)


def escaped(text: str) -> str:
    r"""The text as LaTeX prints it; what is not ASCII stays.

    >>> escaped("50% of {a_1}")
    '50\\% of \\{a\\_1\\}'
    """
    return text.translate(_ESCAPES).replace("--", "-{}-{}")  # two hyphens would become a dash


def shaded(pieces: Sequence[Piece], weights: Sequence[float]) -> str:
    """The running text as far as there are weights, shaded by their share of the largest."""
    largest = max(weights, default=0.0) or 1.0
    text = ""
    for piece in before(len(weights), pieces):
        if piece.kind is Kind.ROLE:
            text += (BREAK if text else "") + rf"\textit{{{escaped(piece.text)}:}} "
        elif piece.position is None:
            text += _words(piece.text)
        else:
            head, body, tail = margins(piece.text)
            text += _words(head) + _words(body, weights[piece.position] / largest) + _words(tail)
    return text.replace(r"}\colorbox", rf"}}{JOIN}\colorbox")


def _words(text: str, share: float | None = None) -> str:
    """A box for each word, so that the lines of a sentence can break; without a share, the words alone."""
    if share is not None and not text.strip(" "):
        return _box(r"\ " * len(text), share)
    return "".join(_word(word, share) for word in re.findall(r"\n| +|[^\n ]+", text))


def _word(word: str, share: float | None) -> str:
    if word == "\n":
        return BREAK
    if word.isspace():
        return word if word == " " else r"\ " * len(word)
    return escaped(word) if share is None else _box(escaped(word), share)


def _box(content: str, share: float) -> str:
    colour = ",".join(f"{1 - share * (1 - value):.3g}" for value in FULL)
    return rf"\colorbox[rgb]{{{colour}}}{{\strut {content}}}"
