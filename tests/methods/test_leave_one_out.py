"""The preset `leave-one-out`: balanced probes shared by all targets, and standard errors that cover the truth."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import reagent
from reagent.case import Floats, Ids
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.methods.base import Progress
from reagent.methods.effects import Effects
from reagent.methods.leave_one_out import LeaveOneOut, is_settled
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import WORDS, additive, all_of
from reagent.testing.scripted import ScriptedModel

explain = partial(reagent.explain, preset="leave-one-out")

PROMPT = " ".join(f"w{i % 12 + 1}" for i in range(24))


def planted_costs(seed: int = 0) -> Floats:
    """Costs of every word at every position of PROMPT: three positions matter, the original word costs nothing."""
    rng = np.random.default_rng(seed)
    costs = np.zeros((24, len(WORDS)))
    for position, size in ((3, 4.0), (11, 2.0), (20, 1.0)):
        costs[position] = size * rng.gamma(4, 0.25, len(WORDS))
    costs[np.arange(24), [i % 12 + 1 for i in range(24)]] = 0
    return costs


def truth(costs: Floats, original: Ids) -> Floats:
    """The mean cost over all other words, the candidates of replacer `random`."""
    others = np.ones(costs.shape, dtype=bool)
    others[np.arange(len(costs)), original] = False
    return (costs * others).sum(1) / others.sum(1)


@pytest.mark.parametrize("seed", range(5))
def test_planted_causes_come_out_in_their_order(seed: int) -> None:
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=96, seed=seed)
    assert [c.position for c in why.top(3)] == [3, 11, 20]
    assert why.effect_unit == "nats"
    assert why.method["preset"] == "leave-one-out"


@pytest.mark.parametrize("probes", [96, 144])  # blocks of two tokens; single tokens with adaptive probes
def test_intervals_cover_the_known_answer(probes: int) -> None:
    costs = planted_costs()
    causes, rest = [3, 11, 20], [i for i in range(24) if i not in (3, 11, 20)]
    inside = []
    for seed in range(40):
        options = {"replacer": "random", "replacer_options": {"candidates": 2000}, "probes": probes, "seed": seed}
        why = explain(additive(costs), PROMPT, target=" w0", **options)
        exact = truth(costs, np.array([t.ids[0] for t in why.input]))
        inside.append(abs(np.array(why.effects[0]) - exact) < 1.96 * np.array(why.stderr[0]) + 1e-9)
    assert 0.9 <= np.mean(inside, axis=0)[causes].mean() <= 0.98
    assert np.mean(inside, axis=0)[rest].min() == 1  # tokens without effect


@pytest.mark.parametrize("candidates", [2000, 10])
def test_intervals_of_units_of_several_words_cover_alternatives_that_were_not_tried(candidates: int) -> None:
    rng = np.random.default_rng(3)
    original = np.arange(12) + 1
    costs = 2 * rng.gamma(0.5, 1, (12, len(WORDS)))
    costs[np.arange(12), original] = 0
    exact = truth(costs, original).reshape(4, 3).sum(1)
    ends = [0, *np.cumsum([len(f" w{i}") for i in original]) - 1]
    spans = list(pairwise(ends[::3]))
    options = {
        "target": " w0",
        "prompt_spans": spans,
        "replacer": "random",
        "replacer_options": {"candidates": candidates},
    }
    result = [explain(additive(costs), " ".join(f"w{i}" for i in original), seed=s, **options) for s in range(40)]
    effects, errors = (np.array([getattr(why, name)[0] for why in result]) for name in ("effects", "stderr"))
    assert 0.9 <= (abs(effects - exact) < 1.96 * errors).mean() <= 0.99
    claimed = np.sqrt((errors**2).mean(0)) / effects.std(0)
    assert 0.8 < claimed.min() <= claimed.max() < 1.5


def test_the_first_token_of_self_has_an_error_because_its_candidates_are_a_sample() -> None:
    costs = np.random.default_rng(3).gamma(0.5, 1, (12, len(WORDS)))
    for seed in range(3):
        why = explain(additive(costs), PROMPT[:23], target=" w0", replacer="self", probes=200, seed=seed)
        assert why.stderr is not None
        assert why.stderr[0][0] > 0.05
        assert max(why.stderr[0][1:]) < 0.01


@pytest.mark.parametrize("probes", [1, 4, 16])
def test_few_probes_replace_every_token_and_are_flagged(probes: int) -> None:
    assert replicates_of(probes=probes).min() >= 1
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=probes)
    assert why.cost.stopped == ("few",)
    assert "give more probes" in why.warnings[0]
    assert max(why.stderr[0]) > 0.01


@pytest.mark.parametrize("options", [{"stride": 3}, {"target_span": "w5"}])
def test_only_explained_targets_decide_when_to_stop(options: dict[str, Any]) -> None:
    diffuse = np.random.default_rng(0).gamma(0.5, 1, (26, len(WORDS)))

    def logits(context: Ids) -> Floats:
        seen = np.eye(len(WORDS))[context]
        clear = 6.0 * seen[:, :1, 1] * (np.arange(len(WORDS)) == 5)
        unsettled = -(diffuse[: context.shape[1]] * seen).sum((1, 2))[:, None] * (np.arange(len(WORDS)) == 0)
        return clear if context.shape[1] == 24 else unsettled

    model = ScriptedModel(WORDS, logits)
    alone = explain(model, PROMPT, target=" w5", replacer="random")
    among = explain(model, PROMPT, target=" w5 w0 w0", replacer="random", **options)
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
    diffuse = rng.gamma(0.5, 1, (24, len(WORDS)))  # every position matters about as much
    unsettled = explain(additive(diffuse), PROMPT, target=" w0", replacer="random")
    assert unsettled.cost.stopped == ("unsettled",)
    assert unsettled.cost.probes == 256
    assert "still open" in unsettled.warnings[0]


def test_every_row_is_a_distribution_over_the_preceding_units(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "The river runs", max_new_tokens=3, probes=24)
    assert why.effects is not None
    assert why.stderr is not None
    for t, row in enumerate(why.scores):
        assert len(row) == len(why.effects[t]) == len(why.stderr[t]) == len(why.input) + t
        assert sum(row) == pytest.approx(1)
        assert all((score > 0) == (effect > 0) for score, effect in zip(row, why.effects[t], strict=True))


def test_an_earlier_output_token_can_be_the_cause() -> None:
    # "w0" is likely only after "w5", which is itself part of the continuation.
    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 6.0 * (context[:, -1] == 5)
        return table

    why = explain(
        ScriptedModel(WORDS, logits),
        "w1 w2 w3 w4",
        target=" w5 w0",
        replacer="random",
        probes=96,
        attribute_target=True,
    )
    assert why.top(1, target=1)[0].position == 4
    assert why.scores[1][4] > 0.9


def test_no_positive_effect_is_flagged_and_uniform() -> None:
    costs = -np.ones((24, len(WORDS))) / 24
    costs[np.arange(24), [i % 12 + 1 for i in range(24)]] = 0  # any replacement makes the target likelier
    why = explain(additive(costs - costs.max() + 0.0), PROMPT, target=" w0", replacer="random", probes=64)
    assert why.cost.stopped == ("flat",)
    np.testing.assert_allclose(why.scores[0], 1 / 24)
    assert "meaningless" in why.warnings[0]


def test_the_published_response_is_available_for_comparison() -> None:
    why = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=96, response="g")
    assert why.effect_unit == "g"
    assert why.top(1)[0].position == 3


def test_progress_has_partial_explanations_with_shrinking_errors() -> None:
    seen: list[Progress] = []
    rng = np.random.default_rng(0)
    diffuse = rng.gamma(0.5, 1, (24, len(WORDS)))
    explain(additive(diffuse), PROMPT, target=" w0", replacer="random", on_progress=seen.append)
    assert (seen[-1].done, seen[-1].total) == (256, 256)
    partial = [p.partial for p in seen if p.partial is not None]
    assert all(isinstance(p, Explanation) for p in partial)
    assert [p.cost.probes for p in partial] == [16, 32, 64, *range(80, 256, 32), 256]
    errors = [np.mean(p.stderr[0]) for p in partial]
    assert errors[-1] < errors[0]


def test_blocks_are_as_small_as_the_number_of_probes_allows() -> None:
    """Each token has about six replicates over all probes."""
    assert [LeaveOneOut(probes=n).block_size(40) for n in (16, 32, 64, 128, 256)] == [4, 4, 4, 2, 1]
    assert [LeaveOneOut().block_size(n) for n in (1, 28, 100, 1000)] == [1, 1, 2, 23]
    assert LeaveOneOut(probes=256, ratio=0.3).block_size(40) == 12
    shared = explain(additive(planted_costs()), PROMPT, target=" w0", replacer="random", probes=120)
    assert shared.method["ratio"] == 0.05


def test_the_ranking_is_not_tested_before_every_token_has_three_replicates() -> None:
    costs = planted_costs()
    assert explain(additive(costs), PROMPT, target=" w0", replacer="random").cost.probes >= 3 * 24
    clear = np.outer([4.0, 2.0, 1.0, 0.0], np.ones(len(WORDS)))
    few = explain(additive(clear), "w1 w2 w3 w4", target=" w0", replacer="random")
    assert few.cost.probes == 16


def replicates_of(**options: float) -> Ids:
    """How often each token of PROMPT is replaced."""
    replicates, planted = np.zeros(24, dtype=int), additive(planted_costs())

    def logits(context: Ids) -> Floats:
        replicates[:] += (context != np.array([i % 12 + 1 for i in range(24)])).sum(0)
        return planted.logits(context)

    explain(ScriptedModel(WORDS, logits), PROMPT, target=" w0", replacer="random", **options)
    return replicates


def test_adaptive_probes_go_to_the_tokens_with_the_largest_variance() -> None:
    replicates = replicates_of(probes=144)
    assert replicates.sum() == 144
    assert replicates.min() >= 3
    assert set(np.argsort(-replicates)[:2]) == {3, 11}


def test_a_given_ratio_is_sampled_evenly() -> None:
    np.testing.assert_array_equal(replicates_of(probes=144, ratio=0.01), 6)


def test_it_stops_when_all_tokens_are_exhausted() -> None:
    diffuse = np.random.default_rng(0).gamma(0.5, 1, (6, len(WORDS)))
    why = explain(additive(diffuse), PROMPT[:17], target=" w0", replacer="self", replacer_options={"candidates": 5})
    assert why.cost.probes < 80
    assert explain(additive(diffuse), PROMPT[:17], target=" w0", replacer="self", probes=100).cost.probes == 100


def test_settled_means_separated_or_negligibly_different() -> None:
    def effects(*pairs: tuple[float, float]) -> Effects:
        mean, stderr = (np.array(column) for column in zip(*pairs, strict=True))
        return Effects(mean, stderr, stderr**2)

    assert is_settled(effects((5, 0.2), (3, 0.2), (0.1, 0.1)), top=2)
    assert not is_settled(effects((5, 0.2), (3, 0.9), (2, 0.9)), top=2)
    assert is_settled(effects((5, 0.1), (0.1, 0.05), (0.1, 0.05)), top=2)
    assert is_settled(effects((5, 0.1)), top=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": 0}, "`probes` of preset 'leave-one-out' must be a whole number from 1 to 1000000, got 0"),
        ({"ratio": 2}, "`ratio` of preset 'leave-one-out'"),
        ({"response": "p"}, "unknown response 'p'"),
        ({"runs": 3}, "explain has no argument 'runs'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(all_of({}), "w1 w2", target=" w0", **options)
