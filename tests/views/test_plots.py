import logging
import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.views.display import displayed
from reagent.views.plots import save_png
from views.samples import (
    by_sentence,
    chat,
    contested,
    contrast,
    every_kind,
    long_prompt,
    make,
    measured_order,
    pieces_of_words,
    with_what_if,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("name", [name for name, why in every_kind().items() if why.output])
def test_every_kind_is_drawn_quietly(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        path = save_png(every_kind()[name], tmp_path / "why.png")
    assert caplog.records == []
    width, height = size(path)
    assert 600 <= width <= 4000
    assert 400 <= height <= 2600


def test_the_picture_shows_the_scores(tmp_path: Path) -> None:
    from matplotlib.image import imread

    orange = imread(save_png(make(), tmp_path / "why.png"))[..., :3] - (0.878, 0.482, 0.0)
    columns = (np.abs(orange).max(axis=2) < 0.02).sum(axis=0)  # how high the bars are, pixel by pixel
    assert columns.max() > 100
    assert columns.argmax() < len(columns) / 3  # " Japan" is the fifth of 33 tokens
    assert np.percentile(columns, 60) < columns.max() / 10


def answer_of(why: Explanation) -> "Figure":
    from matplotlib.figure import Figure

    from reagent.views.plots import _Plot, find_fonts

    figure, fonts, shown = Figure(), find_fonts(), displayed(why)
    _Plot(shown, *fonts).draw_answer(figure, _Plot(shown.whole(), *fonts))
    return figure


def test_cells_that_do_not_exist_are_empty() -> None:
    figure = answer_of(make(completion=" Tokyo, and she"))
    cells = figure.axes[1].images[0].get_array()
    assert cells is not None
    assert np.ma.getmaskarray(cells).sum() == 3 + 2 + 1
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["·Tokyo", ",", "·and", "·she"]


def test_the_whole_answer_is_drawn_above_its_parts() -> None:
    figure = answer_of(pieces_of_words())
    bars, parts, _ = figure.axes
    assert figure.get_suptitle() == "Why Tokyo!?  probability 54.7% per token"
    assert bars.get_ylabel() == "score, whole answer"
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([0.1, 0.2, 0.0, 0.7])  # type: ignore[attr-defined]
    assert [label.get_text() for label in parts.get_xticklabels()] == ["Her", "aunt", "loves", "Japan"]
    assert [label.get_text() for label in parts.get_yticklabels()] == ["Tokyo", "!"]
    cells = parts.images[0].get_array()
    assert cells is not None
    assert cells.shape == (2, 4)  # only the prompt was removed
    assert not np.ma.getmaskarray(cells).any()


def test_words_are_drawn_unless_tokens_are_requested(tmp_path: Path) -> None:
    words, tokens = (save_png(pieces_of_words(), tmp_path / f"{unit}.png", unit=unit) for unit in ("word", "token"))
    assert save_png(pieces_of_words(), tmp_path / "default.png").read_bytes() == words.read_bytes()
    assert words.read_bytes() != tokens.read_bytes()


def bars(why: Explanation, target: int = 0) -> "Figure":
    from matplotlib.figure import Figure

    from reagent.views.plots import _Plot, find_fonts

    figure = Figure()
    _Plot(why, *find_fonts()).draw_bars(figure, target)
    return figure


def below(figure: "Figure") -> str:
    return " ".join(figure.get_supxlabel().split())


def test_an_open_rank_has_its_interval_over_its_bar() -> None:
    figure = bars(contested())
    marked = {
        text.get_position()[0]: text.get_text().strip() for text in figure.axes[0].texts if text.get_text().strip()
    }
    assert marked == {0: "1–2", 1: "1–2", 3: "4–5", 4: "4–5"}
    assert "rank not settled" in below(figure)
    assert "rank not settled" not in below(bars(make(effects=True)))


def test_exact_effects_have_no_error_in_their_label() -> None:
    assert bars(measured_order()).axes[1].get_ylabel() == "effect (nats)"
    assert bars(measured_order((0.5,) * 5)).axes[1].get_ylabel() == "effect ± stderr (nats)"
    assert "rank not settled" not in below(bars(measured_order((0.5,) * 5)))


def test_sentences_are_beside_horizontal_bars() -> None:
    figure = bars(by_sentence())
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [
        "My aunt moved to Japan to teach music.",
        "(Her old piano is still … our garage).",
        "She rents a small flat in the capital,",
    ]
    assert [bar.get_width() for bar in figure.axes[0].patches] == pytest.approx(by_sentence().scores[0])  # type: ignore[attr-defined]
    bottom, top = figure.axes[0].get_ylim()
    assert bottom > top  # the first sentence is on top


def test_a_chat_is_drawn_without_its_template() -> None:
    why = chat()
    figure = bars(why, 2)
    names = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert names[0] == "Answer"
    assert names[-2:] == ["·Tokyo", ","]
    assert not [name for name in names if "im_" in name]
    highest = max(figure.axes[0].patches, key=lambda bar: bar.get_height())  # type: ignore[attr-defined]
    assert names[round(highest.get_x() + 0.4)] == "·Japan"  # type: ignore[attr-defined]


def test_the_heat_map_of_a_chat_has_no_template_either() -> None:
    bars, parts, _ = answer_of(chat()).axes
    names = [label.get_text() for label in parts.get_xticklabels()]
    assert names[0] == "Answer"
    assert not [name for name in names if "im_" in name]
    highest = max(bars.patches, key=lambda bar: bar.get_height())  # type: ignore[attr-defined]
    assert names[round(highest.get_x() + 0.4)] == "·Japan"  # type: ignore[attr-defined]


def test_the_requested_row_is_drawn(tmp_path: Path) -> None:
    requested = save_png(contrast(), tmp_path / "requested.png").read_bytes()
    assert requested == save_png(contrast(), tmp_path / "second.png", 1).read_bytes()
    assert bars(contrast(), 1).get_suptitle() == "Why ·Tokyo and not ·Osaka?  probability 54.7% against 4.5%"


def test_notes_contain_levels_and_what_if_captions() -> None:
    assert "with ·Italy instead of ·Japan: ·Rome 31.0%, ·Milan 9.0%, … (·Tokyo 0.4%)" in below(bars(with_what_if()))
    assert "By sentence: The spare key for the … Mary left. 0.27," in below(bars(long_prompt()))


def test_effects_are_drawn_with_their_errors() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _Plot, find_fonts

    figure = Figure()
    _Plot(contested(), *find_fonts()).draw_bars(figure, 0)
    [container] = figure.axes[1].containers
    points, _, [whiskers] = container.lines  # type: ignore[attr-defined]
    assert list(points.get_ydata()) == [5.5, 5.4, 3.0, 0.4, 0.3]
    assert whiskers.get_segments()[2][:, 1] == pytest.approx([2.7, 3.3])


def test_warnings_with_the_same_reason_are_one_line() -> None:
    figure = answer_of(make(completion=" Tokyo, and", stopped=["unsettled"] * 3))
    assert figure.get_supxlabel().count("Warning") == 1
    assert "Warning: 3 of 3 output tokens: ranking still open" in figure.get_supxlabel()


def test_a_warning_of_a_part_names_the_part() -> None:
    why = make(completion=" Tokyo, and", stopped=["condition", "maximum", "condition"])
    assert "Warning: ',' did not meet the stopping condition" in below(answer_of(why))
    assert "this output" not in below(answer_of(why))
    assert "Warning: this output did not meet the stopping condition" in below(bars(why, 1))


def test_long_labels_are_thinned_but_the_important_ones_stay() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _Plot, find_fonts

    why, figure = every_kind()["long"], Figure()
    _Plot(why, *find_fonts()).draw_bars(figure, 0)
    shown = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert 30 < len(shown) < 200
    assert "·w250" in shown


def test_one_target_or_all(tmp_path: Path) -> None:
    why = make(completion=" Tokyo, and")
    pictures = {target: save_png(why, tmp_path / f"{target}.png", target).read_bytes() for target in (None, 0, 2)}
    assert len(set(pictures.values())) == 3
    assert save_png(why, tmp_path / "last.png", -1).read_bytes() == pictures[2]
    with pytest.raises(InputError, match="no output token 3"):
        save_png(why, tmp_path / "none.png", 3)


def test_nothing_to_plot_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to plot"):
        save_png(make(completion=""), tmp_path / "why.png")


def test_pyplot_is_left_alone(tmp_path: Path) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()  # figures that other tests left open
    save_png(make(), tmp_path / "why.png")
    assert pyplot.get_fignums() == before


def test_a_path_that_cannot_be_written_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no folder"):
        save_png(make(), tmp_path / "missing" / "why.png")
