import logging
import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.views.plots import save_png
from views.samples import contested, every_kind, make

pytest.importorskip("matplotlib")


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


def test_cells_that_do_not_exist_are_empty() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _fonts, _Plot

    why, figure = make(completion=" Tokyo, and she"), Figure()
    _Plot(why, *_fonts()).heat_map(figure)
    cells = figure.axes[0].images[0].get_array()
    assert cells is not None
    assert np.ma.getmaskarray(cells).sum() == 3 + 2 + 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["·Tokyo", ",", "·and", "·she"]


def test_a_place_that_is_not_settled_has_a_sign_over_its_bar() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _fonts, _Plot

    def signs(why: Explanation) -> tuple[list[float], bool]:
        figure = Figure()
        _Plot(why, *_fonts()).bars(figure, 0)
        marked = [text.get_position()[0] for text in figure.axes[0].texts if text.get_text() == "≈"]
        return sorted(marked), "≈ place not settled" in figure.get_supxlabel()

    assert signs(contested()) == ([0, 1, 3, 4], True)
    assert signs(make(effects=True)) == ([], False)


def test_effects_are_drawn_with_their_errors() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _fonts, _Plot

    figure = Figure()
    _Plot(contested(), *_fonts()).bars(figure, 0)
    [container] = figure.axes[1].containers
    points, _, [whiskers] = container.lines  # type: ignore[attr-defined]
    assert list(points.get_ydata()) == [5.5, 5.4, 3.0, 0.4, 0.3]
    assert whiskers.get_segments()[2][:, 1] == pytest.approx([2.7, 3.3])


def test_warnings_with_the_same_reason_are_one_line() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _fonts, _Plot

    why, figure = make(completion=" Tokyo, and", stopped=["unsettled"] * 3), Figure()
    _Plot(why, *_fonts()).heat_map(figure)
    assert figure.get_supxlabel().count("Warning: 3 of 3 output tokens: ranking still open") == 1


def test_long_labels_are_thinned_but_the_important_ones_stay() -> None:
    from matplotlib.figure import Figure

    from reagent.views.plots import _fonts, _Plot

    why, figure = every_kind()["long"], Figure()
    _Plot(why, *_fonts()).bars(figure, 0)
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

    save_png(make(), tmp_path / "why.png")
    assert pyplot.get_fignums() == []


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'reagent-lm\[plots\]'"):
        save_png(make(), tmp_path / "why.png")


def test_a_path_that_cannot_be_written_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no folder"):
        save_png(make(), tmp_path / "missing" / "why.png")
