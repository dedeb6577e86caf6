"""LIME: the coefficients of a linear model are recovered, with LIME's weights and ridge."""

import numpy as np
import pytest
import torch

import tiny
from methods.problem import make_problem
from reagent.errors import InputError
from reagent.methods.base import Progress
from reagent.methods.lime import Lime, _Ridge
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import WORDS, additive, all_of

PROMPT = " ".join(f"w{i % 12 + 1}" for i in range(16))
TEXT = "The river runs through the old town"
COEFFICIENTS = np.array([0.5, 0, 2, -0.1, 1] + [0] * 11)


def linear() -> np.ndarray:
    costs = np.repeat(COEFFICIENTS[:, None], len(WORDS), axis=1)
    costs[np.arange(16), [i % 12 + 1 for i in range(16)]] = 0
    return costs


def test_the_coefficients_of_a_linear_model_are_recovered() -> None:
    result = make_problem(additive(linear()), PROMPT, " w0").run(Lime())
    np.testing.assert_allclose(result.effects[0], COEFFICIENTS, atol=0.06)  # the ridge shrinks by 2 %
    np.testing.assert_allclose(
        make_problem(additive(linear()), PROMPT, " w0").run(Lime(alpha=1e-6)).effects[0], COEFFICIENTS, atol=1e-4
    )
    assert np.argsort(-result.scores[0])[:3].tolist() == [2, 4, 0]
    assert (result.effect_unit, result.stderr) == ("nats", None)
    assert (result.probes, result.steps, result.stopped) == (512, [512], ["fixed"])


def test_replacements_that_differ_average_out() -> None:
    costs = linear() * np.random.default_rng(0).gamma(4, 0.25, (16, len(WORDS)))
    truth = costs.sum(1) / (len(WORDS) - 1)
    problem = make_problem(additive(costs), PROMPT, " w0", candidates=500)
    for seed in range(3):
        assert np.corrcoef(problem.run(Lime(), seed).effects[0], truth)[0, 1] > 0.98


def test_weights_are_those_of_lime_for_text() -> None:
    """sqrt(exp(−d² / 25²)) of d = 100 · cosine distance to the whole text, and ridge with an intercept."""
    rng = np.random.default_rng(1)
    kept = rng.random((40, 6)) < 0.5
    kept[0], kept[1] = True, False
    values = rng.normal(size=40)
    distance = 100 * (1 - np.divide(kept.sum(1), np.sqrt(6 * kept.sum(1)), out=np.zeros(40), where=kept.any(1)))
    weights = np.sqrt(np.exp(-(distance**2) / 25**2))
    x = np.column_stack([kept, np.ones(40)])
    penalty = np.diag([1.0] * 6 + [0.0])
    expected = np.linalg.solve((x.T * weights) @ x + penalty, (x.T * weights) @ values)[:6]
    np.testing.assert_allclose(Lime().coefficients(kept, values), expected, atol=1e-5)


def test_the_ridge_is_exact_and_uses_no_random_numbers() -> None:
    x = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0, 0]])
    y = torch.tensor([3.0, -1, 2, 0]) + 5
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y, torch.ones(4)), batch_size=4)
    state = torch.get_rng_state()
    ridge = _Ridge(1e-9)
    ridge.fit(data)
    np.testing.assert_allclose(ridge.representation(), [3, -1], atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)


def test_targets_share_the_samples_and_have_rows_of_preceding_units(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, TEXT, max_new_tokens=4)
    before = tiny_model.meter.forward_passes
    state = torch.get_rng_state()
    result = problem.run(Lime(samples=64))
    assert torch.equal(torch.get_rng_state(), state)  # torch's global generator is not used
    assert tiny_model.meter.forward_passes - before == result.probes == 64
    assert [len(row) for row in result.effects] == [len(problem.case.input) + t for t in range(4)]
    assert all(row.sum() == pytest.approx(1) for row in result.scores)


def test_an_earlier_output_can_be_the_cause() -> None:
    result = make_problem(all_of({3: 5}), "w1 w2 w3", " w5 w0").run(Lime(samples=64))
    assert np.argmax(result.scores[1]) == 3
    assert result.scores[1][3] > 0.9


@pytest.mark.parametrize("kind", ["words", "phrase", "contrast"])
def test_units_phrases_and_contrasts(tiny_model: HuggingFaceModel, kind: str) -> None:
    tokens = len(make_problem(tiny_model, TEXT).case.input)
    problem = {
        "words": lambda: make_problem(tiny_model, TEXT, groups=[i // 2 for i in range(tokens)]),
        "phrase": lambda: make_problem(tiny_model, TEXT, " and the children", phrase=(4, 17)),
        "contrast": lambda: make_problem(tiny_model, TEXT, " and the", contrast=" and play"),
    }[kind]()
    result = problem.run(Lime(samples=32))
    assert [len(row) for row in result.scores] == [len(problem.case.input) + t for t in range(len(problem.case.output))]
    assert all(np.isfinite(row).all() for row in result.effects)


def test_protected_tokens_stay_and_score_nothing() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    result = make_problem(model, TEXT).run(Lime(samples=32))
    assert [row[0] for row in result.scores] == [0, 0, 0]


def test_one_position_scores_one() -> None:
    assert make_problem(all_of({0: 1}), "w1", " w0").run(Lime(samples=8)).scores[0].tolist() == [1.0]


def test_batches_do_not_matter_and_seeds_do(tiny_model: HuggingFaceModel) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, again, b = (make_problem(model, TEXT).run(Lime(samples=96)) for model in (tiny_model, tiny_model, cut))
    for row, same, other in zip(a.effects, again.effects, b.effects, strict=True):
        np.testing.assert_array_equal(row, same)
        np.testing.assert_allclose(row, other, atol=1e-4)
    assert not np.allclose(a.effects[0], make_problem(tiny_model, TEXT).run(Lime(samples=96), seed=1).effects[0])


def test_progress(tiny_model: HuggingFaceModel) -> None:
    progress: list[Progress] = []
    make_problem(tiny_model, TEXT).run(Lime(samples=100), on_progress=progress.append)
    assert [(p.done, p.total) for p in progress] == [(64, 100), (100, 100)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "`samples` of method 'lime' must be a whole number from 1"),
        ({"ratio": 1.5}, "`ratio` of method 'lime' must be between"),
        ({"width": 0}, "`width` of method 'lime' must be at least 1, got 0"),
        ({"alpha": 0}, "`alpha` of method 'lime' must be at least"),
        ({"scores": "max"}, r"'max'.*positive, absolute, softmax"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Lime(**options)
