"""Explanations as interaction values of shapiq."""

import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reagent.errors import InputError
from reagent.explanation import Explanation
from views.samples import make


@dataclass(frozen=True)
class Group:
    """The fields of a measured group that the export reads."""

    units: tuple[int, ...]
    effect: float
    single: float


def with_groups(why: Explanation, groups: Any) -> Explanation:
    copy = replace(why)
    object.__setattr__(copy, "groups", groups)
    return copy


def by(method: str, why: Explanation) -> Explanation:
    return replace(why, method={**why.method, "id": method})


def test_effects_of_single_units_and_measured_pairs() -> None:
    pytest.importorskip("shapiq")
    why = by("reagent", make(completion=" Tokyo, and", stderr=True))
    groups = ((), (Group((1, 4), effect=5.0, single=1.5), Group((0, 1, 2), effect=1.0, single=3.0)), ())
    values = with_groups(why, groups).to_shapiq(1)
    assert (values.index, values.n_players, values.min_order, values.max_order) == (
        "Co-Moebius",
        len(why.context(1)),
        1,
        2,
    )
    assert [values[(i,)] for i in range(values.n_players)] == pytest.approx(list(why.effects[1]))  # type: ignore[index]
    assert values[(1, 4)] == pytest.approx(-3.5)
    assert values.estimation_budget == why.cost.forward_passes
    assert len(values.interactions) == values.n_players + 1


def test_without_pairs_the_order_is_one() -> None:
    pytest.importorskip("shapiq")
    values = by("occlusion", make(stderr=True)).to_shapiq()
    assert (values.index, values.max_order) == ("Co-Moebius", 1)


@pytest.mark.parametrize("method", ["shapley", "lime"])
def test_effects_of_other_methods_are_one_value_for_each_unit(method: str) -> None:
    pytest.importorskip("shapiq")
    why = by(method, make(stderr=True))
    values = with_groups(why, ((Group((0, 1), effect=5.0, single=1.5),),)).to_shapiq()
    assert (values.index, values.max_order) == ("SV", 1)
    assert values[(4,)] == pytest.approx(why.effects[0][4])  # type: ignore[index]


def test_scores_are_exported_on_request_and_where_there_are_no_effects() -> None:
    pytest.importorskip("shapiq")
    for why, values in ((make(stderr=True), "scores"), (make(), None)):
        exported = why.to_shapiq(values=values)
        assert exported.index == "SV"
        assert [exported[(i,)] for i in range(exported.n_players)] == pytest.approx(list(why.scores[0]))


def test_only_exact_values_are_not_estimated() -> None:
    pytest.importorskip("shapiq")
    assert by("reagent", make()).to_shapiq().estimated
    assert not by("exact", make()).to_shapiq().estimated


def test_wrong_arguments_are_one_clear_error() -> None:
    with pytest.raises(InputError, match=r"'shares'.*effects, scores"):
        make().to_shapiq(values="shares")
    with pytest.raises(InputError, match="has no effects in nats"):
        make().to_shapiq(values="effects")
    with pytest.raises(InputError, match="9"):
        make().to_shapiq(9)


def test_without_shapiq_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapiq", None)
    with pytest.raises(InputError, match=r"need shapiq.*reagent-lm\[shapiq\]"):
        make().to_shapiq()
