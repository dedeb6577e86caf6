"""The fast preset: dealt fairly, shared by all targets, honest about its errors."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from methods.planted import WORDS, additive, both_needed
from reagent import explain
from reagent.case import Floats, Ids
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.methods.base import Progress
from reagent.methods.effects import Effects
from reagent.methods.reagent_fast import ReagentFast, settled
from reagent.models.huggingface import HuggingFaceModel
from reagent.sampling import BalancedSampler, sample_balanced
from reagent.testing.scripted import ScriptedModel

PROMPT = " ".join(f"w{i % 12 + 1}" for i in range(24))


def planted_costs(seed: int = 0) -> Floats:
    """Costs of every word at every position of PROMPT: three matter, the original costs nothing."""
    rng = np.random.default_rng(seed)
    costs = np.zeros((24, len(WORDS)))
    for position, size in ((3, 4.0), (11, 2.0), (20, 1.0)):
        costs[position] = size * rng.gamma(4, 0.25, len(WORDS))
    costs[np.arange(24), [i % 12 + 1 for i in range(24)]] = 0
    return costs


def truth(costs: Floats, original: Ids) -> Floats:
    """The mean cost over all other words, which is what replacer `random` draws from."""
    others = np.ones(costs.shape, dtype=bool)
    others[np.arange(len(costs)), original] = False
    return (costs * others).sum(1) / others.sum(1)


@pytest.mark.parametrize("seed", range(5))
def test_planted_causes_come_out_in_their_order(seed: int) -> None:
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=96, seed=seed)
    assert [c.position for c in why.top(3)] == [3, 11, 20]
    assert why.effect_unit == "nats"
    assert why.method["preset"] == "fast"


@pytest.mark.parametrize("probes", [96, 144])  # hands of two; one at a time, and later where least is known
def test_intervals_cover_the_known_answer(probes: int) -> None:
    costs = planted_costs()
    causes, rest = [3, 11, 20], [i for i in range(24) if i not in (3, 11, 20)]
    inside = []
    for seed in range(80):
        options = {"replacer": "random", "replacer_options": {"candidates": 2000}, "probes": probes, "seed": seed}
        why = explain(additive(costs), PROMPT, target=" w0", **options)
        known = truth(costs, np.array([t.ids[0] for t in why.input]))
        inside.append(abs(np.array(why.effects[0]) - known) < 1.96 * np.array(why.stderr[0]) + 1e-9)
    assert 0.9 <= np.mean(inside, axis=0)[causes].mean() <= 0.98
    assert np.mean(inside, axis=0)[rest].min() == 1  # what costs nothing is known to


@pytest.mark.parametrize("candidates", [2000, 10])
def test_parts_of_several_words_have_alternatives_that_were_not_tried(candidates: int) -> None:
    rng = np.random.default_rng(3)
    original = np.arange(12) + 1
    costs = 2 * rng.gamma(0.5, 1, (12, len(WORDS)))
    costs[np.arange(12), original] = 0
    known = truth(costs, original).reshape(4, 3).sum(1)
    ends = [0, *np.cumsum([len(f" w{i}") for i in original]) - 1]
    spans = list(pairwise(ends[::3]))
    asked = {"target": " w0", "spans": spans, "replacer": "random", "replacer_options": {"candidates": candidates}}
    found = [explain(additive(costs), " ".join(f"w{i}" for i in original), seed=s, **asked) for s in range(40)]
    effects, errors = (np.array([getattr(why, name)[0] for why in found]) for name in ("effects", "stderr"))
    assert 0.9 <= (abs(effects - known) < 1.96 * errors).mean() <= 0.99
    claimed = np.sqrt((errors**2).mean(0)) / effects.std(0)
    assert 0.8 < claimed.min() <= claimed.max() < 1.5


def test_the_first_token_of_self_is_not_known_for_sure_since_its_candidates_were_drawn() -> None:
    costs = np.random.default_rng(3).gamma(0.5, 1, (12, len(WORDS)))
    for seed in range(3):
        why = explain(additive(costs), PROMPT[:23], target=" w0", replacer="self", probes=200, seed=seed)
        assert why.stderr is not None
        assert why.stderr[0][0] > 0.05
        assert max(why.stderr[0][1:]) < 0.01


@pytest.mark.parametrize("probes", [1, 4, 16])
def test_few_probes_leave_no_token_out_and_are_flagged(probes: int) -> None:
    assert turns_of(probes=probes).min() >= 1
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=probes)
    assert why.cost.stopped == ("few",)
    assert "give more probes" in why.warnings[0]
    assert max(why.stderr[0]) > 0.01


@pytest.mark.parametrize("asked", [{"stride": 3}, {"span": "w5"}])
def test_only_what_was_asked_about_decides_when_to_stop(asked: dict[str, Any]) -> None:
    muddle = np.random.default_rng(0).gamma(0.5, 1, (26, len(WORDS)))

    def logits(context: Ids) -> Floats:
        seen = np.eye(len(WORDS))[context]
        clear = 6.0 * seen[:, :1, 1] * (np.arange(len(WORDS)) == 5)
        open_end = -(muddle[: context.shape[1]] * seen).sum((1, 2))[:, None] * (np.arange(len(WORDS)) == 0)
        return clear if context.shape[1] == 24 else open_end

    model = ScriptedModel(WORDS, logits)
    alone = explain(model, PROMPT, target=" w5", replacer="random")
    among = explain(model, PROMPT, target=" w5 w0 w0", replacer="random", **asked)
    assert alone.cost.stopped[0] == among.cost.stopped[0] == "settled"
    assert among.cost.probes < 144
    assert explain(model, PROMPT, target=" w5 w0 w0", replacer="random").cost.probes == 256


def test_exactly_so_many_probes_whatever_the_number_of_targets(tiny_model: HuggingFaceModel) -> None:
    for tokens in (1, 5):
        why = explain(tiny_model, "The river runs through the old town", max_new_tokens=tokens, probes=40)
        assert why.cost.probes == 40
        assert why.cost.forward_passes == 40 + 1 + why.cost.proposals
        assert why.cost.stopping_tests == 0
        assert set(why.cost.stopped) <= {"fixed", "flat"}


def test_it_stops_when_the_top_is_settled_and_not_before() -> None:
    clear = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random")
    assert clear.cost.stopped == ("settled",)
    assert clear.cost.probes < 256
    rng = np.random.default_rng(0)
    muddle = rng.gamma(0.5, 1, (24, len(WORDS)))  # every position matters about as much
    open_end = explain(additive(muddle), PROMPT, target=" w0", replacer="random")
    assert open_end.cost.stopped == ("unsettled",)
    assert open_end.cost.probes == 256
    assert "still open" in open_end.warnings[0]


def test_every_row_is_a_distribution_over_what_stands_before(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "The river runs", max_new_tokens=3, probes=24)
    assert why.effects is not None
    assert why.stderr is not None
    for t, row in enumerate(why.scores):
        assert len(row) == len(why.effects[t]) == len(why.stderr[t]) == len(why.input) + t
        assert sum(row) == pytest.approx(1)
        assert all((score > 0) == (effect > 0) for score, effect in zip(row, why.effects[t], strict=True))


def test_an_earlier_output_token_can_be_the_cause() -> None:
    # "w0" follows only where the word before it is "w5", which is itself part of the continuation.
    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 6.0 * (context[:, -1] == 5)
        return table

    why = explain(ScriptedModel(WORDS, logits), "w1 w2 w3 w4", target=" w5 w0", replacer="random", probes=96)
    assert why.top(1, target=1)[0].position == 4
    assert why.scores[1][4] > 0.9


def test_nothing_that_helps_is_flagged_and_uniform() -> None:
    costs = -np.ones((24, len(WORDS))) / 24
    costs[np.arange(24), [i % 12 + 1 for i in range(24)]] = 0  # any replacement makes the target likelier
    why = explain(additive(costs - costs.max() + 0.0), PROMPT, target=" w0", replacer="random", probes=64)
    assert why.cost.stopped == ("flat",)
    np.testing.assert_allclose(why.scores[0], 1 / 24)
    assert "says nothing" in why.warnings[0] or "say nothing" in why.warnings[0]


def test_the_published_response_is_there_for_comparison() -> None:
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=96, response="g")
    assert why.effect_unit == "g"
    assert why.top(1)[0].position == 3


def test_progress_hands_out_explanations_that_get_surer() -> None:
    seen: list[Progress] = []
    rng = np.random.default_rng(0)
    muddle = rng.gamma(0.5, 1, (24, len(WORDS)))
    explain(additive(muddle), PROMPT, target=" w0", replacer="random", on_progress=seen.append)
    assert (seen[-1].done, seen[-1].total) == (256, 256)
    partial = [p.partial for p in seen if p.partial is not None]
    assert all(isinstance(p, Explanation) for p in partial)
    assert [p.cost.probes for p in partial] == [16, 32, 64, *range(80, 256, 32), 256]
    errors = [np.mean(p.stderr[0]) for p in partial]
    assert errors[-1] < errors[0]


@pytest.mark.parametrize(("size", "hand"), [(1, 1), (7, 1), (29, 3), (10, 10), (12, 5)])
def test_every_position_is_dealt_once_per_deck(size: int, hand: int) -> None:
    replaced, uniform = sample_balanced(size, hand, 60, 4, np.random.default_rng(0))
    hands = -(-size // hand)
    assert replaced.sum(1).max() <= hand
    assert replaced.sum(1).min() >= 1
    for start in range(0, 60 - hands, hands):
        np.testing.assert_array_equal(replaced[start : start + hands].sum(0), 1)
    assert (uniform >= 0).all()
    assert (uniform < 1).all()
    if 4 * hands <= 60:  # in the first four decks, each position has one number in each quarter
        used = [np.sort(uniform[: 4 * hands, i][replaced[: 4 * hands, i]]) for i in range(size)]
        np.testing.assert_array_equal((np.array(used) * 4).astype(int), np.tile(np.arange(4), (size, 1)))


def test_fewer_probes_are_the_first_of_more() -> None:
    few, many = (sample_balanced(29, 3, n, 10, np.random.default_rng(5)) for n in (64, 256))
    np.testing.assert_array_equal(few[0], many[0][:64])
    np.testing.assert_array_equal(few[1], many[1][:64])


def test_hands_are_as_small_as_the_number_of_probes_allows() -> None:
    """So that each token is replaced about six times by all probes together."""
    assert [ReagentFast(probes=n).hand(40) for n in (16, 32, 64, 128, 256)] == [4, 4, 4, 2, 1]
    assert [ReagentFast().hand(n) for n in (1, 28, 100, 1000)] == [1, 1, 2, 23]
    assert ReagentFast(probes=256, ratio=0.3).hand(40) == 12
    shared = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=120)
    assert shared.method["ratio"] == 0.05


def test_the_ranking_is_not_looked_at_before_every_token_had_three_turns() -> None:
    costs = planted_costs()
    assert explain(additive(costs), PROMPT, target=" w0", replacer="random").cost.probes >= 3 * 24
    clear = np.outer([4.0, 2.0, 1.0, 0.0], np.ones(len(WORDS)))
    few = explain(additive(clear), "w1 w2 w3 w4", target=" w0", replacer="random")
    assert few.cost.probes == 16


def turns_of(**options: float) -> Ids:
    """How often each token of PROMPT is replaced."""
    turns, planted = np.zeros(24, dtype=int), additive(planted_costs())

    def logits(context: Ids) -> Floats:
        turns[:] += (context != np.array([i % 12 + 1 for i in range(24)])).sum(0)
        return planted.logits(context)

    explain(ScriptedModel(WORDS, logits), PROMPT, target=" w0", replacer="random", **options)
    return turns


def test_further_turns_go_to_tokens_whose_effect_is_least_known() -> None:
    turns = turns_of(probes=144)
    assert turns.sum() == 144
    assert turns.min() >= 3
    assert set(np.argsort(-turns)[:2]) == {3, 11}


def test_a_share_that_was_asked_for_is_dealt_evenly() -> None:
    np.testing.assert_array_equal(turns_of(probes=144, ratio=0.01), 6)


def test_it_ends_where_all_candidates_of_all_tokens_were_tried() -> None:
    muddle = np.random.default_rng(0).gamma(0.5, 1, (6, len(WORDS)))
    why = explain(additive(muddle), PROMPT[:17], target=" w0", replacer="self", replacer_options={"candidates": 5})
    assert why.cost.probes < 80
    assert explain(additive(muddle), PROMPT[:17], target=" w0", replacer="self", probes=100).cost.probes == 100


def test_turns_end_where_all_candidates_were_used() -> None:
    dealer = BalancedSampler(2, 1, 3, np.random.default_rng(0))
    replaced, uniform = dealer.next_uncertain(6, np.array([1.0, 0.01]), enough=np.full(2, 3))
    np.testing.assert_array_equal(replaced.sum(0), 3)
    np.testing.assert_array_equal(np.sort((uniform[replaced[:, 0], 0] * 3).astype(int)), [0, 1, 2])


def test_settled_means_clear_of_the_rest_or_not_worth_settling() -> None:
    def effects(*pairs: tuple[float, float]) -> Effects:
        mean, stderr = (np.array(column) for column in zip(*pairs, strict=True))
        return Effects(mean, stderr, stderr**2)

    assert settled(effects((5, 0.2), (3, 0.2), (0.1, 0.1)), top=2)
    assert not settled(effects((5, 0.2), (3, 0.9), (2, 0.9)), top=2)
    assert settled(effects((5, 0.1), (0.1, 0.05), (0.1, 0.05)), top=2)
    assert settled(effects((5, 0.1)), top=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": 0}, "probes of preset 'fast' must be a whole number from 1 to 1000000, got 0"),
        ({"ratio": 2}, "ratio of preset 'fast'"),
        ({"response": "p"}, "unknown response 'p'"),
        ({"runs": 3}, "preset 'fast' of method 'reagent' has no option 'runs'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(both_needed({}), "w1 w2", target=" w0", **options)
