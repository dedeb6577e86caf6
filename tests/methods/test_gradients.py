"""Gradient methods: captum's numbers, all targets at once, and effects that add up."""

import copy
import warnings
from dataclasses import replace
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch

import tiny
from reagent.case import Case, Floats
from reagent.errors import CapabilityError, InputError
from reagent.explanation import Token
from reagent.methods import captum_adapter
from reagent.methods.base import Attribution, Method, Progress
from reagent.methods.captum_adapter import EmbeddedCase
from reagent.methods.gradients import GradientShap, InputXGradient, IntegratedGradients
from reagent.models.base import Singles
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers.base import no_proposals
from reagent.testing.scripted import ScriptedModel

PROMPT = "The river runs through the old town"
METHODS: dict[str, Method] = {
    "input_x_gradient": InputXGradient(),
    "integrated_gradients": IntegratedGradients(steps=16),
    "gradient_shap": GradientShap(n_samples=8, stdevs=0.1),
}


def model_of(family: str) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))


@pytest.fixture
def gpt2() -> HuggingFaceModel:
    return model_of("gpt2")


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    return METHODS[request.param]


@pytest.fixture(params=tiny.FAMILIES)
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return model_of(request.param)


def case_of(model: HuggingFaceModel, target: str | None = None, tokens: int = 3) -> Case:
    return model.case(PROMPT, target=target, max_new_tokens=tokens).with_logprobs(model)


def run(method: Method, model: Any, case: Case, seed: int = 0) -> Attribution:
    return method.attribute(model, case, no_proposals(case), np.random.default_rng(seed))


def effects(method: Method, model: Any, case: Case, seed: int = 0) -> list[Floats]:
    result = run(method, model, case, seed).effects
    assert result is not None
    return result


def plain(model: HuggingFaceModel, case: Case) -> tuple[torch.Tensor, Any]:
    """Embeddings [1, length, width] and the log-probabilities of the output tokens, computed without `reagent`."""
    begin, ids = int(case.unit_starts[len(case.input)]), torch.tensor(case.ids)
    with torch.no_grad():
        text = model.network.get_input_embeddings()(ids[None, :-1])

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        logits = model.network(inputs_embeds=embeddings).logits.log_softmax(-1)  # [batch, length, vocabulary]
        return torch.stack([logits[:, p - 1, ids[p]] for p in range(begin, len(ids))], dim=1)

    return text, forward


def baseline(text: torch.Tensor, case: Case, kept: int = -1) -> torch.Tensor:
    """Zero embeddings, except for protected tokens and those of unit `kept`."""
    units = case.unit_of[: text.shape[1]]
    fixed = torch.tensor(case.protected[units] | (units == kept))
    return torch.where(fixed[None, :, None], text, 0.0)


# --- the numbers equal captum's and autograd's ---


def test_input_x_gradient_equals_autograd_and_captum(model: HuggingFaceModel) -> None:
    case = case_of(model)
    text, forward = plain(model, case)
    result, norms = (effects(InputXGradient(reduction=name), model, case) for name in ("sum", "norm"))
    for t in range(3):
        points = text.clone().requires_grad_()
        (slope,) = torch.autograd.grad(forward(points)[0, t], points)
        by_autograd = (slope * text).sum(-1)[0].numpy()
        by_norm = np.where(case.protected[: len(norms[t])], 0, (slope * text).norm(dim=-1)[0, : len(norms[t])])
        np.testing.assert_allclose(norms[t], by_norm, atol=1e-5)
        by_captum = captum.attr.InputXGradient(forward).attribute(text.clone().requires_grad_(), target=t)
        for expected in (by_autograd, by_captum.sum(-1)[0].detach().numpy()):
            row = np.where(case.protected[: len(result[t])], 0, expected[: len(result[t])])
            np.testing.assert_allclose(result[t], row, atol=1e-5)


def test_integrated_gradients_on_one_segment_equal_captum(model: HuggingFaceModel) -> None:
    case = case_of(model)
    text, forward = plain(model, case)
    result = effects(IntegratedGradients(steps=20), model, case)
    for t in range(3):
        attributed = captum.attr.IntegratedGradients(forward).attribute(
            text, baseline(text, case), target=t, n_steps=20, method="gausslegendre"
        )
        expected = attributed.sum(-1)[0].detach().numpy()[: len(result[t])]
        np.testing.assert_allclose(result[t], expected, atol=2e-4, rtol=1e-3)


def test_gradient_shap_draws_as_captum_does(gpt2: HuggingFaceModel) -> None:
    case = case_of(gpt2, tokens=1)
    text, forward = plain(gpt2, case)
    seed = int(np.random.default_rng(5).integers(2**32, size=1)[0])
    np.random.seed(seed)
    torch.manual_seed(seed)
    expected = captum.attr.GradientShap(forward).attribute(
        text, torch.zeros_like(text), n_samples=4, stdevs=0.1 * float(text.std(correction=0)), target=0
    )
    result = effects(GradientShap(n_samples=4, stdevs=0.1), gpt2, case, seed=5)
    np.testing.assert_allclose(result[0], expected.sum(-1)[0].detach().numpy(), atol=1e-5)


# --- effects add up ---


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_integrated_gradients_add_up_within_one_percent(family: str) -> None:
    model = model_of(family)
    case = case_of(model)
    steps = 512 if family in ("llama", "gemma3", "qwen") else 128
    text, forward = plain(model, case)
    with torch.no_grad():
        change = (forward(text) - forward(baseline(text, case)))[0].numpy()
    result = run(IntegratedGradients(max_steps=steps), model, case)
    assert result.effects is not None
    for t, row in enumerate(result.effects):
        assert row.sum() == pytest.approx(change[t], abs=0.01 * max(abs(float(change[t])), 0.1) + 1e-4)
    assert result.stopped == ["settled"] * 3
    assert max(result.steps) <= steps


def test_steps_go_where_the_path_needs_them() -> None:
    # Rotary positions: the value changes close to zero, where evenly spaced steps are missing.
    model = model_of("gptj")
    text = EmbeddedCase.of(model, case_of(model), "integrated_gradients", None)
    settled = IntegratedGradients().integrate(text)
    assert settled.gap.max() < 0.01
    assert IntegratedGradients(steps=max(settled.steps)).integrate(text).gap.min() > 0.1
    assert IntegratedGradients(steps=50, method="riemann_trapezoid").integrate(text).gap.max() > 0.1


def test_a_path_that_was_not_integrated_to_its_end_is_marked() -> None:
    model = model_of("qwen")
    result = run(IntegratedGradients(max_steps=64), model, case_of(model))
    assert result.stopped == ["incomplete"] * 3
    assert result.steps == [64] * 3


def test_the_integrated_part_of_a_path_adds_up() -> None:
    model = model_of("qwen")
    case = case_of(model)
    plain_text, forward = plain(model, case)
    text = EmbeddedCase.of(model, case, "integrated_gradients", None)
    reached = set()
    for steps in (64, 96, 128):
        result = IntegratedGradients(max_steps=steps).integrate(text)
        with torch.no_grad():
            change = (forward(plain_text) - forward(plain_text * result.reached[0]))[0].numpy()
        np.testing.assert_allclose(result.rows.sum(-1), change, rtol=0.02, atol=0.02)
        reached.add(result.reached[0])
    assert len(reached) == 3  # more steps reach closer to zero
    assert 0 < min(reached) < max(reached) < 1


def test_an_easy_path_takes_few_steps(gpt2: HuggingFaceModel) -> None:
    assert run(IntegratedGradients(), gpt2, case_of(gpt2)).steps == [8] * 3


def test_gradient_shap_comes_close_to_the_integral_within_its_error(gpt2: HuggingFaceModel) -> None:
    case = case_of(gpt2, tokens=1)
    exact = effects(IntegratedGradients(), gpt2, case)[0]
    z = []
    for seed in range(24):
        result = run(GradientShap(n_samples=40), gpt2, case, seed)
        assert result.effects is not None
        assert result.stderr is not None
        z.append((result.effects[0] - exact) / result.stderr[0])
    # The effects of one run share their points; only the seeds are independent.
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4
    assert np.abs(np.mean(z, axis=0)).max() < 0.6


def test_one_draw_has_no_standard_error(gpt2: HuggingFaceModel) -> None:
    assert run(GradientShap(n_samples=4), gpt2, case_of(gpt2)).stderr is None


# --- contrasts, phrases, units, protected tokens ---


def test_a_contrast_is_the_difference_of_its_two_targets(model: HuggingFaceModel) -> None:
    case = case_of(model)
    other_id = next(i for i in model.ordinary_ids.tolist() if i != case.output[2].ids[0])
    contrast = case.contrasted_with(Token((other_id,), "", 0, 0), 2).with_logprobs(model)
    other = replace(case, output=(*case.output[:2], replace(case.output[2], ids=(other_id,)))).with_logprobs(model)
    for method, atol in ((InputXGradient(), 1e-5), (IntegratedGradients(steps=16), 1e-4)):
        result, target, alternative = (effects(method, model, one) for one in (contrast, case, other))
        np.testing.assert_allclose(result[2], target[2] - alternative[2], atol=atol, rtol=1e-3)
        np.testing.assert_allclose(result[1], target[1], atol=atol, rtol=1e-3)


def phrase_of(case: Case) -> tuple[Case, int, int]:
    """The same case with its output tokens 1 and 2 as one unit."""
    phrase = case.with_phrase(case.output[1].start, case.output[2].end)
    assert [len(unit.ids) for unit in phrase.output[:2]] == [1, 2]
    return phrase, 1, 3


def test_the_gradient_of_a_phrase_is_the_sum_over_its_tokens(model: HuggingFaceModel) -> None:
    case = case_of(model, target=" and the old town")
    phrase, start, stop = phrase_of(case)
    phrase = phrase.with_logprobs(model)
    single, whole = effects(InputXGradient(), model, case), effects(InputXGradient(), model, phrase)
    before = len(case.input) + start
    np.testing.assert_allclose(whole[1], sum(row[:before] for row in single[start:stop]), atol=1e-5)
    np.testing.assert_allclose(whole[0], single[0], atol=1e-5)


def test_a_phrase_is_explained_by_the_units_before_it(gpt2: HuggingFaceModel) -> None:
    # Its own tokens are fixed on the whole path, so that the effects of the others add up.
    case = case_of(gpt2, target=" and the old town")
    phrase, start, stop = phrase_of(case)
    text, forward = plain(gpt2, case)
    with torch.no_grad():
        change = (forward(text) - forward(baseline(text, phrase, kept=len(case.input) + 1)))[0]
    result = effects(IntegratedGradients(), gpt2, phrase.with_logprobs(gpt2))
    assert result[1].sum() == pytest.approx(float(change[start:stop].sum()), rel=0.01)
    np.testing.assert_allclose(result[0], effects(IntegratedGradients(), gpt2, case)[0], atol=1e-4)


def test_a_unit_has_the_sum_of_its_tokens(gpt2: HuggingFaceModel, method: Method) -> None:
    case = case_of(gpt2)
    groups = [i // 2 for i in range(len(case.input))]
    single, units = effects(method, gpt2, case), effects(method, gpt2, case.grouped(groups))
    count = len(case.input)
    for t, row in enumerate(single):
        expected = np.concatenate([np.bincount(groups, row[:count]), row[count:]])
        np.testing.assert_allclose(units[t], expected, atol=1e-6)


@pytest.mark.parametrize("family", ["opt", "gemma3"])
def test_protected_tokens_score_zero_and_keep_their_embeddings(family: str, method: Method) -> None:
    model = model_of(family)
    case = case_of(model)
    assert case.protected[0]
    seen: list[Singles] = []
    original = model.gradients
    model.gradients = lambda case, points, *rest: (seen.append(points), original(case, points, *rest))[1]  # type: ignore[method-assign]
    result = run(method, model, case)
    assert result.effects is not None
    assert [row[0] for row in result.scores] == [0] * 3
    assert [row[0] for row in result.effects] == [0] * 3
    start = model.embed(case.ids[:1])
    assert start is not None
    assert all((points[:, :1] == start).all() for points in seen)


def test_units_without_a_group_are_fixed(gpt2: HuggingFaceModel) -> None:
    case = case_of(gpt2)
    marked = case.grouped([None if i in (1, 2) else i for i in range(len(case.input))])
    result = effects(IntegratedGradients(), gpt2, marked)
    text, forward = plain(gpt2, case)
    with torch.no_grad():
        change = (forward(text) - forward(baseline(text, marked)))[0]
    assert result[0][1] == 0
    assert result[0].sum() == pytest.approx(float(change[0]), rel=0.01)


# --- scores ---


@pytest.mark.parametrize("how", ["positive", "absolute", "softmax"])
def test_scores_are_a_distribution_by_the_map_that_is_recorded(gpt2: HuggingFaceModel, how: str) -> None:
    case = case_of(gpt2)
    for kind in (InputXGradient, IntegratedGradients, GradientShap):
        method: Any = kind(scores=how)
        result = run(method, gpt2, case)
        assert result.effects is not None
        assert how in method.info["scores"]
        for scores, row in zip(result.scores, result.effects, strict=True):
            assert len(scores) == len(row)
            weights = {"positive": np.maximum(row, 0), "absolute": np.abs(row), "softmax": np.exp(row)}[how]
            np.testing.assert_allclose(scores, weights / weights.sum(), atol=1e-12)


def test_rows_have_the_units_before_their_target(model: HuggingFaceModel, method: Method) -> None:
    case = case_of(model)
    result = run(method, model, case)
    assert result.effects is not None
    for rows in (result.scores, result.effects, result.stderr or result.effects):
        assert [len(row) for row in rows] == [len(case.input) + t for t in range(3)]
        assert all(np.isfinite(row).all() for row in rows)
    np.testing.assert_allclose([row.sum() for row in result.scores], 1)


# --- cost and side effects ---


def test_one_forward_pass_serves_all_targets(gpt2: HuggingFaceModel) -> None:
    passes = {}
    for tokens in (1, 5):
        case = case_of(gpt2, tokens=tokens)
        for name, method in METHODS.items():
            before = gpt2.meter.forward_passes
            result = run(method, gpt2, case)
            passes[name, tokens] = gpt2.meter.forward_passes - before
            assert result.probes == passes[name, tokens]
    assert passes["input_x_gradient", 1] == passes["input_x_gradient", 5] == 2  # one of them is a check
    assert passes["integrated_gradients", 1] == passes["integrated_gradients", 5] == 16 + 3
    assert passes["gradient_shap", 1] == passes["gradient_shap", 5] == 8 + 1


def test_less_memory_gives_the_same_effects(
    gpt2: HuggingFaceModel, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(gpt2)
    reference = effects(method, gpt2, case)
    monkeypatch.setattr(captum_adapter, "MAX_GRADIENT_NUMBERS", 1)
    small = HuggingFaceModel(gpt2.network, gpt2.tokenizer, tokens_at_once=1, logits_at_once=1)
    for other in (effects(replace(method, batch=1), gpt2, case), effects(method, small, case)):  # type: ignore[type-var]
        for row, same in zip(other, reference, strict=True):
            np.testing.assert_allclose(row, same, atol=1e-4)


def test_the_seed_decides_the_draws_and_global_generators_are_restored(gpt2: HuggingFaceModel) -> None:
    case, method = case_of(gpt2), GradientShap(n_samples=6, stdevs=0.1)
    np.random.seed(1)
    torch.manual_seed(1)
    numpy_state, torch_state = np.random.get_state()[1], torch.get_rng_state()
    a, b, c = (effects(method, gpt2, case, seed) for seed in (0, 0, 1))
    assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert (a[0] != c[0]).any()
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_nothing_is_printed(gpt2: HuggingFaceModel, method: Method, capfd: pytest.CaptureFixture[str]) -> None:
    case = case_of(gpt2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(method, gpt2, case)
    assert capfd.readouterr() == ("", "")


def test_progress_ends_at_its_total(gpt2: HuggingFaceModel, method: Method) -> None:
    case = case_of(gpt2)
    progress: list[Progress] = []
    method.attribute(gpt2, case, no_proposals(case), np.random.default_rng(0), progress.append)
    assert progress[-1].done == progress[-1].total
    assert [p.done for p in progress] == sorted(p.done for p in progress)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["gpt2", "opt", "gemma"])
def test_half_precision_gives_numbers(family: str, dtype: torch.dtype, method: Method) -> None:
    half = HuggingFaceModel(copy.deepcopy(tiny.network_of(family)).to(dtype), tiny.tokenizer_of(family))
    case = case_of(half)
    assert all(np.isfinite(row).all() for row in effects(method, half, case))


# --- missing capabilities and errors ---


def test_a_model_without_gradients_is_named_before_any_work(method: Method) -> None:
    scripted = ScriptedModel(["a", "b"], lambda context: np.zeros((len(context), 2)))
    case = scripted.case("a b", target=" a")
    name = next(name for name, one in METHODS.items() if one == method)
    with pytest.raises(CapabilityError, match=f"{name}.*gives gradients.*'scripted'"):
        run(method, scripted, case)
    assert scripted.meter.forward_passes == 0


def test_a_network_that_needs_its_tokens_is_not_explained_wrongly(gpt2: HuggingFaceModel, method: Method) -> None:
    # Some networks use more of a token than its embedding: their values from embeddings are different.
    case = case_of(gpt2)
    wrong = replace(case, output=tuple(replace(unit, logprob=unit.logprob + 1.5) for unit in case.output))  # type: ignore[operator]
    with pytest.raises(CapabilityError, match="gives gradients"):
        run(method, gpt2, wrong)
    gpt2.embed = lambda ids: None  # type: ignore[method-assign,assignment]  # noqa: ARG005
    with pytest.raises(CapabilityError, match="gives gradients"):
        run(method, gpt2, case)


def test_a_gradient_that_overflows_is_an_error(gpt2: HuggingFaceModel, method: Method) -> None:
    case = case_of(gpt2)

    def too_large(_: Case, points: Singles, targets: Any, __: Any) -> Singles:
        return np.full((len(points), len(targets), *points.shape[1:]), np.inf, dtype=np.float32)

    gpt2.gradients = too_large  # type: ignore[method-assign,assignment]
    with pytest.raises(InputError, match="too large for float32"):
        run(method, gpt2, case)


@pytest.mark.parametrize(
    "make",
    [
        lambda: InputXGradient(scores="log"),
        lambda: IntegratedGradients(steps=1),
        lambda: IntegratedGradients(max_steps=3),
        lambda: IntegratedGradients(tolerance=2),
        lambda: IntegratedGradients(method="simpson"),
        lambda: GradientShap(n_samples=0),
        lambda: GradientShap(stdevs=-1),
        lambda: GradientShap(batch=0),
    ],
)
def test_options_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(InputError):
        make()
