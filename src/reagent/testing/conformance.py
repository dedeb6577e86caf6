"""Conformance suites: what must be true of every method, replacer, model and metric, whatever it computes.

Each check raises AssertionError with one sentence that names the broken rule.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.api.evaluate import evaluate
from reagent.api.explain import explain
from reagent.case import Case, Ids, TargetScores
from reagent.errors import CapabilityError
from reagent.explanation import Explanation
from reagent.methods import Method, uses_replacer
from reagent.models.base import Model, PredictsTokens
from reagent.models.ragged import score_ragged
from reagent.replacers import Proposals, Replacer
from reagent.testing.planted import all_of, mentions
from reagent.testing.scripted import ScriptedModel

PROMPT = "w1 w2 w5 w4 w6 w7"
CAUSE = 2  # the position of "w5", on which the planted answer depends
TARGET = " w0"


# --- methods ---


def check_method(
    method: Method, model: Model | None = None, *, prompt: str | None = None, finds_causes: bool = True
) -> None:
    """Check that a method obeys the contract of `reagent.methods.Method`.

    Args:
        method: an instance with options that end soon.
        model: needed for a method that requires more than probabilities; otherwise a scripted model serves.
        prompt: a text that `model` can read, of three or more tokens.
        finds_causes: whether the method claims to find a single planted cause; False for a random baseline.
    """
    planted = mentions("w5")
    capable = _is_capable(method, planted)
    subject: Any = planted if model is None else model
    text = prompt or (PROMPT if model is None else "The river runs through the old town")
    _check_provenance("method", method.info)
    _check_rows(_explain(subject, text, method))
    _check_seed(subject, text, method)
    _check_batches(subject, text, method)
    _check_protected(_ProtectFirst(subject), text, method)
    if not capable:
        return
    single = _explain(all_of({0: 1}), "w1", method, target=TARGET)
    assert single.scores == ((1.0,),), "a prompt of one token must have the score 1"
    certain = _explain(all_of({1: 7}, strength=1e4), "w1 w7 w3", method, target=TARGET)
    assert np.isfinite(certain.scores[0]).all(), "a model that is certain must not lead to NaN or infinity"
    ignorant = ScriptedModel(planted.vocabulary, lambda context: np.tile(np.arange(20.0), (len(context), 1)))
    _check_rows(_explain(ignorant, "w1 w2 w3", method, target=" w19"))
    if finds_causes:
        best = _explain(planted, PROMPT, method, target=TARGET).top(1)[0].position
        assert best == CAUSE, f"the only cause is at position {CAUSE}, but position {best} has the highest score"


def _explain(model: Any, text: str, method: Method, target: str | None = None, seed: int = 0) -> Explanation:
    return explain(
        model,
        text,
        method=method,
        target=target,
        max_new_tokens=2,
        seed=seed,
        replacer="random" if uses_replacer(method) else "auto",
    )


def _is_capable(method: Method, model: Model) -> bool:
    try:
        if hasattr(method, "check"):
            method.check(model)
    except CapabilityError:
        return False
    return True


def _check_provenance(kind: str, info: Mapping[str, Any]) -> None:
    try:
        json.dumps(dict(info), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the info of a {kind} must be plain JSON values: {error}") from error


def _check_rows(why: Explanation) -> None:
    for t, row in enumerate(why.scores):
        assert len(row) == len(why.input) + t, f"row {t} must have one score for every preceding unit"
        assert np.isfinite(row).all(), f"the scores of row {t} must be finite"
        assert min(row) >= 0 and abs(sum(row) - 1) < 1e-6, f"the scores of row {t} must be a distribution"  # noqa: PT018
    for name in ("effects", "stderr"):
        rows = getattr(why, name)
        lengths = [len(row) for row in why.scores]
        assert rows is None or [len(row) for row in rows] == lengths, f"{name} must have the shape of scores"
    assert (why.effects is None) == (why.effect_unit is None), "effects need an effect_unit, and only they have one"
    cost = why.cost
    counted = cost.probes + cost.stopping_tests + cost.proposals + 1
    assert cost.forward_passes == counted, (
        f"the method reports {cost.probes} probes and {cost.stopping_tests} stopping tests, but the model counted "
        f"{cost.forward_passes - cost.proposals - 1} passes"
    )


def _check_seed(model: Any, text: str, method: Method) -> None:
    before = str(method.info)
    first = _explain(model, text, method, seed=1)
    state = np.random.get_state()
    np.random.seed(7)
    second = _explain(model, text, method, seed=1)
    np.random.set_state(state)
    assert first.scores == second.scores, "the same seed must give the same scores, without global randomness"
    assert str(method.info) == before, "a method must not change while it runs: results are returned"


def _check_batches(model: Any, text: str, method: Method) -> None:
    whole, cut = (_explain(one, text, method).scores for one in (model, _OneByOne(model)))
    close = all(np.allclose(a, b, atol=1e-4) for a, b in zip(whole, cut, strict=True))
    assert close, "the scores must not depend on how the model cuts batches"


def _check_protected(model: Any, text: str, method: Method) -> None:
    why = _explain(model, text, method)
    assert all(row[0] == 0 for row in why.scores), "a protected token must have the score 0"
    kept = all((batch[:, 0] == why.input[0].ids[0]).all() for batch in model.sequences)
    assert kept, "a protected token must never be replaced"


class _Wrapper:
    """A model that forwards everything to another one."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        case: Case = self._model.case(prompt, target, max_new_tokens)
        return case

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        scores: TargetScores = self._model.score(sequences, positions, targets)
        return scores

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        return score_ragged(self._model, sequences, positions, targets)


class _OneByOne(_Wrapper):
    """Scores one sequence at a time."""

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        rows = [self._model.score(sequences[i : i + 1], positions, targets) for i in range(len(sequences))]
        return TargetScores(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        rows = [self._model.score(s[None], p, targets) for s, p in zip(sequences, positions, strict=True)]
        return TargetScores(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


class _ProtectFirst(_Wrapper):
    """Protects the first token of every prompt, and records what it is asked to score."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.sequences: list[Ids] = []

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        case = super().case(prompt, target, max_new_tokens)
        return replace(case, input=(replace(case.input[0], protected=True), *case.input[1:]))

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        self.sequences.append(sequences.copy())
        return super().score(sequences, positions, targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        self.sequences += [sequence[None] for sequence in sequences]
        return super().score_ragged(sequences, positions, targets)


# --- replacers ---


def check_replacer(replacer: Replacer, model: Model | None = None, *, prompt: str | None = None) -> None:
    """Check that a replacer obeys the contract of `reagent.replacers.Replacer`.

    Without a `model`, a scripted one serves; its words are "w0" to "w19".
    """
    subject: Any = _ProtectFirst(all_of({CAUSE: 5}) if model is None else model)
    text = prompt or (PROMPT if model is None else "The river runs through the old town")
    case = subject.case(text, None, 2)
    _check_provenance("replacer", replacer.info)
    assert replacer.info.get("id"), "the info of a replacer must name its id"
    proposals = replacer.propose(subject, case, np.random.default_rng(0))
    _check_proposals(proposals, case)
    again = replacer.propose(subject, case, np.random.default_rng(0))
    same = np.array_equal(proposals.ids, again.ids) and np.array_equal(proposals.weights, again.weights)
    assert same, "the same random generator must give the same proposals"
    used = set(proposals.ids[proposals.weights > 0].tolist())
    special = set(getattr(subject._model, "special_ids", ()))
    assert not used & special, "special tokens must not be proposed"


def _check_proposals(proposals: Proposals, case: Case) -> None:
    assert proposals.ids.shape == proposals.weights.shape, "ids and weights must have the same shape"
    assert len(proposals.ids) == len(case.ids), "there must be one row of proposals for every token"
    assert np.array_equal(proposals.original, case.ids), "`original` must be the tokens of the case"
    weights = proposals.weights
    assert np.isfinite(weights).all() and (weights >= 0).all(), "weights must be finite and not negative"  # noqa: PT018
    used = weights > 0
    assert not (used & (proposals.ids == case.ids[:, None])).any(), "the original token must not be proposed"
    assert not proposals.replaceable[case.protected].any(), "protected tokens must have no proposals"
    assert proposals.replaceable.any(), "at least one token must have a proposal"


# --- models ---


def check_model(model: Model, prompt: str = "The river runs through the old town", max_new_tokens: int = 3) -> None:
    """Check that a model obeys the contract of `reagent.models.Model` on a prompt that it can read."""
    _check_provenance("model", model.info)
    assert {"id", "backend"} <= set(model.info), "the info of a model must name its id and backend"
    case = model.case(prompt, max_new_tokens=max_new_tokens)
    _check_case(case, prompt)
    scores = _score(model, case, case.ids[None])
    assert scores.logprob.shape == scores.rank.shape == (1, len(case.positions)), "scores must be [batch, targets]"
    assert np.isfinite(scores.logprob).all() and (scores.logprob <= 1e-6).all(), (  # noqa: PT018
        "log-probabilities must be finite and not positive"
    )
    assert (scores.rank == 0).all(), "the model's own greedy continuation must have rank 0 everywhere"
    _check_independence(model, case, scores)
    again = model.case(prompt, case.completion)
    assert again.completion == case.completion, "a target must be explained as it was given"
    if isinstance(model, PredictsTokens):
        best = model.predict(case.ids, 1)
        first = case.positions[0] - 1
        assert best.ids[first, 0] == case.targets[0], "the first prediction must be the greedy continuation"


def _check_case(case: Case, prompt: str) -> None:
    assert case.prompt == prompt, "the case must keep the prompt as it was given"
    for token in case.input:
        if token.end > token.start:
            assert prompt[token.start : token.end] == token.text, f"token {token.text!r} must be at its characters"
    ends = [token.end for token in case.input if token.end > token.start]
    assert ends and ends[-1] == len(prompt), "the tokens must cover the prompt to its end"  # noqa: PT018
    assert all(token.ids for token in case.units), "every token must have an id"


def _score(model: Model, case: Case, sequences: Ids) -> TargetScores:
    before = model.meter.forward_passes
    given = sequences.copy()
    scores = model.score(sequences, case.positions, case.targets)
    counted = model.meter.forward_passes - before
    assert counted == len(sequences), f"the meter must count one pass per sequence: {len(sequences)}, not {counted}"
    assert np.array_equal(sequences, given), "score must not change the array that it is given"
    return scores


def _check_independence(model: Model, case: Case, scores: TargetScores) -> None:
    units = [i for i, unit in enumerate(case.input) if not unit.protected]
    other, at = case.ids.copy(), int(case.unit_starts[units[-1]])
    other[at] = next(int(i) for i in [*case.ids[units], *case.targets] if i != case.ids[at])
    both = _score(model, case, np.stack([case.ids, other]))
    close = np.allclose(both.logprob[0], scores.logprob[0], atol=1e-3)
    assert close, "the score of a sequence must not depend on the others in its batch"
    last = case.ids.copy()
    last[-1] = case.ids[0]
    future = (
        model.score(last[None], case.positions[:-1], case.targets[:-1]).logprob if len(case.positions) > 1 else None
    )
    if future is not None:
        close = np.allclose(future[0], scores.logprob[0, :-1], atol=1e-3)
        assert close, "the score of a target must depend on the tokens before it only"


# --- metrics ---


def check_metric(metric: Any, model: Model | None = None, explanations: Sequence[Explanation] | None = None) -> None:
    """Check that a metric obeys the contract of `reagent.metrics.Metric`.

    Without `model` and `explanations`, it measures two explanations of a scripted model: one that names the
    planted cause and one that names another word. The first must not be worse.
    """
    subject: Any = all_of({CAUSE: 5}) if model is None else model
    whys = list(explanations) if explanations is not None else [_by_position(subject, i) for i in (CAUSE, 0)]
    values = []
    for why in whys:
        first, second = (evaluate(subject, why, [metric], draws=16, replacer="random") for _ in range(2))
        assert first.results, "a metric must return at least one result"
        for result in first.results:
            assert result.metric == metric.id, f"the result must name its metric {metric.id!r}, not {result.metric!r}"
            assert result.higher_is_better == metric.higher_is_better, "results must agree on the better direction"
            assert np.isfinite([result.value, result.stderr, result.random]).all(), "results must be finite numbers"
        assert first.results == second.results, "the same seed must give the same results"
        _check_provenance("metric's evaluation", json.loads(first.to_json()))
        values.append(first.results[0].value * (1 if metric.higher_is_better else -1))
    if explanations is None:
        assert values[0] >= values[1], "an explanation that names the cause must not be worse than a wrong one"


def _by_position(model: ScriptedModel, position: int) -> Explanation:
    """An explanation of the planted answer that gives all its score to one position."""
    why = explain(model, PROMPT, method="random", target=TARGET)
    row = tuple(float(i == position) for i in range(len(why.input)))
    return replace(why, scores=(row,))
