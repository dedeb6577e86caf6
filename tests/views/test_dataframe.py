import sys

import pytest

from reagent.errors import InputError
from views.samples import every_kind, hostile, make


def test_a_table_has_a_row_for_each_number() -> None:
    why = make(completion=" Tokyo, and", stderr=True)
    table = why.to_frame()
    assert list(table.columns) == [
        "target", "output", "position", "text", "part", "protected", "score", "effect", "stderr", "shapley_value",
        "group",
    ]  # fmt: skip
    assert len(table) == sum(map(len, why.scores))
    assert table.groupby("target").score.sum().tolist() == pytest.approx([1, 1, 1])
    last = table[table.target == 2]
    assert last.score.tolist() == list(why.scores[2])
    assert last.effect.tolist() == list(why.effects[2])  # type: ignore[index]
    assert last.text.tolist() == [token.text for token in why.context(2)]
    assert last.part.tolist()[-3:] == ["prompt", "output", "output"]
    assert set(last.output) == {" and"}
    best = table[table.target == 0].nlargest(1, "score").iloc[0]
    assert (best.text, best.position) == (" Japan", 4)


def test_what_a_method_does_not_have_is_missing() -> None:
    table = make().to_frame()
    assert table.effect.isna().all()
    assert table.stderr.isna().all()
    assert (table.score.dtype, table.effect.dtype) == ("float64", "float64")


@pytest.mark.parametrize("name", every_kind())
def test_every_explanation_has_a_table(name: str) -> None:
    why = every_kind()[name]
    assert len(why.to_frame()) == sum(map(len, why.scores))


def test_text_stays_as_it_is() -> None:
    assert hostile().prompt in "".join(hostile().to_frame().query("target == 0").text)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs pandas.*reagent-lm\[frames\]"):
        make().to_frame()
