"""The order of importance is searched with the surrogate and then measured."""

import numpy as np
import pytest

from reagent import Explanation, explain
from reagent.case import Floats, Ids
from reagent.methods import reagent_fast
from reagent.methods.importance_order import ImportanceOrder, OrderSearch, _neighbours
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import Requests
from reagent.testing import ScriptedModel

WORDS = tuple(f"w{i}" for i in range(40))


def additive(weights: dict[int, float], nothing: float = 0.0) -> ScriptedModel:
    """A model whose logit of w0 is a sum over the words that are there."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = nothing + sum(value * (context == word).any(-1) for word, value in weights.items())
        table[:, 39] = 20.0  # so that drops are differences of logits
        return table

    return ScriptedModel(WORDS, logits)


def explained(weights: dict[int, float], units: int = 30, **options: object) -> Explanation:
    prompt = "".join(f" w{i}" for i in range(1, units + 1)).strip()
    return explain(additive(weights), prompt, target=" w0", **options)


def test_units_are_ordered_by_what_they_add() -> None:
    why = explained({3: 5.0, 11: 4.0, 20: 3.0, 27: 2.0, 8: 1.0})
    assert [unit.token.text.strip() for unit in why.top(5)] == ["w3", "w11", "w20", "w27", "w8"]
    scores = np.array([unit.score for unit in why.top(5)])
    assert scores == pytest.approx(np.array([5, 4, 3, 2, 1]) / 15, abs=0.06)


def test_an_order_is_not_longer_than_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reagent_fast, "FEW_UNITS", 2)
    why = explained({3: 5.0, 1: 2.0}, units=4)
    assert [unit.token.text.strip() for unit in why.top(2)] == ["w3", "w1"]
    assert sum(why.scores[0]) == pytest.approx(1)


def test_no_text_is_asked_for_twice_and_the_allowance_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    run = OrderSearch.run

    def watched(self: OrderSearch, order: ImportanceOrder, allowance: int) -> Requests:
        for wanted in run(self, order, allowance):
            assert all(self.probes.result(row, self.target) is None for row in wanted)
            asked.append(len(wanted))
            yield wanted
        assert sum(asked) <= allowance

    monkeypatch.setattr(OrderSearch, "run", watched)
    explained({3: 5.0, 11: 4.0, 20: 3.0, 27: 2.0, 8: 1.0})
    assert asked
    assert max(asked) > 6  # few large batches, not many small ones


def test_a_neighbour_differs_in_the_place_of_one_unit() -> None:
    order, pool = np.array([4, 2, 7]), np.array([2, 4, 7, 9])
    near = {tuple(row) for row in _neighbours(order, pool).tolist()}
    assert {(2, 4, 7), (4, 7, 2), (9, 4, 2), (4, 9, 2), (4, 2, 9)} <= near
    assert all(len(set(row)) == 3 for row in near)


def test_a_redundant_group_is_shown_together() -> None:
    """Three mentions of one fact: all are among the first five, although one of them would be sufficient."""
    words = [*range(1, 30)]
    words[4] = words[12] = words[25] = 33

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 6.0 * (context == 33).any(-1) + sum(1.5 * (context == w).any(-1) for w in (1, 2, 3, 4, 6))
        table[:, 39] = 20.0
        return table

    why = explain(ScriptedModel(WORDS, logits), " ".join(f"w{i}" for i in words), target=" w0")
    assert {4, 12, 25} <= {unit.position for unit in why.top(5)}


def test_measured_drops_leave_out_texts_without_later_units() -> None:
    """For the first of two targets, removing an output unit changes nothing, so these texts are other ones."""
    model = additive({3: 5.0})
    seen: list[ProbeSet] = []

    class Watched(ProbeSet):
        def __post_init__(self) -> None:
            super().__post_init__()
            seen.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reagent_fast, "ProbeSet", Watched)
        explain(model, " ".join(f"w{i}" for i in range(1, 20)), target=" w0 w1", removal="delete")
    (probes,) = seen
    drops = probes.measured_drops(0)
    assert all(len(key) == probes.before[0] for key in drops)
    alone = probes.set_of([2])
    assert drops[alone[: probes.before[0]].tobytes()] == pytest.approx(5.0, abs=0.01)


def test_an_order_is_found_again_when_its_texts_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that needs no further text still has an order."""
    monkeypatch.setattr(OrderSearch, "_smallest", lambda _: [])
    why = explained({3: 5.0, 11: 4.0, 20: 3.0})
    assert [unit.token.text.strip() for unit in why.top(3)] == ["w3", "w11", "w20"]
    assert why.top(1)[0].score == pytest.approx(5 / 12, abs=0.06)
