"""`explain_by_proxy`: a small model on this machine explains the answer of a large one, and the large one checks it.

The proxy explains the answer of the model, which costs the model nothing. Then the same texts are scored by both:

halves   random halves of the units are removed. The agreement is the rank correlation of the losses of the answer in
         both models. It must be larger than `LEAST_AGREEMENT` with 95 % confidence; otherwise more texts are scored,
         up to `MOST_HALVES`. A proxy that remains below is refused.
top      the units that the proxy calls the most important are removed, and as many others several times. The model
         must lose more without the first than without any of the others, on which the proxy puts little.

Units are words (or larger), as spans of characters, so the two models may have different tokenizers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reagent.api.prepare import group_tokens, read_case, stream_to
from reagent.api.run import run
from reagent.case import Case, Floats, Mask
from reagent.errors import InputError, ProxyError
from reagent.explanation import Explanation
from reagent.methods.base import ProgressCallback
from reagent.models.base import Model, response_of
from reagent.removal import Delete
from reagent.request import ExplainRequest

LEAST_AGREEMENT = 0.5  # the correlation must be above it with confidence …
ONE_SIDED_95 = 1.645
HALVES, MOST_HALVES = 16, 48  # texts scored at once, and at most
OTHERS = 3  # draws of units that are not among the most important
MOST_CHECKS = MOST_HALVES + OTHERS + 2  # texts that the model scores, with the unchanged one
MOST_TOP, TOP_SHARE = 5, 0.2  # units at the top that are checked together
FEWEST_UNITS = 6  # of fewer, an explanation needs no proxy


@dataclass
class _Checked:
    """One of the two models with its case, cut into the units of the check."""

    model: Model
    case: Case
    remover: Delete = field(init=False)

    def __post_init__(self) -> None:
        self.remover = Delete(self.model, self.case)

    @property
    def texts(self) -> list[str]:
        return [self.case.units[i].text.strip() for i in self.remover.free]

    def losses(self, removed: Mask) -> Floats:
        """What the whole answer loses in each text, [texts]."""
        return np.asarray((self.case.values - self.remover.score(removed).value).sum(-1))


@dataclass(frozen=True)
class Agreement:
    """How well a proxy stands for a model."""

    correlation: float
    halves: int
    top: float  # what the answer loses without the most important units …
    others: float  # … and at most without as many others

    @property
    def _margin(self) -> float:
        return ONE_SIDED_95 * 1.06 / math.sqrt(self.halves - 3)  # of Fisher's z of a rank correlation

    @property
    def lower(self) -> float:
        """The 95 % lower bound of the correlation."""
        return math.tanh(math.atanh(min(self.correlation, 0.999)) - self._margin)

    @property
    def upper(self) -> float:
        return math.tanh(math.atanh(max(self.correlation, -0.999)) + self._margin)

    @property
    def fits(self) -> bool:
        return self.lower > LEAST_AGREEMENT and self.top > self.others


def explain_by_proxy(
    model: Model,
    proxy: Model,
    request: ExplainRequest,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
) -> Explanation:
    """The explanation of the model's answer by the proxy, if both agree; otherwise ProxyError."""
    _check_request(request)
    request.check_model(proxy)
    before = model.meter.forward_passes
    case = read_case(stream_to(model, on_answer), request)
    if on_answer is not None:
        on_answer(case.completion)
    own_request = replace(request, target=_as_continuation(case.completion, request))
    why = run(proxy, own_request, on_progress)
    ours = _Checked(model, _cut(model, case, request))
    theirs = _Checked(proxy, _cut(proxy, read_case(proxy, own_request), request))
    if ours.texts != theirs.texts:
        raise ProxyError(
            f"the proxy {proxy.info['id']!r} splits the prompt into other units than {model.info['id']!r}: "
            "leave out the proxy"
        )
    agreement = _compare(ours, theirs, _unit_scores(why, theirs), np.random.default_rng([request.seed, 1]))
    passes = model.meter.forward_passes - before
    if not agreement.fits:
        raise ProxyError(_refusal(proxy, model, agreement))
    return _record(why, model, proxy, agreement, passes)


def _check_request(request: ExplainRequest) -> None:
    for name in ("contrast", "target_span", "answer_span"):
        if getattr(request, name) is not None:
            raise InputError(f"a proxy explains whole answers: leave out `{name}`, or the proxy")
    if request.attribute_target:
        raise InputError("a proxy explains answers by the prompt: leave out `attribute_target`, or the proxy")


def _as_continuation(answer: str, request: ExplainRequest) -> str:
    """The answer as the continuation of a text: chats answer without the space between words."""
    prompt = request.prompt
    needs_space = isinstance(prompt, str) and not prompt[-1:].isspace() and answer[:1].isalnum()
    return f" {answer}" if needs_space and request.target is None else answer


def _cut(model: Model, case: Case, request: ExplainRequest) -> Case:
    """The case with words, or the larger units that were asked for."""
    unit = request.units if isinstance(request.units, str) else request.units[-1]
    units = ("word",) if unit == "token" and request.prompt_spans is None else (unit,)
    groups = group_tokens(case, replace(request, units=units))
    return case.grouped(next(iter(groups.values()))).without_output_removal().with_logprobs(model)


def _unit_scores(why: Explanation, checked: _Checked) -> Floats:
    """The score of each unit of the check: the sum over the units of the explanation that start in it."""
    scores = why.answer.scores if why.answer is not None else why.scores[0]
    starts = np.array([unit.start for unit in why.input])
    spans = [(checked.case.units[i].start, checked.case.units[i].end) for i in checked.remover.free]
    return np.array([np.array(scores)[(starts >= a) & (starts < b)].sum() for a, b in spans])


def _compare(ours: _Checked, theirs: _Checked, scores: Floats, rng: np.random.Generator) -> Agreement:
    units = len(scores)
    if units < FEWEST_UNITS:
        raise InputError(
            f"a proxy needs at least {FEWEST_UNITS} units to be checked, and there are {units}: leave it out"
        )
    order = np.argsort(-scores, kind="stable")
    count = max(1, min(MOST_TOP, round(TOP_SHARE * units)))
    sets = [order[:count], *(rng.choice(order[count:], count, replace=False) for _ in range(OTHERS))]
    top, *others = ours.losses(np.array([np.isin(np.arange(units), some) for some in sets]))
    halves: list[tuple[Floats, Floats]] = []
    while True:
        removed = rng.random((HALVES, units)).argsort(1) < units // 2
        halves.append((ours.losses(removed), theirs.losses(removed)))
        one, two = (np.concatenate(losses) for losses in zip(*halves, strict=True))
        agreement = Agreement(_rank_correlation(one, two), len(one), float(top), float(max(others)))
        undecided = agreement.lower <= LEAST_AGREEMENT < agreement.upper and agreement.top > agreement.others
        if not undecided or len(one) >= MOST_HALVES:
            return agreement


def _rank_correlation(one: Floats, two: Floats) -> float:
    """Spearman's; 0 if all values of one are equal."""
    first, second = _mean_ranks(one), _mean_ranks(two)
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _mean_ranks(values: Floats) -> Floats:
    """Ranks from 0; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])


def _refusal(proxy: Model, model: Model, agreement: Agreement) -> str:
    reason = (
        f"the losses of the answer correlate by {agreement.correlation:.2f} over {agreement.halves} texts (95 % bounds "
        f"{agreement.lower:.2f} to {agreement.upper:.2f}, more than {LEAST_AGREEMENT} is needed)"
    )
    if agreement.top <= agreement.others:
        reason = (
            f"without its most important units the answer loses {agreement.top:.2g} and without others "
            f"{agreement.others:.2g}"
        )
    return (
        f"the proxy {proxy.info['id']!r} does not behave like {model.info['id']!r}: {reason}; "
        "choose another proxy, or leave it out"
    )


def _record(why: Explanation, model: Model, proxy: Model, agreement: Agreement, passes: int) -> Explanation:
    """The explanation as one of the model, with the proxy and the agreement."""
    record: dict[str, Any] = {
        "id": proxy.info["id"],
        "agreement": round(agreement.correlation, 3),
        "agreement_lower": round(agreement.lower, 3),
        "checks": agreement.halves + OTHERS + 1,
        "passes": passes,
        "top": round(agreement.top, 4),
        "others": round(agreement.others, 4),
        "unit": response_of(model).unit,
    }
    return replace(
        why,
        model={**model.info, "proxy": record},
        effect_unit="nats under the proxy" if why.effect_unit == "nats" else why.effect_unit,
        output=tuple(replace(unit, logprob=None) for unit in why.output),
    )
