"""Figures as SVG inside an HTML page."""

import re

from markupsafe import Markup, escape

from reagent.report.contents import Figure
from reagent.report.figures.base import BACKGROUND, EDGE, INK, MUTED
from reagent.views.text import sanitize

# Colours of the figures, and the CSS variables of the page that replace them.
_VARIABLES = {INK: "var(--text)", MUTED: "var(--quiet)", EDGE: "var(--edge)", BACKGROUND: "var(--ground)"}


def inline_svg(figure: Figure) -> Markup:
    """The `<svg>` element of a figure, without metadata and styles, in the colours of the page."""
    start = figure.svg.index("<svg")
    body = figure.svg[figure.svg.index(">", start) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, variable)
    # Ids must be unique on the page, but two figures may use the same.
    body = re.sub(r'\bid="([^"]+)"', rf'id="{figure.id}-\1"', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\1{figure.id}-", body)
    label = escape(sanitize(figure.title))
    return Markup(f'<svg viewBox="{_view_box(figure)}" role="img" aria-label="{label}">{body}')


def svg_width(figure: Figure) -> float:
    """The width of a figure in inches."""
    return float(_view_box(figure).split()[2]) / 72


def _view_box(figure: Figure) -> str:
    return figure.svg.partition('viewBox="')[2].partition('"')[0]
