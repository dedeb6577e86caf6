"""Greedy rationales: the planted sets, their order, and the distance to the smallest."""

import numpy as np
import pytest

import tiny
from methods.problem import make_problem
from reagent.case import Floats, Ids, Mask, TargetScores
from reagent.errors import CapabilityError, InputError
from reagent.methods.base import Progress
from reagent.methods.greedy import Greedy, rationale_ratio
from reagent.models.huggingface import HuggingFaceModel
from reagent.removal import REMOVALS
from reagent.replacers.base import no_proposals
from reagent.testing.planted import WORDS, all_of
from reagent.testing.scripted import ScriptedModel

PROMPT = "w1 w2 w3 w4 w5 w6"
TEXT = "The river runs through the old town"
NEUTRAL = 18  # a word without effect


class MaskableModel(ScriptedModel):
    """A scripted model with masks: a masked word is scored as a word without effect."""

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
        return self.score(np.where(keep, sequences, NEUTRAL), positions, targets)


def maskable(model: ScriptedModel) -> MaskableModel:
    return MaskableModel(model.vocabulary, model.logits)


def misleading() -> ScriptedModel:
    """Predicts "w0" from w1 with w2 or w6, none of which helps alone, or from w3, w4 and w5, each of which helps."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = 6.0
        present = [(context[:, i] == i + 1) if i < context.shape[1] else np.zeros(len(context)) for i in range(6)]
        table[:, 0] = present[0] * (10.0 * present[1] + 11.0 * present[5])
        table[:, 0] += 3.0 * present[2] + 2.5 * present[3] + 2.0 * present[4]
        return table

    return ScriptedModel(WORDS, logits)


@pytest.mark.parametrize("exhaustive", [False, True])
@pytest.mark.parametrize("removal", ["replace", "mask"])
def test_the_planted_set_is_the_rationale(removal: str, exhaustive: bool) -> None:
    model = maskable(all_of({1: 2, 3: 4}))
    result = make_problem(model, PROMPT, " w0").run(Greedy(removal=removal, exhaustive=exhaustive))
    always_kept = [5] if removal == "mask" else []  # the last unit, at which the prediction is read
    assert np.flatnonzero(result.scores[0]).tolist() == [1, 3, *always_kept]
    np.testing.assert_allclose(
        sorted(result.scores[0], reverse=True)[:2], np.array([1, 1 / 2]) / (11 / 6 if always_kept else 1.5)
    )
    assert result.steps == [2 + len(always_kept)]
    assert result.stopped == ["condition"]
    assert result.effect_unit == "nats"
    assert (result.effects[0][[1, 3]] > 0.5).all()
    assert (result.effects[0][[0, 2, 4, 5]] == 0).all()


def test_effects_add_up_to_what_the_rationale_regains() -> None:
    problem = make_problem(all_of({1: 2, 3: 4}), PROMPT, " w0")
    result = problem.run(Greedy())
    whole = problem.case.values[0]
    one, two = (np.log(np.exp(3.0 * k) / (np.exp(3.0 * k) + np.exp(4.5) + 18)) for k in (0, 2))
    assert result.effects[0].sum() == pytest.approx(two - one)
    assert two == pytest.approx(whole)


def test_the_most_helpful_unit_comes_first() -> None:
    result = make_problem(misleading(), PROMPT, " w0").run(Greedy())
    assert np.argsort(-result.scores[0], kind="stable")[:3].tolist() == [2, 3, 4]
    np.testing.assert_allclose(result.scores[0], np.array([0, 0, 6, 3, 2, 0]) / 11)
    np.testing.assert_allclose(result.scores[0][[2, 3, 4]], np.array([1, 1 / 2, 1 / 3]) / (11 / 6))


def test_the_ratio_shows_that_greedy_is_longer_than_the_smallest() -> None:
    problem = make_problem(misleading(), PROMPT, " w0")
    greedy, smallest = (problem.run(Greedy(exhaustive=e)) for e in (False, True))
    assert (greedy.steps, smallest.steps) == ([3], [2])
    assert np.flatnonzero(smallest.scores[0]).tolist() == [0, 5]  # the better one of two pairs that suffice
    assert smallest.effects[0].sum() > 3
    assert rationale_ratio(greedy.steps, smallest.steps) == 1.5
    good = make_problem(all_of({1: 2, 3: 4}), PROMPT, " w0")
    a, b = (good.run(Greedy(exhaustive=e)) for e in (False, True))
    assert rationale_ratio(a.steps, b.steps) == 1
    np.testing.assert_array_equal(a.scores[0], b.scores[0])


def test_exhaustive_is_never_longer_and_scores_no_set_twice(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, "The river runs", max_new_tokens=3)
    for removal in REMOVALS:
        greedy, smallest = (problem.run(Greedy(removal=removal, exhaustive=e)) for e in (False, True))
        assert all(a >= b for a, b in zip(greedy.steps, smallest.steps, strict=True))
        assert rationale_ratio(greedy.steps, smallest.steps) >= 1
        sets = sum(2 ** (len(problem.case.input) + t) for t in range(3))
        assert smallest.probes <= sets * (3 if removal == "replace" else 1)


def test_too_many_sets_are_an_error_with_their_number() -> None:
    words = " ".join(f"w{i + 1}" for i in range(12))
    problem = make_problem(all_of({i: i + 1 for i in range(6)}), words, " w0")
    assert problem.run(Greedy()).steps == [6]
    with pytest.raises(InputError, match=r"any of 1585 sets of fewer than 6 of its 12 units.*max_subsets = 1000"):
        problem.run(Greedy(exhaustive=True, max_subsets=1000))
    assert problem.run(Greedy(exhaustive=True, max_subsets=1585)).steps == [6]


def test_a_target_that_is_not_predicted_keeps_its_rank_and_is_flagged() -> None:
    # "w0" is second behind "w19" with the whole context, and behind nineteen others without its cause.
    def logits(context: Ids) -> Floats:
        table = np.tile(np.linspace(1, 2, len(WORDS)), (len(context), 1))
        table[:, 0] = 1.9 + 5 * (context[:, 2] == 3) - 5.0
        table[:, 19] = 9
        return table

    problem = make_problem(ScriptedModel(WORDS, logits), PROMPT, " w0")
    result = problem.run(Greedy())
    assert result.stopped == ["relaxed"]
    assert result.steps == [1]
    assert result.scores[0].tolist() == [0, 0, 1, 0, 0, 0]
    assert problem.run(Greedy(top_k=3)).stopped == ["condition"]


def test_a_target_that_needs_nothing_is_flagged_and_uniform() -> None:
    constant = ScriptedModel(WORDS, lambda context: np.tile(np.arange(20.0), (len(context), 1)))
    result = make_problem(constant, PROMPT, " w19").run(Greedy())
    assert (result.steps, result.stopped) == ([0], ["empty"])
    np.testing.assert_allclose(result.scores[0], 1 / 6)
    masked = make_problem(maskable(constant), PROMPT, " w19").run(Greedy(removal="mask"))
    assert (masked.steps, masked.stopped) == ([1], ["condition"])
    assert masked.scores[0].tolist() == [0, 0, 0, 0, 0, 1]


def test_a_contrasted_target_is_predicted_when_it_is_more_likely_than_the_contrast() -> None:
    result = make_problem(all_of({1: 2, 3: 4}), PROMPT, " w0", contrast=" w19").run(Greedy())
    assert np.flatnonzero(result.scores[0]).tolist() == [1, 3]
    behind = make_problem(all_of({1: 2, 3: 9}), PROMPT, " w0", contrast=" w19").run(Greedy())
    assert behind.stopped == ["empty"]


@pytest.mark.parametrize("exhaustive", [False, True])
@pytest.mark.parametrize("removal", ["replace", "mask", "delete"])
def test_the_rationale_keeps_the_prediction_and_less_of_it_does_not(
    tiny_model: HuggingFaceModel, removal: str, exhaustive: bool
) -> None:
    problem = make_problem(
        tiny_model, TEXT, max_new_tokens=4, candidates=1
    )  # one proposal: the search is deterministic
    result = problem.run(Greedy(removal=removal, draws=1, exhaustive=exhaustive))
    assert set(result.stopped) == {"condition"}
    assert max(result.steps) > 2

    def rank(t: int, units: list[int]) -> int:
        case = problem.case.for_target(t)
        kept = np.isin(np.arange(len(problem.case.units)), units)
        if removal == "replace":
            texts = problem.proposals.apply(~kept[None], np.zeros((1, len(kept)), dtype=np.int64))
            return case.score_outputs(tiny_model, texts[:, : len(case.ids)]).rank[0, 0]
        if removal == "delete":
            rest = [i for i, k in zip(case.ids.tolist(), kept[: len(case.input)].tolist(), strict=False) if k]
            rest = rest or [int(case.ids[len(case.input) - 1])]
            return tiny_model.score(np.array([rest]), np.array([len(rest)]), case.targets).rank[0, 0]
        keep = np.append(kept[: len(case.input)], True)[None]
        return tiny_model.score_masked(case.ids[None], keep, case.positions, case.targets).rank[0, 0]

    for t, scores in enumerate(result.scores):
        rationale = np.argsort(-scores, kind="stable")[: result.steps[t]].tolist()
        assert scores[rationale].sum() == pytest.approx(1)
        assert rank(t, rationale) == 0
        chosen = rationale[:-1] if removal == "mask" else rationale
        if removal == "mask":
            assert rationale[-1] == len(scores) - 1
        for i in range(len(chosen)):  # greedy guarantees that the last was needed, exhaustive that all were
            if exhaustive or i == len(chosen) - 1:
                assert rank(t, [unit for unit in rationale if unit != chosen[i]]) > 0


@pytest.mark.parametrize("removal", ["replace", "mask", "delete"])
@pytest.mark.parametrize("kind", ["words", "phrase", "contrast"])
def test_units_phrases_and_contrasts(tiny_model: HuggingFaceModel, removal: str, kind: str) -> None:
    tokens = len(make_problem(tiny_model, TEXT).case.input)
    problem = {
        "words": lambda: make_problem(tiny_model, TEXT, groups=[i // 3 for i in range(tokens)]),
        "phrase": lambda: make_problem(tiny_model, "The river", " and the", phrase=(0, 8)),
        "contrast": lambda: make_problem(tiny_model, "The river", " and the", contrast=" and play"),
    }[kind]()
    before = tiny_model.meter.forward_passes
    result = problem.run(Greedy(removal=removal))
    assert tiny_model.meter.forward_passes - before == result.probes + result.stopping_tests
    assert [len(row) for row in result.scores] == [len(problem.case.input) + t for t in range(len(problem.case.output))]
    assert all(row.sum() == pytest.approx(1) for row in result.scores)


@pytest.mark.parametrize("removal", ["replace", "mask", "delete"])
def test_protected_tokens_stay_and_score_nothing(removal: str) -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    problem = make_problem(model, "The river", max_new_tokens=2)
    result = problem.run(Greedy(removal=removal))
    assert problem.case.input[0].protected
    assert [row[0] for row in result.scores] == [0, 0]


@pytest.mark.parametrize("removal", ["replace", "mask"])
def test_one_position_scores_one(removal: str) -> None:
    result = make_problem(maskable(all_of({0: 1})), "w1", " w0").run(Greedy(removal=removal))
    assert result.scores[0].tolist() == [1.0]
    assert result.steps == [1]


@pytest.mark.parametrize("removal", ["replace", "mask", "delete"])
def test_batches_and_runs_agree(tiny_model: HuggingFaceModel, removal: str) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, again, b = (make_problem(m, TEXT).run(Greedy(removal=removal, draws=2)) for m in (tiny_model, tiny_model, cut))
    assert a.steps == again.steps == b.steps
    for row, same, other in zip(a.effects, again.effects, b.effects, strict=True):
        np.testing.assert_array_equal(row, same)
        np.testing.assert_allclose(row, other, atol=1e-4)


def test_progress_only_shrinks_its_total(tiny_model: HuggingFaceModel) -> None:
    progress: list[Progress] = []
    result = make_problem(tiny_model, TEXT).run(Greedy(), on_progress=progress.append)
    totals = [p.total for p in progress]
    assert totals == sorted(totals, reverse=True)
    assert [p.done for p in progress] == sorted(p.done for p in progress)
    assert progress[-1].done == result.probes + result.stopping_tests <= progress[-1].total


def test_a_model_without_masks_is_refused_before_any_work() -> None:
    problem = make_problem(all_of({1: 2}), PROMPT, " w0")
    before = problem.model.meter.forward_passes
    with pytest.raises(CapabilityError, match=r"method 'greedy' with removal 'mask' needs .* 'scripted'"):
        problem.run(Greedy(removal="mask"))
    assert problem.model.meter.forward_passes == before


def test_masking_needs_no_replacer(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, TEXT)
    method = Greedy(removal="mask")
    bare = problem._replace(proposals=no_proposals(problem.case)).run(method)
    np.testing.assert_array_equal(bare.effects[-1], problem.run(method).effects[-1])
    assert not method.replaces
    assert Greedy().replaces


def test_the_provenance_has_the_removal() -> None:
    info = Greedy(removal="mask").info
    assert info["removal"] == "mask"
    assert info["scores"].startswith("1 / place in the order")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"removal": "masks"}, "unknown removal 'masks', did you mean 'mask'"),
        ({"draws": 0}, "`draws` of method 'greedy'"),
        ({"top_k": 0}, "`top_k` of method 'greedy'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Greedy(**options)
