"""Occlusion: exact on additive models, equal to deleting units explicitly on others."""

import numpy as np
import pytest

import tiny
from methods.problem import make_problem
from reagent.errors import InputError
from reagent.methods.base import Progress
from reagent.methods.occlusion import Occlusion
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import Proposals
from reagent.replacers.base import no_proposals
from reagent.testing.planted import WORDS, additive, all_of

PROMPT = "w1 w2 w3 w4 w5"
TEXT = "The river runs through the old town"


def equal_costs() -> np.ndarray:
    """Costs at five positions, the same for every replacement: the effect of each word is known."""
    costs = np.repeat([[0.5], [0.0], [2.0], [-0.3], [1.0]], len(WORDS), axis=1)
    costs[np.arange(5), np.arange(1, 6)] = 0
    return costs


def test_it_is_exact_where_effects_add_up() -> None:
    result = make_problem(additive(equal_costs()), PROMPT, " w0").run(Occlusion())
    np.testing.assert_allclose(result.effects[0], [0.5, 0, 2, -0.3, 1], atol=1e-9)
    np.testing.assert_allclose(result.stderr[0], 0, atol=1e-9)
    np.testing.assert_allclose(result.scores[0], np.array([0.5, 0, 2, 0, 1]) / 3.5, atol=1e-9)
    assert result.effect_unit == "nats"
    assert (result.probes, result.steps, result.stopped) == (20, [4], ["fixed"])


def test_draws_are_averaged_and_their_spread_is_the_error() -> None:
    rng = np.random.default_rng(3)
    costs = rng.gamma(2, 0.5, (5, len(WORDS)))
    costs[np.arange(5), np.arange(1, 6)] = 0
    truth = costs.sum(1) / (len(WORDS) - 1)
    problem = make_problem(additive(costs), PROMPT, " w0", candidates=500)
    inside = []
    for seed in range(100):
        result = problem.run(Occlusion(draws=4), seed)
        inside.append(abs(result.effects[0] - truth) < 1.96 * result.stderr[0])
    assert 0.88 < np.mean(inside) < 0.99  # with skewed costs, four draws may miss the tail
    one = problem.run(Occlusion(draws=1))
    assert one.stderr is None


def test_stratified_draws_use_every_proposal_before_any_twice() -> None:
    costs = np.random.default_rng(0).gamma(2, 0.5, (5, len(WORDS)))
    costs[np.arange(5), np.arange(1, 6)] = 0
    problem = make_problem(additive(costs), PROMPT, " w0")
    four = Proposals(problem.case.ids, np.tile([7, 9, 11, 13], (6, 1)), np.ones((6, 4)))
    result = problem._replace(proposals=four).run(Occlusion(draws=4))
    np.testing.assert_allclose(result.effects[0], costs[:, [7, 9, 11, 13]].mean(1), atol=1e-9)


def test_one_pass_scores_all_targets(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, TEXT, max_new_tokens=4)
    before = tiny_model.meter.forward_passes
    result = problem.run(Occlusion(draws=2))
    assert tiny_model.meter.forward_passes - before == result.probes == 2 * (len(problem.case.units) - 1)
    assert [len(row) for row in result.scores] == [len(problem.case.input) + t for t in range(4)]
    assert all(row.sum() == pytest.approx(1) for row in result.scores)


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "gemma3"])
@pytest.mark.parametrize("by_words", [False, True])
def test_deletion_is_the_text_without_the_unit(family: str, by_words: bool) -> None:
    model = HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))
    tokens = len(make_problem(model, TEXT).case.input)
    groups = [i // 3 for i in range(tokens)] if by_words else None
    case = (problem := make_problem(model, TEXT, max_new_tokens=3, groups=groups)).case
    result = problem.run(Occlusion(removal="delete"))
    for t in range(3):
        for unit in range(len(case.input) + t):
            if case.units[unit].protected:
                assert result.effects[t][unit] == result.scores[t][unit] == 0
                continue
            rest = case.ids[case.unit_of != unit]
            place = case.unit_starts[len(case.input) + t] - len(case.units[unit].ids)
            after = model.score(rest[None], np.array([place]), np.array(case.output[t].ids)).logprob[0, 0]
            assert result.effects[t][unit] == pytest.approx(case.values[t] - after, abs=1e-4)
    assert result.stderr is None
    assert result.probes == (~case.protected[:-1]).sum()


def test_deletion_takes_phrases_and_contrasts(tiny_model: HuggingFaceModel) -> None:
    for case, proposals in (
        make_problem(tiny_model, TEXT, " and the children", phrase=(4, 17))[1:],
        make_problem(tiny_model, TEXT, " and the", contrast=" and play")[1:],
    ):
        result = Occlusion(removal="delete").attribute(tiny_model, case, proposals, np.random.default_rng(0))
        t, unit = len(case.output) - 1, 2
        begin, size = case.unit_starts[len(case.input) + t], len(case.units[unit].ids)
        ids = case.ids[case.unit_of != unit][None]
        places = np.arange(begin, len(case.ids)) - size
        after = tiny_model.score(ids, places, case.ids[begin:]).logprob.sum()
        if case.contrast is not None:
            after -= tiny_model.score(ids, places[:1], np.array(case.contrast.token.ids[:1])).logprob[0, 0]
        assert result.effects[t][unit] == pytest.approx(case.values[t] - after, abs=1e-4)


def test_deletion_needs_no_replacer(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, TEXT)
    method = Occlusion(removal="delete")
    bare = problem._replace(proposals=no_proposals(problem.case)).run(method)
    np.testing.assert_array_equal(bare.effects[0], problem.run(method).effects[0])
    assert not method.replaces
    assert Occlusion().replaces


def test_deletion_leaves_protected_tokens_in_every_text() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    problem = make_problem(model, TEXT)
    seen: list[np.ndarray] = []
    original = model.score_ragged
    model.score_ragged = lambda texts, *rest: (seen.extend(texts), original(texts, *rest))[1]  # type: ignore[method-assign]
    problem.run(Occlusion(removal="delete"))
    assert seen
    assert all(text[0] == problem.case.ids[0] for text in seen)
    assert {len(text) for text in seen} == {len(problem.case.ids) - 1}


@pytest.mark.parametrize("removal", ["replace", "delete"])
def test_one_position_scores_one(removal: str) -> None:
    result = make_problem(all_of({0: 1}), "w1", " w0 w3").run(Occlusion(removal=removal))
    assert result.scores[0].tolist() == [1.0]
    assert result.scores[1].sum() == pytest.approx(1)
    assert result.stopped[0] == ("single" if removal == "delete" else "fixed")


@pytest.mark.parametrize("removal", ["replace", "delete", "mask"])
def test_batches_and_runs_agree(tiny_model: HuggingFaceModel, removal: str) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, again, b = (make_problem(model, TEXT).run(Occlusion(removal=removal)) for model in (tiny_model, tiny_model, cut))
    for row, same, other in zip(a.effects, again.effects, b.effects, strict=True):
        np.testing.assert_array_equal(row, same)
        np.testing.assert_allclose(row, other, atol=1e-4)


def test_progress_ends_at_its_total(tiny_model: HuggingFaceModel) -> None:
    for method in (Occlusion(), Occlusion(removal="delete")):
        progress: list[Progress] = []
        make_problem(tiny_model, 12 * TEXT).run(method, on_progress=progress.append)
        assert len(progress) > 1
        assert len({p.total for p in progress}) == 1
        assert progress[-1].done == progress[-1].total


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"removal": "deletion"}, "unknown removal 'deletion', did you mean 'delete'"),
        ({"draws": 0}, "`draws` of method 'occlusion' must be a whole number from 1"),
        ({"scores": "max"}, r"'max'.*positive, absolute, softmax"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Occlusion(**options)
