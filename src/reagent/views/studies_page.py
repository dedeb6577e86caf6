"""A prompt study as an HTML page: the template with its parts shaded, and what each part does.

`assets/study.js` draws the result of `to_view_data` with the functions and the style of the view of explanations.
Without scripts, the sentences and a table remain.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from reagent.prompt_study import Study, StudyPart
from reagent.views.html import render_component, render_document
from reagent.views.studies import (
    LEGEND,
    count,
    describe_measure,
    details,
    facts,
    format_interval,
    format_number,
    format_share,
    headline,
    label,
    lose,
    ranked,
)
from reagent.views.text import sanitize, shorten

EXAMPLES = 3  # inputs with the largest and with the smallest effect of a part
ANSWER_LENGTH = 80
_SLOT = re.compile(r"\{\{[-+]?\s*(.*?)\s*[-+]?\}\}", re.DOTALL)


def render_page(study: Study) -> str:
    """Render a whole HTML document that works without a network."""
    return render_document(f"Prompt study of {shorten(sanitize(study.name), 60)}", render_fragment(study))


def render_fragment(study: Study) -> str:
    """Render a part of a document, which may contain several of them."""
    return render_component(
        to_view_data(study), "\n".join(_fallback(study)), view="reagentStudy", extra=["study.css", "study.js"]
    )


def to_view_data(study: Study) -> dict[str, Any]:
    """Collect the data that `reagentStudy` in study.js draws, as plain JSON."""
    order = [study.parts.index(part) for part in ranked(study)]
    numbers = [value for part in study.parts for value in (part.effect.low, part.effect.high, part.effect.mean)]
    ends = [value for value in numbers if value is not None]
    used = [verdict for verdict in LEGEND if any(part.verdict == verdict for part in study.parts)]
    return {
        "kind": "study",
        "headline": headline(study),
        "details": details(study),
        "measured": describe_measure(study),
        "unit": sanitize(study.unit),
        "threshold": study.threshold,
        "low": min([*ends, -study.threshold]),
        "high": max([*ends, study.threshold]),
        "order": order,
        "parts": [_part(study, part) for part in study.parts],
        "template": template_pieces(study),
        "legend": [[verdict, LEGEND[verdict]] for verdict in used],
        "facts": facts(study),
    }


def template_pieces(study: Study) -> list[tuple[str, int | None]]:
    """The template in pieces, each with the number of its part; other text has none."""
    slots = {part.name: i for i, part in enumerate(study.parts) if part.kind == "slot"}
    pieces: list[tuple[str, int | None]] = []
    end = 0
    for number, part in enumerate(study.parts):
        start = study.template.find(part.text, end) if part.kind != "slot" else -1
        if start < 0:
            continue
        pieces += [*_split_at_slots(study.template[end:start], None, slots), *_split_at_slots(part.text, number, slots)]
        end = start + len(part.text)
    pieces += _split_at_slots(study.template[end:], None, slots)
    return [(sanitize(text), part) for text, part in pieces if text]


def _split_at_slots(text: str, part: int | None, slots: dict[str, int]) -> Iterator[tuple[str, int | None]]:
    end = 0
    for match in _SLOT.finditer(text):
        if match[1] in slots:
            yield text[end : match.start()], part
            yield match[0], slots[match[1]]
            end = match.end()
    yield text[end:], part


def _part(study: Study, part: StudyPart) -> dict[str, Any]:
    effect = part.effect
    return {
        "label": label(part),
        "kind": part.kind,
        "verdict": part.verdict,
        "mean": effect.mean,
        "low": effect.low,
        "high": effect.high,
        "number": format_number(effect.mean),
        "interval": format_interval(effect),
        "matters": format_share(part.matters),
        "tokens": f"{part.tokens:.0f}",
        "caption": _caption(study, part),
        "examples": _examples(study, part),
    }


def _caption(study: Study, part: StudyPart) -> str:
    effect = part.effect
    if effect.mean is None:
        return "No input has this part."
    beyond = f"In {format_share(part.matters)} of {count(effect.inputs, 'input')} the change is beyond the threshold."
    changed = "With other values" if part.name in study.alternatives else "Without it"
    return f"{changed} the answers {lose(effect, study)}. {beyond}"


def _examples(study: Study, part: StudyPart) -> list[list[str]]:
    """The inputs with the largest and the smallest effects: id, answer and effect."""
    order = sorted(
        (i for i, effect in enumerate(part.effects) if effect is not None), key=lambda i: -(part.effects[i] or 0.0)
    )
    shown = order if len(order) <= 2 * EXAMPLES else [*order[:EXAMPLES], *order[-EXAMPLES:]]
    return [
        [
            shorten(sanitize(study.inputs[i].id), 20),
            shorten(" ".join(sanitize(study.inputs[i].answer).split()), ANSWER_LENGTH),
            format_number(part.effects[i]),
        ]
        for i in shown
    ]


# --- without scripts ---


def _fallback(study: Study) -> Iterator[str]:
    yield f"<p><b>{escape(headline(study))}</b></p>"
    for line in details(study):
        yield f"<p>{escape(line)}</p>"
    yield f"<table><tr><th>part</th><th>verdict</th><th>effect ({escape(study.unit)})</th><th>interval</th></tr>"
    for part in ranked(study):
        cells = (label(part), part.verdict, format_number(part.effect.mean), format_interval(part.effect))
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    yield "</table>"
    yield f"<p>measured: {escape(describe_measure(study))}</p>"
