"""An explanation as HTML: a page of its own, or a fragment for notebooks.

Both are the same component: `assets/view.js` draws what `view_data` says into an element and styles
it with `assets/view.css`. Nothing is fetched from anywhere.
"""

import json
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from reagent.explanation import Explanation, Rows
from reagent.views.summary import (
    LISTED,
    NAME_LENGTH,
    OPEN,
    PLACES,
    asked,
    chances,
    context_noun,
    contrast,
    effect_digits,
    facts,
    has_open_ranking,
    open_places,
    outline,
    question,
    unit_note,
    warning,
    what_if,
)
from reagent.views.text import all_labels, label, running, shortened, visible

TITLE_LENGTH = 60
TOOLTIP_LENGTH = 500
FIGURES = 6  # a picture needs no more, and long rows stay small

# What could end the script element or start a comment in it. As \u escapes they are the same JSON.
_BREAKERS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def page(explanation: Explanation) -> str:
    """A whole HTML document that works without a network."""
    return document(title(explanation), fragment(explanation))


def fragment(explanation: Explanation) -> str:
    """A part of a document; several of them can stand in one."""
    return component(view_data(explanation), summary(explanation))


def document(heading: str, body: str) -> str:
    return Template(_asset("page.html")).substitute(title=escape(heading), fragment=body)


def component(data: dict[str, Any] | list[dict[str, Any]], words: str) -> str:
    """What view.js draws: one view, or a list of them to compare; the words stand there until it does."""
    return Template(_asset("fragment.html")).substitute(
        style=_asset("view.css"), script=_asset("view.js"), data=_embedded(data), summary=escape(words)
    )


def title(explanation: Explanation) -> str:
    """The question, as plain words."""
    focus = asked(explanation)
    text = explanation.completion if focus is None else explanation.output[focus].text
    if explanation.target.get("kind") == "contrast":
        return f"Why “{_title(text)}” and not “{_title(str(explanation.target.get('text', '')))}”?"
    return f"Why “{_title(text)}”?"


def view_data(explanation: Explanation) -> dict[str, Any]:
    """What `reagentView` in view.js draws; plain JSON."""
    targets = range(len(explanation.output))
    return {
        "facts": facts(explanation),
        "inputs": len(explanation.input),
        "focus": explanation.focus,
        "noun": context_noun(explanation),
        "pieces": [[piece.text, str(piece.kind), piece.position] for piece in running(explanation)],
        "tokens": [
            {"label": name, "short": shortened(name, NAME_LENGTH), "ids": token.ids, "protected": token.protected}
            for name, token in zip(all_labels(explanation), explanation.input + explanation.output, strict=True)
        ],
        "scores": _rounded(explanation.scores),
        "effects": _rounded(explanation.effects or ()),
        "stderr": _rounded(explanation.stderr or ()),
        "unit": visible(explanation.effect_unit or ""),
        "digits": effect_digits(explanation),
        "listed": LISTED,
        "openSign": OPEN,
        "placesNote": PLACES,
        "rows": [_row(explanation, target) for target in targets],
    }


def _row(explanation: Explanation, target: int) -> dict[str, Any]:
    """What is said about one output token."""
    return {
        "question": question(explanation, target),
        "chances": chances(explanation, target),
        "not": contrast(explanation, target),
        "warning": warning(explanation, target),
        "mild": has_open_ranking(explanation, target),
        "unitNote": unit_note(explanation, target),
        "open": open_places(explanation, target) if explanation.stderr else [],
        "whatIf": list(what_if(explanation, target)),
        "outline": [
            [noun, [[*_names(label(row.token)), row.score, row.effect, row.stderr] for row in rows]]
            for noun, rows in outline(explanation, target)
        ],
    }


def summary(explanation: Explanation) -> str:
    """The answer in one line, for readers where no script runs: a notebook on a code host, a mail."""
    names = [shortened(name, NAME_LENGTH) for name in all_labels(explanation)]
    lines = (
        "".join(text for text, _ in question(explanation, target))
        + " "
        + ", ".join(f"{names[row.position]} {row.score:.2f}" for row in explanation.top(3, target))
        for target in range(len(explanation.output))
    )
    return f"Most important {context_noun(explanation)}s. " + "; ".join(lines)


def _names(text: str) -> tuple[str, str]:
    """A short name, and a longer one to show when it is pointed at."""
    return shortened(text, NAME_LENGTH), shortened(text, TOOLTIP_LENGTH)


def _title(text: str) -> str:
    return shortened(" ".join(visible(text).split()), TITLE_LENGTH)


def _embedded(data: object) -> str:
    # ASCII only: no line separators, no lone surrogates, no question of encoding.
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_BREAKERS)


def _rounded(rows: Rows) -> list[list[float]]:
    return [[float(f"{value:.{FIGURES}g}") for value in row] for row in rows]


@cache
def _asset(name: str) -> str:
    return files("reagent.views").joinpath("assets", name).read_text(encoding="utf-8")
