"""The report as LaTeX: single tables to include in a paper, and a document with all of them."""

from collections.abc import Sequence
from itertools import groupby
from string import Template

from reagent.report.contents import Column, Figure, Report, ShadedExample, Table, TableCell
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
% Each token is shaded by its score, relative to the largest score of the method.
\begingroup\setlength{\fboxsep}{1pt}\setlength{\parindent}{0pt}%
$examples
\endgroup
"""

_DOCUMENT = r"""\documentclass{article}
\ifdefined\pdftexversion
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\makeatletter % characters that its fonts lack become question marks; XeLaTeX and LuaLaTeX have more fonts
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

# Characters of our own texts that plain pdfLaTeX does not know.
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


def escape(text: str) -> str:
    """Escape text so that LaTeX prints it literally, in one line.

    >>> escape("π at 50 % ↓")
    '$\\\\pi$ at 50 \\\\% $\\\\downarrow$'
    """
    return escape_latex(" ".join(sanitize(text).split())).translate(_SIGNS)


def render_table(table: Table) -> str:
    notes = "".join(f"\\par\\smallskip\\footnotesize {escape(note)}\n" for note in table.notes)
    return Template(_TABLE).substitute(
        id=table.id,
        caption=f"{escape(table.title)}. {escape(table.caption)}",
        spec="".join("r" if column.is_number else "l" for column in table.columns),
        head=_head(table.columns),
        body="\n".join(_body(table)),
        notes=notes,
    )


def render_examples(examples: Sequence[ShadedExample]) -> str:
    """Examples as running text, each token in a shaded box."""
    parts = []
    for example in examples:
        parts.append(rf"\par\medskip\textbf{{{escape(example.title)}}} {escape(example.output)}\par\smallskip")
        parts += [rf"\textit{{{escape(one.label)}:}} {_boxes(one.pieces)}\par\smallskip" for one in example.texts]
    return Template(_EXAMPLES).substitute(examples="\n".join(parts))


def render_report(report: Report) -> str:
    """The whole report; it includes files of the folders `tables` and `figures` next to it."""
    facts = "\n".join(rf"\item {escape(name)}: {escape(value)}" for name, value in report.facts)
    parts = []
    for section in report.sections:
        parts.append(rf"\section{{{escape(section.title)}}}")
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(rf"\input{{tables/{part.id}.tex}}")
            elif isinstance(part, Figure):
                parts.append(_FIGURE % (part.id, escape(part.caption)))
        parts += (
            [r"\input{tables/examples.tex}"] if any(isinstance(part, ShadedExample) for part in section.parts) else []
        )
        parts.append(r"\clearpage")
    if report.missing:
        missing = "\n".join(rf"\item {escape(one.title)}: {escape(one.reason)}" for one in report.missing)
        parts.append(f"\\section{{Left out}}\n\\begin{{itemize}}\n{missing}\n\\end{{itemize}}")
    return Template(_DOCUMENT).substitute(title=escape(report.title), facts=facts, sections="\n".join(parts))


def _head(columns: Sequence[Column]) -> str:
    """One line of headings, and above it a line with the groups of columns, if there are any."""
    names = " & ".join(escape(column.name) for column in columns) + r" \\"
    if not any(column.group for column in columns):
        return names
    groups, rules, first = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        groups.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}" if group else " & " * (width - 1))
        rules += [rf"\cmidrule(lr){{{first}-{first + width - 1}}}"] if group else []
        first += width
    return " & ".join(groups) + " \\\\\n" + "".join(rules) + "\n" + names


def _body(table: Table) -> list[str]:
    """Rows with equal first cells are a group: a thin rule between groups, the name in the first row only."""
    lines: list[str] = []
    names = [row[0].text for row in table.rows]
    has_groups = len(set(names)) < len(names) and not table.columns[0].is_number
    for i, row in enumerate(table.rows):
        repeats = has_groups and i > 0 and names[i] == names[i - 1]
        if has_groups and i > 0 and not repeats:
            lines.append(r"\midrule")
        cells = [TableCell("") if repeats and j == 0 else cell for j, cell in enumerate(row)]
        lines.append(" & ".join(map(_cell, cells, table.columns)) + r" \\")
    return lines


def _cell(cell: TableCell, column: Column) -> str:
    text = escape(cell.text)
    if column.is_number and text.startswith("-") and not text.startswith("--"):
        text = "$-$" + text[1:]
    return rf"\textbf{{{text}}}" if cell.bold and text else text


def _boxes(pieces: Sequence[tuple[str, float]]) -> str:
    return "".join(_box(piece, share) for piece, share in pieces)


def _box(piece: str, share: float) -> str:
    word = escape(piece)
    if not word:
        return " "
    separator = " " if piece[:1].isspace() else r"\penalty999 "
    colour = ",".join(f"{1 - share * (1 - value):.3g}" for value in FULL)
    return separator + rf"\colorbox[rgb]{{{colour}}}{{\strut {word}}}"
