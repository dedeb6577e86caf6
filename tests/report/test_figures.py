"""What is drawn: read from the drawn parts themselves."""

import math

import pytest

from reagent.bench.records import Cell
from reagent.methods.reagent_fast import ReagentFast
from reagent.report.analysis import SOFT, Finding, findings
from reagent.report.contents import Drawing, safe
from reagent.report.figures import base
from reagent.report.figures.bars import bar_figures, cost_figure
from reagent.report.figures.base import OTHERS, Sheet, inline
from reagent.report.figures.convergence import convergence
from reagent.report.figures.examples import chosen_examples, distribution, heat_map, shaded
from reagent.report.load import Run, read
from reagent.report.tables.base import Missing, Table
from reagent.views.plots import COLOUR
from report.runs import ANTECEDENT, DISTRACTOR, PROMPT, Kept, cell, explained, several


@pytest.fixture
def sheets(monkeypatch: pytest.MonkeyPatch) -> list[Sheet]:
    """Every sheet that is drawn on, as it was when it was finished."""
    found: list[Sheet] = []
    finish = Sheet.drawing

    def keep(self: Sheet, id: str, title: str, caption: str) -> Drawing:
        found.append(self)
        return finish(self, id, title, caption)

    monkeypatch.setattr(base.Sheet, "drawing", keep)
    return found


def numbers(cells: list[Cell]) -> tuple[Run, list[Finding]]:
    run = read(Kept(cells))
    return run, findings(run)


def test_bars_are_as_long_as_the_log_ratio_and_pale_without_significance(sheets: list[Sheet]) -> None:
    sure = [{"soft_ns": (0.2 + 0.01 * i, 0.1 + 0.005 * i)} for i in range(8)]
    unsure = [{"soft_ns": (0.1 + d, 0.09)} for d in (0.05, -0.05) * 4]
    run, found = numbers([*several(8, sure, method="reagent"), *several(8, unsure, method="lime")])
    (figure,) = bar_figures(run, found, SOFT)
    assert isinstance(figure, Drawing)
    bars = sheets[0].figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == pytest.approx([math.log(2), math.log(1 / 0.9)])  # type: ignore[attr-defined]
    assert [bar.get_alpha() for bar in bars] == [1.0, 0.35]
    assert figure.id == "token_longra_soft"
    assert COLOUR in figure.svg
    assert OTHERS in figure.svg


def test_the_papers_number_is_a_diamond(sheets: list[Sheet]) -> None:
    cells = several(3, [{"soft_ns": (0.2, 0.1)}] * 3, model="facebook/opt-350m", method="lime")
    next(bar_figures(*numbers(cells), SOFT))
    diamonds = [line for line in sheets[0].figure.axes[0].lines if line.get_marker() == "D"]
    assert [float(line.get_xdata()[0]) for line in diamonds] == [0.197]  # type: ignore[index]


def test_cost_has_a_logarithmic_axis_and_leaves_out_what_is_free(sheets: list[Sheet]) -> None:
    cells = [
        c
        for method, passes in (("reagent", 100), ("attention", 1), ("random", 0))
        for c in several(3, [{"soft_ns": (0.2, 0.1)}] * 3, method=method, passes=passes)
    ]
    figure = cost_figure(*numbers(cells))
    axes = sheets[0].figure.axes[0]
    assert axes.get_xscale() == "log"
    assert sorted(float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o") == [1, 100]  # type: ignore[index]
    assert figure.caption.endswith("not shown: random.")  # type: ignore[union-attr]
    assert {text.get_text() for text in axes.texts} == {"reagent", "attention"}


def curve(replacer: str, slope: float) -> list[Cell]:
    cells = []
    for steps in (50, 100, 150, 200):
        settings = {"preset": "paper", "ratio": 0.3, "max_steps": steps, "runs": 1, "stop": False, "ahead": 50}
        given = [{"soft_nc": (0.1 * math.exp(slope * steps), 0.1)}] * 3
        cells += several(3, given, label=f"{replacer} {steps}", settings=settings, replacer=replacer)
    return cells


def test_convergence_has_a_line_for_each_replacer(sheets: list[Sheet]) -> None:
    found = convergence(*numbers([*curve("roberta", 0.01), *curve("random", 0.001)]))
    assert not isinstance(found, Missing)
    figure, table = found
    assert isinstance(table, Table)
    lines = {line.get_label(): line for line in sheets[0].figure.axes[0].lines if line.get_marker() == "o"}
    assert list(lines["roberta"].get_xdata()) == [50, 100, 150, 200]  # type: ignore[arg-type]
    assert list(lines["roberta"].get_ydata()) == pytest.approx([0.5, 1.0, 1.5, 2.0])  # type: ignore[arg-type]
    assert len(table.records) == 8
    assert figure.id == "convergence"


def test_probes_of_the_fast_preset_are_a_curve_too(sheets: list[Sheet]) -> None:
    fast = [
        one
        for n in (32, 64, 128, 256)
        for one in several(
            3,
            [{"soft_nc": (0.2, 0.1)}] * 3,
            label=f"fast {n}",
            settings={"preset": "fast", "probes": n, "ratio": ReagentFast(probes=n).share_replaced},  # follows from n
        )
    ]
    found = convergence(*numbers([*curve("self", 0.01), *fast]))
    assert not isinstance(found, Missing)
    lines = {line.get_label(): line for line in sheets[0].figure.axes[0].lines if line.get_marker() == "o"}
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
    _figure, equal, points = convergence(*numbers([*curve("self", 0.01), *fast]))  # type: ignore[misc]
    assert isinstance(equal, Table)
    row = next(row for row in equal.rows if row[1].text == "Soft-NC")
    assert [entry.text for entry in row[2:]] == ["50", "150", "> 200", "50"]
    values_of_lds = [line["value"] for line in points.records if line["metric"] == "lds"]  # type: ignore[union-attr]
    assert values_of_lds == pytest.approx([0.1, 0.5, 0.5, 0.5])


def test_without_a_curve_convergence_is_left_out() -> None:
    assert isinstance(convergence(*numbers(several(3, [{"soft_nc": (0.2, 0.1)}] * 3))), Missing)


def test_the_example_with_a_distractor_is_shown_and_shaded(sheets: list[Sheet]) -> None:
    plain = [cell({}, dataset="wikibio", level="sequence", example=i, said=" a b c d e f g") for i in range(2)]
    cells = [*plain, cell({}, example="x", marked=True), cell({}, example="x", marked=True, method="lime")]
    records = Kept(cells)
    examples = chosen_examples(records, read(records))
    figure = distribution(examples)
    assert "the distractor is shaded" in figure.caption  # type: ignore[union-attr]
    shown = sheets[0].figure.axes
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


def test_a_heat_map_has_a_row_for_each_method(sheets: list[Sheet]) -> None:
    records = Kept([cell({}, method=method, top=" music.") for method in ("reagent", "lime", "random")])
    (example,) = chosen_examples(records, read(records))
    figure = heat_map(example)
    axes = sheets[0].figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["reagent", "lime", "random"]
    colours = axes.collections[0].get_facecolor()
    assert max(range(len(colours)), key=lambda i: colours[i][3]) == PROMPT.split().index("music.")
    assert figure.id.startswith("heat_longra_0_smollm2")
    text = shaded(example)
    assert dict(text.texts[0][1])[" music."] == 1.0
    assert "".join(piece for piece, _ in text.texts[0][1]) == PROMPT


def test_only_looked_at_targets_count() -> None:
    """Row 0 and row 5 are evaluated; what other rows say is not shown."""
    why = explained(PROMPT, " one two three four five six", top=" Japan")
    cells = [cell({}, level="sequence", why=why)]
    records = Kept(cells)
    (example,) = chosen_examples(records, read(records))
    n = len(why.input)
    expected = [(why.scores[0][i] + why.scores[5][i]) / 2 for i in range(n)]
    assert example.scores["reagent"].tolist() == pytest.approx(expected)
    assert "mean over 2" in example.said


def test_an_inline_figure_follows_the_page_and_keeps_its_ids_to_itself() -> None:
    records = Kept([cell({})])
    (example,) = chosen_examples(records, read(records))
    figure = heat_map(example)
    text = inline(figure)
    assert text.startswith('<svg viewBox="')
    assert "var(--text)" in text
    assert "<style" not in text
    assert "http" not in text.replace("xlink:href", "")
    assert all(f'id="{figure.id}-' in part for part in text.split("<g ")[1:2])


def test_names_of_files_stay_apart() -> None:
    assert safe("a.b") != safe("a_b")
    assert safe("../../etc") == safe("../../etc")
    assert "/" not in safe("../../etc")
