"""Tables as LaTeX: each to be read into a paper, and one document that holds them all."""

from collections.abc import Sequence
from itertools import groupby
from string import Template

from reagent.report.contents import Contents, Drawing, Shaded
from reagent.report.tables.base import Column, Table, TableCell
from reagent.views.latex import FULL, escape_latex
from reagent.views.text import sanitize

_TABLE = r"""% Needs \usepackage{booktabs,graphicx}. Scripts other than Latin need XeLaTeX or LuaLaTeX.
\begin{table*}[htp]
\centering
\caption{$caption}
\label{tab:$id}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{$spec}
\toprule
$head
\midrule
$body
\bottomrule
\end{tabular}}
$notes\end{table*}
"""

_EXAMPLES = r"""% Needs \usepackage{xcolor}. Scripts other than Latin need XeLaTeX or LuaLaTeX and a font that has them.
% Each token is shaded by its score as a share of the largest of the method.
\begingroup\setlength{\fboxsep}{1pt}\setlength{\parindent}{0pt}%
$examples
\endgroup
"""

_DOCUMENT = r"""\documentclass{article}
\ifdefined\pdftexversion
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\makeatletter % what its fonts do not have is a question mark; XeLaTeX and LuaLaTeX have fonts for more
\def\UTFviii@undefined@err#1{?}
\makeatother
\fi
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs,graphicx,xcolor}
\begin{document}
\section*{$title}
\begin{itemize}
$facts
\end{itemize}
$sections
\end{document}
"""

_FIGURE = r"""\begin{figure}[htp]
\centering
\includegraphics[width=\linewidth,height=0.8\textheight,keepaspectratio]{figures/%s.png}
\caption{%s}
\end{figure}"""

# What we write ourselves and plain pdfLaTeX does not know.
_SIGNS = str.maketrans(
    {
        "−": "$-$",
        "–": "--",
        "—": "---",
        "±": r"$\pm$",
        "×": r"$\times$",
        "↓": r"$\downarrow$",
        "↑": r"$\uparrow$",
        "†": r"\dag{}",
        "π": r"$\pi$",
        "≤": r"$\leq$",
        "▸": r"$\triangleright$",
        "’": "'",
        "“": "``",
        "”": "''",
    }
)


def text(words: str) -> str:
    """Words as LaTeX prints them, in one line.

    >>> text("π at 50 % ↓")
    '$\\\\pi$ at 50 \\\\% $\\\\downarrow$'
    """
    return escape_latex(" ".join(sanitize(words).split())).translate(_SIGNS)


def table(table: Table) -> str:
    notes = "".join(f"\\par\\smallskip\\footnotesize {text(note)}\n" for note in table.notes)
    return Template(_TABLE).substitute(
        id=table.id,
        caption=f"{text(table.title)}. {text(table.caption)}",
        spec="".join("r" if column.is_number else "l" for column in table.columns),
        head=_head(table.columns),
        body="\n".join(_body(table)),
        notes=notes,
    )


def examples(shaded: Sequence[Shaded]) -> str:
    """Examples as running text, each token in a box of its shade."""
    parts = []
    for one in shaded:
        parts.append(rf"\par\medskip\textbf{{{text(one.title)}}} {text(one.said)}\par\smallskip")
        parts += [rf"\textit{{{text(name)}:}} {_boxes(pieces)}\par\smallskip" for name, pieces in one.texts]
    return Template(_EXAMPLES).substitute(examples="\n".join(parts))


def document(contents: Contents) -> str:
    """All of it, to be set beside the folders `tables` and `figures`."""
    facts = "\n".join(rf"\item {text(name)}: {text(value)}" for name, value in contents.facts)
    parts = []
    for section in contents.sections:
        parts.append(rf"\section{{{text(section.title)}}}")
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(rf"\input{{tables/{part.id}.tex}}")
            elif isinstance(part, Drawing):
                parts.append(_FIGURE % (part.id, text(part.caption)))
        parts += [r"\input{tables/examples.tex}"] if any(isinstance(part, Shaded) for part in section.parts) else []
        parts.append(r"\clearpage")
    if contents.missing:
        left = "\n".join(rf"\item {text(one.title)}: {text(one.reason)}" for one in contents.missing)
        parts.append(f"\\section{{Left out}}\n\\begin{{itemize}}\n{left}\n\\end{{itemize}}")
    return Template(_DOCUMENT).substitute(title=text(contents.title), facts=facts, sections="\n".join(parts))


def _head(columns: Sequence[Column]) -> str:
    """Two lines where headings share something, with a rule under what they share."""
    names = " & ".join(text(column.name) for column in columns) + r" \\"
    if not any(column.over for column in columns):
        return names
    groups, rules, at = [], [], 1
    for over, members in groupby(columns, key=lambda column: column.over):
        width = len(list(members))
        groups.append(rf"\multicolumn{{{width}}}{{c}}{{{text(over)}}}" if over else " & " * (width - 1))
        rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if over else []
        at += width
    return " & ".join(groups) + " \\\\\n" + "".join(rules) + "\n" + names


def _body(table: Table) -> list[str]:
    """A thin rule where the first column begins something new, and its name only there."""
    lines: list[str] = []
    names = [row[0].text for row in table.rows]
    grouped = len(set(names)) < len(names) and not table.columns[0].is_number
    for i, row in enumerate(table.rows):
        again = grouped and i > 0 and names[i] == names[i - 1]
        if grouped and i > 0 and not again:
            lines.append(r"\midrule")
        entries = [TableCell("") if again and j == 0 else entry for j, entry in enumerate(row)]
        lines.append(" & ".join(map(_entry, entries, table.columns)) + r" \\")
    return lines


def _entry(entry: TableCell, column: Column) -> str:
    words = text(entry.text)
    if column.is_number and words.startswith("-") and not words.startswith("--"):
        words = "$-$" + words[1:]
    return rf"\textbf{{{words}}}" if entry.bold and words else words


def _boxes(pieces: Sequence[tuple[str, float]]) -> str:
    return "".join(_box(piece, share) for piece, share in pieces)


def _box(piece: str, share: float) -> str:
    word = text(piece)
    if not word:
        return " "
    before = " " if piece[:1].isspace() else r"\penalty999 "
    colour = ",".join(f"{1 - share * (1 - value):.3g}" for value in FULL)
    return before + rf"\colorbox[rgb]{{{colour}}}{{\strut {word}}}"
