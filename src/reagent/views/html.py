"""An explanation as HTML: a page, or a fragment for notebooks.

Both contain the same component: `assets/view.js` draws the result of `to_view_data`, with `assets/trace.js` for the
graph of a traced answer, and `assets/view.css` styles it. The page works without a network.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from reagent.explanation import Explanation, Token
from reagent.views.display import annotated_row, displayed, main_row, output_noun, with_cut_marked
from reagent.views.groups import describe_groups, describe_sufficiency, group_captions, group_letters
from reagent.views.summary import (
    NAME_LENGTH,
    OPEN_RANKS_NOTE,
    OPEN_SIGN,
    TOP_COUNT,
    answer_warnings,
    answer_what_if_captions,
    context_noun,
    contrast_label,
    describe_probability,
    effect_digits,
    effect_note,
    facts,
    has_open_ranking,
    open_ranks,
    plain_text,
    question_caption,
    requested_row,
    row_warning,
    top_units_by_level,
    what_if_captions,
)
from reagent.views.text import NEWLINE, all_labels, label, sanitize, shorten, split_into_pieces, template_text
from reagent.views.tracing import trace_view_data

TITLE_LENGTH = 60
TOOLTIP_LENGTH = 500
TEMPLATE_LENGTH = 160
SIGNIFICANT_DIGITS = 6  # enough for a drawing, and the page stays small

# Characters that could end the script element or start a comment in it. The \u escapes are the same JSON.
_SCRIPT_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def render_page(explanation: Explanation, unit: str | None = None) -> str:
    """Render a whole HTML document that works without a network."""
    return render_document(page_title(explanation), render_fragment(explanation, unit))


def render_fragment(explanation: Explanation, unit: str | None = None) -> str:
    """Render a part of a document, which may contain several of them."""
    data = to_view_data(explanation, unit)
    return render_component(data, f"<p>{escape(summarize(explanation))}</p>", extra=trace_script([data]))


def render_document(title: str, fragment: str) -> str:
    """Render a whole HTML document around a fragment."""
    return Template(read_asset("page.html")).substitute(title=escape(title), fragment=fragment)


def render_component(
    data: dict[str, Any] | list[dict[str, Any]], fallback: str, view: str = "reagentView", extra: Sequence[str] = ()
) -> str:
    """Render what the function `view` of the scripts draws.

    `fallback` is the HTML where no script runs, and `extra` are further scripts and styles.
    """
    assets = ["view.css", "view.js", *extra]
    return Template(read_asset("fragment.html")).substitute(
        style="".join(read_asset(name) for name in assets if name.endswith(".css")),
        script="".join(read_asset(name) for name in assets if name.endswith(".js")),
        view=view,
        data=_to_embedded_json(data),
        fallback=fallback,
    )


def trace_script(views: Iterable[dict[str, Any]]) -> list[str]:
    """The script that draws a trace, if one of the views has one."""
    return ["trace.js"] if any(view["trace"] for view in views) else []


def page_title(explanation: Explanation) -> str:
    """Write the question as plain text."""
    explanation, row = with_cut_marked(explanation), requested_row(explanation)
    text = explanation.completion if row is None else explanation.output[row].text
    if explanation.target.get("kind") == "contrast":
        return f"Why “{_shorten_title(text)}” and not “{_shorten_title(str(explanation.target.get('text', '')))}”?"
    return f"Why “{_shorten_title(text)}”?"


def to_view_data(explanation: Explanation, unit: str | None = None) -> dict[str, Any]:
    """Collect the data that `reagentView` in view.js draws, as plain JSON.

    The first row is that of the answer as a whole, if there is one; the others belong to the output units.
    """
    shown = displayed(explanation, unit)
    rows = [_row(shown, t, len(shown.input) + t) for t in range(len(shown.output))]
    if len(rows) > 1 and requested_row(shown) is None:
        rows.insert(0, _whole_row(shown))
    return {
        "facts": facts(shown),
        "inputs": len(shown.input),
        "focus": requested_row(shown) or 0,
        "noun": context_noun(shown),
        "outputNoun": output_noun(shown, explanation),
        "template": _template(shown),
        "pieces": [[piece.text, str(piece.kind), piece.positions] for piece in split_into_pieces(shown)],
        "tokens": [
            {"label": name, "short": shorten(name, NAME_LENGTH), "ids": token.ids, "protected": token.protected}
            for name, token in zip(all_labels(shown), shown.context(-1) + shown.output[-1:], strict=True)
        ]
        if shown.output
        else [],
        "unit": sanitize(shown.effect_unit or ""),
        "digits": effect_digits(shown),
        "topCount": TOP_COUNT,
        "openSign": OPEN_SIGN,
        "openRanksNote": OPEN_RANKS_NOTE,
        "rows": rows,
        "trace": trace_view_data(shown),
    }


def _template(explanation: Explanation) -> tuple[str, str] | None:
    """Return the text of the chat template in one short line, and all of it."""
    text = template_text(explanation)
    return (shorten(text.replace("\n", NEWLINE), TEMPLATE_LENGTH), text) if text else None


def _whole_row(explanation: Explanation) -> dict[str, Any]:
    """Collect the row of the answer as a whole."""
    row = _row(explanation.whole(), 0, len(explanation.input))
    row |= {"end": len(explanation.input) + len(explanation.output), "isWhole": True}
    row["whatIf"] = list(answer_what_if_captions(explanation))
    if explanation.answer is None:  # the tests and the warnings belong to the output units
        warned = [t for t in range(len(explanation.output)) if row_warning(explanation, t)]
        row["sufficiency"] = describe_sufficiency(explanation, None)
        row["warning"] = "".join(f"{line}. " for line in answer_warnings(explanation)).strip()
        row["openRanking"] = bool(warned) and all(has_open_ranking(explanation, t) for t in warned)
    return row


def _row(explanation: Explanation, target: int, start: int) -> dict[str, Any]:
    """Collect the numbers and texts about one output unit, whose position in the running text is `start`."""
    row, name = explanation[target], all_labels(explanation)[len(explanation.input) + target]
    return {
        "start": start,
        "end": start + 1,
        "isWhole": False,
        "label": name,
        "short": shorten(name, NAME_LENGTH),
        "textStart": row.token.start,
        "scores": _round(row.scores),
        "effects": _round(row.effects or ()),
        "stderr": _round(row.stderr or ()),
        "question": question_caption(explanation, target),
        "probability": describe_probability(explanation, target),
        "contrast": contrast_label(explanation, target),
        "warning": f"This output {reason}." if (reason := row_warning(explanation, target)) else "",
        "openRanking": has_open_ranking(explanation, target),
        "effectNote": effect_note(explanation, target),
        "openRanks": open_ranks(explanation, target) if explanation.stderr else [],
        "groups": [[group.letter, group.units, group.caption] for group in describe_groups(explanation, target)],
        "groupLetters": group_letters(explanation, target),
        "sufficiency": describe_sufficiency(explanation, target),
        "whatIf": list(what_if_captions(explanation, target)),
        "levels": [
            [
                noun,
                [
                    [
                        *_names(label(row.token)),
                        row.score,
                        row.effect,
                        row.stderr,
                        _strongest(explanation, target, row.token),
                    ]
                    for row in rows
                ],
            ]
            for noun, rows in top_units_by_level(explanation, target)
        ],
    }


def summarize(explanation: Explanation) -> str:
    """Write the answer in one line, for readers without scripts: a notebook on a code host, an e-mail."""
    if not explanation.output:
        return "There is no output token to explain."
    shown = displayed(explanation)
    why, row = main_row(shown)
    names = [shorten(name, NAME_LENGTH) for name in all_labels(why)]
    best = ", ".join(f"{names[unit.position]} {unit.score:.2f}" for unit in why.top(3, row))
    annotated = annotated_row(shown)
    test = describe_sufficiency(*annotated)
    captions = [*group_captions(*annotated), *([test.caption] if test else [])]
    answer = f"{plain_text(question_caption(why, row))} Most important {context_noun(why)}s: {best}"
    return ". ".join([answer, *map(plain_text, captions)])


def _strongest(explanation: Explanation, target: int, part: Token) -> int:
    """The position of the strongest unit inside a larger part of the prompt."""
    inside = [i for i, unit in enumerate(explanation.input) if part.start <= unit.start < part.end]
    return max(inside, key=lambda i: explanation.scores[target][i], default=0)


def _names(text: str) -> tuple[str, str]:
    """Return a short name, and a longer one for the tooltip."""
    return shorten(text, NAME_LENGTH), shorten(text, TOOLTIP_LENGTH)


def _shorten_title(text: str) -> str:
    return shorten(" ".join(sanitize(text).split()), TITLE_LENGTH)


def _to_embedded_json(data: object) -> str:
    # ASCII only, which excludes line separators, lone surrogates and encoding problems.
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_SCRIPT_ESCAPES)


def _round(row: Iterable[float]) -> list[float]:
    return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in row]


@cache
def read_asset(name: str) -> str:
    """Read a file of the folder `assets`."""
    return files("reagent.views").joinpath("assets", name).read_text(encoding="utf-8")
