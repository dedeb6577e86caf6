"""ReAGent as published: equal to the sequential loop, correct on planted truths, never NaN."""

from dataclasses import replace

import numpy as np
import pytest

from reagent import explain
from reagent.case import Case, Floats
from reagent.errors import InputError, UnknownNameError
from reagent.methods import make_method
from reagent.methods.base import Progress
from reagent.methods.reagent_paper import ReagentPaper
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import make_replacer
from reagent.replacers.base import Proposals
from reagent.testing.planted import WORDS, all_of
from reagent.testing.scripted import ScriptedModel


def sequential_loop(
    settings: ReagentPaper, model: Model, case: Case, proposals: Proposals, t: int, rng: np.random.Generator
) -> tuple[Floats, int, bool]:
    """Algorithm 1, one step and one sequence at a time, with the random numbers in the same order."""
    position = len(case.input) + t
    free = [i for i in range(position) if proposals.replaceable[i]]
    n = len(free)
    replaced = max(1, round(settings.ratio * n))
    kept = int(settings.keep) if settings.keep >= 1 else max(1, round(settings.keep * n))
    p_original = np.exp(case.output[t].logprob)

    def score(chosen: list[int], uniform: Floats) -> tuple[float, int]:
        whole = np.zeros(len(case.ids))
        whole[free] = uniform
        drawn = proposals.draw(whole[None])[0]
        sequence = case.ids[: position + 1].copy()
        for j in chosen:
            sequence[free[j]] = drawn[free[j]]
        scores = model.score(sequence[None], np.array([position]), case.ids[[position]])
        return float(scores.logprob[0, 0]), int(scores.rank[0, 0])

    s = rng.random(n)
    steps = 0
    while steps < settings.max_steps:
        keys, replaced_by, tested_by = rng.random((3, n))
        unimportant = sorted(range(n), key=lambda j: s[j])[: n - kept]
        if score(unimportant, tested_by)[1] < settings.top_k:
            return np.exp(s) / np.exp(s).sum(), steps, True
        chosen = sorted(range(n), key=lambda j: keys[j])[:replaced]
        drop = np.clip(p_original - np.exp(score(chosen, replaced_by)[0]), -1 + 1e-6, 1 - 1e-6)
        for j in range(n):
            change = drop if j in chosen else -drop
            s[j] += np.log((change + 1) / 2) - np.log(1 - (change + 1) / 2)
        steps += 1
    return np.exp(s - s.max()) / np.exp(s - s.max()).sum(), steps, False


@pytest.mark.parametrize(
    "settings", [ReagentPaper(max_steps=40), ReagentPaper(ratio=0.1, keep=2, top_k=1, max_steps=40)]
)
def test_drawing_ahead_equals_sequential_loop(tiny_model: HuggingFaceModel, settings: ReagentPaper) -> None:
    case = tiny_model.case("The river runs through the old town,", max_new_tokens=2).with_logprobs(tiny_model)
    proposals = make_replacer("self").propose(tiny_model, case, np.random.default_rng(5))
    results = [
        replace(settings, ahead=ahead).attribute(tiny_model, case, proposals, np.random.default_rng(3))
        for ahead in (1, 3, 32)
    ]
    rng = np.random.default_rng(3)
    ended_early = 0
    for t in range(len(case.output)):
        runs = [sequential_loop(settings, tiny_model, case, proposals, t, child) for child in rng.spawn(settings.runs)]
        counted = [scores for scores, _, stopped in runs if stopped] or [scores for scores, _, _ in runs]
        for result in results:
            assert result.runs[t] == [steps for _, steps, _ in runs]
            np.testing.assert_allclose(result.scores[t], np.mean(counted, axis=0), atol=1e-4)
        ended_early += sum(0 < steps < settings.max_steps for _, steps, _ in runs)
    assert ended_early > 0, "no run stopped early: the test would not detect a wrong stop"


@pytest.mark.parametrize("replacer", ["random", "self"])
@pytest.mark.parametrize("seed", range(3))
def test_planted_causes_come_out_on_top(replacer: str, seed: int) -> None:
    model = all_of({2: 7, 9: 4})
    prompt = "w1 w3 w7 w5 w6 w8 w10 w2 w9 w4 w11 w12"
    settings = {"max_steps": 400, "top_k": 1, "keep": 2}
    why = explain(model, prompt, target=" w0", replacer=replacer, seed=seed, preset="paper", **settings)
    assert {c.position for c in why.top(2)} == {2, 9}
    assert sum(why.scores[0]) == pytest.approx(1)


def test_a_certain_model_never_gives_nan() -> None:
    # The prediction depends on one word only: the drop is 1, where the published logit is infinite.
    model = all_of({1: 7}, strength=1e4)
    why = explain(model, "w1 w7 w3", target=" w0", preset="paper", top_k=1, max_steps=60)
    assert np.isfinite(why.scores[0]).all()
    assert why.top(1)[0].position == 1


def test_one_position_scores_one_without_a_probe() -> None:
    why = explain(all_of({0: 1}), "w1", target=" w0", preset="paper")
    assert why.scores == ((1.0,),)
    assert why.cost.stopped == ("single",)
    assert (why.cost.probes, why.cost.steps) == (0, (0,))
    assert not why.warnings


def test_stopping_before_the_first_step_is_flagged() -> None:
    why = explain(all_of({}, 0), "w1 w2 w3", target=" w0", preset="paper")  # all words are equally likely: rank 0
    assert why.cost.stopped == ("start",)
    assert why.cost.runs == ((0, 0, 0),)
    assert "random scores" in why.warnings[0]


def test_no_run_converging_is_flagged_and_still_an_average() -> None:
    model = ScriptedModel(WORDS, lambda c: np.tile(-np.arange(20.0), (len(c), 1)))  # "w9" is never in the top 3
    why = explain(model, "w1 w2 w3", target=" w9", preset="paper", max_steps=7)
    assert why.cost.stopped == ("maximum",)
    assert why.cost.runs == ((7, 7, 7),)
    assert sum(why.scores[0]) == pytest.approx(1)
    assert "maximum number of steps" in why.warnings[0]


def test_only_converged_runs_are_averaged() -> None:
    from reagent.methods.reagent_paper import _average, _Run

    good, bad = _Run(np.array([1.0, 0.0]), 3, stopped=True), _Run(np.array([0.0, 1.0]), 9, stopped=False)
    assert _average([good, bad], 2).tolist() == [1, 0]
    assert _average([bad, bad], 2).tolist() == [0, 1]


def test_cost_counts_every_pass(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "The river runs through", max_new_tokens=1, preset="paper", max_steps=10)
    cost = why.cost
    assert cost.forward_passes == cost.probes + cost.stopping_tests + cost.proposals + 1
    assert cost.proposals == 1
    assert cost.steps == (sum(cost.runs[0]),)
    assert cost.tokens > 0


def test_progress_ends_at_its_total() -> None:
    seen: list[Progress] = []
    explain(all_of({2: 7}), "w1 w3 w7 w5", target=" w0", preset="paper", top_k=1, keep=1, on_progress=seen.append)
    assert seen[-1].done == seen[-1].total
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_named_settings_of_the_paper() -> None:
    info = {name: make_method("reagent", name)[1] for name in ("paper", "paper-recommended", "paper-appendix")}
    assert (info["paper"]["ratio"], info["paper"]["top_k"], info["paper"]["runs"]) == (0.3, 3, 3)
    assert (info["paper"]["keep"], info["paper"]["max_steps"]) == (0.3, 1000)
    assert info["paper-recommended"]["ratio"] == 0.1
    assert (info["paper-appendix"]["keep"], info["paper-appendix"]["max_steps"]) == (5, 3000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, "`ratio` of preset 'paper' must be between"),
        ({"ratio": 1.5}, "`ratio` of preset 'paper' must be between"),
        ({"ratio": float("nan")}, "`ratio` of preset 'paper' must be between"),
        ({"keep": 2.5}, "`keep` of preset 'paper' must be a share below 1 or a whole number"),
        ({"keep": float("inf")}, "`keep` of preset 'paper' must be between"),
        ({"keep": -1}, "`keep` of preset 'paper' must be"),
        ({"top_k": 0}, "`top_k` of preset 'paper' must be a whole number from 1 to 1000000, got 0"),
        ({"max_steps": 0}, "max_steps"),
        ({"step": 3}, "explain has no argument 'step'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(all_of({}), "w1 w2", target=" w0", preset="paper", **options)


def test_unknown_names_are_one_clear_error() -> None:
    with pytest.raises(UnknownNameError, match="unknown method 'lime2'"):
        explain(all_of({}), "w1", method="lime2")
    with pytest.raises(UnknownNameError, match="unknown preset of method 'reagent' 'papper', did you mean 'paper'"):
        explain(all_of({}), "w1", preset="papper")


def test_without_stopping_every_run_goes_to_the_maximum_and_reports_partial_scores() -> None:
    model = all_of({1: 1, 3: 3})
    seen: dict[int, tuple[float, ...]] = {}

    def on_progress(progress: Progress) -> None:
        assert progress.partial is not None
        seen[progress.done] = progress.partial.scores[0]  # type: ignore[assignment]

    options = {"max_new_tokens": 1, "preset": "paper", "replacer": "random", "runs": 1, "stop": False}
    why = explain(model, " ".join(WORDS[:6]), **options, max_steps=30, ahead=10, on_progress=on_progress)
    assert (why.cost.steps, why.cost.stopped, why.cost.stopping_tests) == ((30,), ("maximum",), 0)
    assert list(seen) == [10, 20, 30]
    for steps in (10, 20):
        assert seen[steps] == explain(model, " ".join(WORDS[:6]), **options, max_steps=steps, ahead=7).scores[0]
