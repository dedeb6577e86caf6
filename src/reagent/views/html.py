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
    NOT_SETTLED,
    OPEN,
    effect_digits,
    facts,
    has_open_ranking,
    probability,
    unit_note,
    unsettled,
    warning,
)
from reagent.views.text import cropped, labels, running, visible

TITLE_LENGTH = 60
FIGURES = 6  # a picture needs no more, and long rows stay small

# What could end the script element or start a comment in it. As \u escapes they are the same JSON.
_BREAKERS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def page(explanation: Explanation) -> str:
    """A whole HTML document that works without a network."""
    words = " ".join(visible(explanation.completion).split())
    title = f"Why “{cropped(words, TITLE_LENGTH)}”?"
    return Template(_asset("page.html")).substitute(title=escape(title), fragment=fragment(explanation))


def fragment(explanation: Explanation) -> str:
    """A part of a document; several of them can stand in one."""
    return Template(_asset("fragment.html")).substitute(
        style=_asset("view.css"),
        script=_asset("view.js"),
        data=_embedded(view_data(explanation)),
        summary=escape(_summary(explanation)),
    )


def view_data(explanation: Explanation) -> dict[str, Any]:
    """What `reagentView` in view.js draws; plain JSON."""
    names = labels(explanation)
    targets = range(len(explanation.output))
    return {
        "facts": facts(explanation),
        "inputs": len(explanation.input),
        "pieces": [[piece.text, str(piece.kind), piece.position] for piece in running(explanation)],
        "tokens": [
            {"label": name, "ids": token.ids, "protected": token.protected, "probability": probability(token)}
            for name, token in zip(names, explanation.input + explanation.output, strict=True)
        ],
        "scores": _rounded(explanation.scores),
        "effects": _rounded(explanation.effects or ()),
        "stderr": _rounded(explanation.stderr or ()),
        "unit": visible(explanation.effect_unit or ""),
        "unitNote": unit_note(explanation),
        "digits": effect_digits(explanation),
        "listed": LISTED,
        "openSign": OPEN,
        "openNote": NOT_SETTLED,
        "open": [[int(place) for place in unsettled(explanation, target)] for target in targets],
        "warnings": [warning(explanation, target) for target in targets],
        "mild": [has_open_ranking(explanation, target) for target in targets],
    }


def _summary(explanation: Explanation) -> str:
    """The answer in one line, for readers where no script runs: a notebook on a code host, a mail."""
    names = labels(explanation)
    first = len(explanation.input)
    lines = (
        f"{names[first + target]}: "
        + ", ".join(f"{names[c.position]} {c.score:.2f}" for c in explanation.top(3, target))
        for target in range(len(explanation.output))
    )
    return "Most important tokens. " + "; ".join(lines)


def _embedded(data: dict[str, Any]) -> str:
    # ASCII only: no line separators, no lone surrogates, no question of encoding.
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_BREAKERS)


def _rounded(rows: Rows) -> list[list[float]]:
    return [[float(f"{value:.{FIGURES}g}") for value in row] for row in rows]


@cache
def _asset(name: str) -> str:
    return files("reagent.views").joinpath("assets", name).read_text(encoding="utf-8")
