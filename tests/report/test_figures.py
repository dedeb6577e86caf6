"""Figures, checked through the artists that were drawn."""

import math

import pytest

from reagent.bench.records import Cell
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.report.analysis import SOFT, EntryResult, compare_with_random
from reagent.report.contents import Figure, Missing, Table, file_stem
from reagent.report.examples import load_examples
from reagent.report.figures import base
from reagent.report.figures.bars import bar_figures
from reagent.report.figures.base import OTHER_METHODS, Canvas
from reagent.report.figures.convergence import convergence_parts
from reagent.report.figures.cost import cost_figure
from reagent.report.figures.examples import distribution_figure, heat_map, shade_example
from reagent.report.formats.inline_svg import inline_svg
from reagent.report.load import Run, load_run
from reagent.views.plots import COLOUR
from report.runs import ANTECEDENT, DISTRACTOR, PROMPT, ListRecords, cell, make_explanation, several


@pytest.fixture
def canvases(monkeypatch: pytest.MonkeyPatch) -> list[Canvas]:
    """Every canvas, as it was when it was rendered."""
    rendered: list[Canvas] = []
    render = Canvas.render

    def keep(self: Canvas, id: str, title: str, caption: str) -> Figure:
        rendered.append(self)
        return render(self, id, title, caption)

    monkeypatch.setattr(base.Canvas, "render", keep)
    return rendered


def numbers(cells: list[Cell]) -> tuple[Run, list[EntryResult]]:
    run = load_run(ListRecords(cells))
    return run, compare_with_random(run)


def test_bars_are_as_long_as_the_log_ratio_and_pale_without_significance(canvases: list[Canvas]) -> None:
    significant = [{"soft_ns": (0.2 + 0.01 * i, 0.1 + 0.005 * i)} for i in range(8)]
    not_significant = [{"soft_ns": (0.1 + d, 0.09)} for d in (0.05, -0.05) * 4]
    cells = [*several(8, significant, method="reagent"), *several(8, not_significant, method="lime")]
    (figure,) = bar_figures(*numbers(cells), SOFT)
    assert isinstance(figure, Figure)
    bars = canvases[0].figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == pytest.approx([math.log(2), math.log(1 / 0.9)])  # type: ignore[attr-defined]
    assert [bar.get_alpha() for bar in bars] == [1.0, 0.35]
    assert figure.id == "token_longra_soft"
    assert COLOUR in figure.svg
    assert OTHER_METHODS in figure.svg


def test_the_number_of_the_paper_is_a_diamond(canvases: list[Canvas]) -> None:
    cells = several(3, [{"soft_ns": (0.2, 0.1)}] * 3, model="facebook/opt-350m", method="lime")
    next(bar_figures(*numbers(cells), SOFT))
    diamonds = [line for line in canvases[0].figure.axes[0].lines if line.get_marker() == "D"]
    assert [float(line.get_xdata()[0]) for line in diamonds] == [0.197]  # type: ignore[index]


def test_cost_has_a_logarithmic_axis_and_leaves_out_what_is_free(canvases: list[Canvas]) -> None:
    cells = [
        c
        for method, passes in (("reagent", 100), ("attention", 1), ("random", 0))
        for c in several(3, [{"soft_ns": (0.2, 0.1)}] * 3, method=method, passes=passes)
    ]
    figure = cost_figure(*numbers(cells))
    axes = canvases[0].figure.axes[0]
    assert axes.get_xscale() == "log"
    assert sorted(float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o") == [1, 100]  # type: ignore[index]
    assert figure.caption.endswith("are not shown: random.")  # type: ignore[union-attr]
    assert {text.get_text() for text in axes.texts} == {"reagent", "attention"}


def curve(replacer: str, slope: float) -> list[Cell]:
    cells = []
    for steps in (50, 100, 150, 200):
        settings = {"preset": "paper", "ratio": 0.3, "max_steps": steps, "runs": 1, "stop": False, "ahead": 50}
        given = [{"soft_nc": (0.1 * math.exp(slope * steps), 0.1)}] * 3
        cells += several(3, given, label=f"{replacer} {steps}", settings=settings, replacer=replacer)
    return cells


def test_convergence_has_a_line_for_each_replacer(canvases: list[Canvas]) -> None:
    figure, table = convergence_parts(*numbers([*curve("roberta", 0.01), *curve("random", 0.001)]))
    assert isinstance(figure, Figure)
    assert isinstance(table, Table)
    lines = {line.get_label(): line for line in canvases[0].figure.axes[0].lines if line.get_marker() == "o"}
    assert list(lines["roberta"].get_xdata()) == [50, 100, 150, 200]  # type: ignore[arg-type]
    assert list(lines["roberta"].get_ydata()) == pytest.approx([0.5, 1.0, 1.5, 2.0])  # type: ignore[arg-type]
    assert len(table.records) == 8
    assert figure.id == "convergence"


def test_probes_of_the_fast_preset_are_a_curve_too(canvases: list[Canvas]) -> None:
    fast = [
        one
        for n in (32, 64, 128, 256)
        for one in several(
            3,
            [{"soft_nc": (0.2, 0.1)}] * 3,
            label=f"fast {n}",
            settings={"preset": "fast", "probes": n, "ratio": LeaveOneOut(probes=n).share_replaced},  # follows from n
        )
    ]
    assert not any(isinstance(part, Missing) for part in convergence_parts(*numbers([*curve("self", 0.01), *fast])))
    lines = {line.get_label(): line for line in canvases[0].figure.axes[0].lines if line.get_marker() == "o"}
    assert set(lines) == {"as published", "fast"}
    assert list(lines["fast"].get_xdata()) == [32, 64, 128, 256]  # type: ignore[arg-type]


def test_what_the_published_search_needs_to_be_as_good() -> None:
    values = {32: (0.15, 0.1), 64: (0.3, 0.1), 128: (0.75, 0.1)}
    fast = [
        one
        for n in (32, 64, 128, 256)
        for one in several(
            3,
            [{"soft_nc": values.get(n, (0.1, 0.1)), "lds": (0.1 if n < 64 else 0.5, 0.0)}] * 3,
            label=f"fast {n}",
            settings={"preset": "fast", "probes": n},
        )
    ]
    _figure, equal, points = convergence_parts(*numbers([*curve("self", 0.01), *fast]))
    assert isinstance(equal, Table)
    row = next(row for row in equal.rows if row[1].text == "Soft-NC")
    assert [entry.text for entry in row[2:]] == ["50", "150", "> 200", "50"]
    values_of_lds = [line["value"] for line in points.records if line["metric"] == "lds"]  # type: ignore[union-attr]
    assert values_of_lds == pytest.approx([0.1, 0.5, 0.5, 0.5])


def test_without_a_curve_convergence_is_left_out() -> None:
    (missing,) = convergence_parts(*numbers(several(3, [{"soft_nc": (0.2, 0.1)}] * 3)))
    assert isinstance(missing, Missing)


def test_the_example_with_a_distractor_is_shown_and_shaded(canvases: list[Canvas]) -> None:
    plain = [cell({}, dataset="wikibio", level="sequence", example=i, output=" a b c d e f g") for i in range(2)]
    cells = [*plain, cell({}, example="x", marked=True), cell({}, example="x", marked=True, method="lime")]
    records = ListRecords(cells)
    examples = load_examples(records, load_run(records))
    figure = distribution_figure(examples)
    assert "The distractor is shaded." in figure.caption  # type: ignore[union-attr]
    shown = canvases[0].figure.axes
    assert [axes.get_ylabel() for axes in shown] == ["reagent", "lime"]
    words = PROMPT.split(" ")
    begin = len(PROMPT[: DISTRACTOR[0]].split())
    end = begin + len(PROMPT[slice(*DISTRACTOR)].split())
    band = shown[0].patches[0].get_bbox() if hasattr(shown[0].patches[0], "get_bbox") else None
    assert band is not None
    assert (band.x0, band.x1) == (begin - 0.5, end - 0.5)
    marked = [tick.get_text() for tick in shown[-1].get_xticklabels() if tick.get_fontweight() == "bold"]
    assert marked == ["·" + PROMPT[slice(*ANTECEDENT)]]
    assert len(shown[-1].get_xticks()) == len(words)


def test_a_heat_map_has_a_row_for_each_method(canvases: list[Canvas]) -> None:
    records = ListRecords([cell({}, method=method, top=" music.") for method in ("reagent", "lime", "random")])
    (example,) = load_examples(records, load_run(records))
    figure = heat_map(example)
    axes = canvases[0].figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["reagent", "lime", "random"]
    colours = axes.collections[0].get_facecolor()
    assert max(range(len(colours)), key=lambda i: colours[i][3]) == PROMPT.split().index("music.")
    assert figure.id.startswith("heat_longra_0_smollm2")
    text = shade_example(example)
    assert dict(text.texts[0].pieces)[" music."] == 1.0
    assert "".join(piece for piece, _ in text.texts[0].pieces) == PROMPT


def test_only_evaluated_targets_count() -> None:
    """Row 0 and row 5 are evaluated; what other rows say is not shown."""
    why = make_explanation(PROMPT, " one two three four five six", top=" Japan")
    cells = [cell({}, level="sequence", why=why)]
    records = ListRecords(cells)
    (example,) = load_examples(records, load_run(records))
    n = len(why.input)
    expected = [(why.scores[0][i] + why.scores[5][i]) / 2 for i in range(n)]
    assert example.scores["reagent"].tolist() == pytest.approx(expected)
    assert "mean over 2" in example.output


def test_an_inline_figure_follows_the_page_and_keeps_its_ids_to_itself() -> None:
    records = ListRecords([cell({})])
    (example,) = load_examples(records, load_run(records))
    figure = heat_map(example)
    text = inline_svg(figure)
    assert text.startswith('<svg viewBox="')
    assert "var(--text)" in text
    assert "<style" not in text
    assert "http" not in text.replace("xlink:href", "")
    assert all(f'id="{figure.id}-' in part for part in text.split("<g ")[1:2])


def test_different_names_give_different_file_names() -> None:
    assert file_stem("a.b") != file_stem("a_b")
    assert file_stem("../../etc") == file_stem("../../etc")
    assert "/" not in file_stem("../../etc")
