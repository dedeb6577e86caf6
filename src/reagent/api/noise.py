"""How much the responses of a server vary: the same request, sent again.

Some servers return other log-probabilities for the same text, because they sample, because a request is computed in
another batch, or because several computers answer. The unchanged text is requested once more. If a log-probability
differs, a few more repetitions measure the variance, which is added to the variance of every effect.

An effect is the difference of two log-probabilities, so that the noise of one counts twice. A method that averages
several probes has a smaller error: for it, the standard errors are upper bounds.
"""

import logging
from dataclasses import dataclass, replace

import numpy as np

from reagent.case import Case, Floats
from reagent.explanation import Group, Sufficiency, noise_warnings
from reagent.methods.base import Attribution
from reagent.models.base import Model, RepeatsRequests, response_of

REPETITIONS = 4  # if the first one differs
SAME = 1e-6  # nats

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Noise:
    """Log-probabilities of the same targets in responses to the same request."""

    samples: Floats  # [responses, targets of the case]; one response if a second was the same

    def per_token(self, case: Case) -> float:
        """The standard deviation of an output token, in nats: the root of the mean variance."""
        return float(np.sqrt(self._variances(case).mean()))

    def add_to(self, attribution: Attribution, case: Case) -> Attribution:
        """The attribution with the noise in its standard errors; `case` has its units."""
        if attribution.effect_unit != "nats" or len(self.samples) < 2:
            return attribution
        errors = np.sqrt(2 * self._variances(case))
        noisy = _with_errors(attribution, errors, case)
        if noisy.answer is None:
            return noisy
        total = np.array([self.part_error(case, slice(None))])
        return replace(noisy, answer=_with_errors(noisy.answer, total, case))

    def part_error(self, case: Case, units: slice) -> float:
        """The noise of an effect on the sum of some output units, as a standard error."""
        if len(self.samples) < 2:
            return 0.0
        return float(np.sqrt(2 * np.sum(case.output_values(self.samples)[units], axis=0).var(ddof=1)))

    def _variances(self, case: Case) -> Floats:
        """The variance of each output unit."""
        if len(self.samples) < 2:
            return np.zeros(len(case.output))
        return np.array([value.var(ddof=1) for value in case.output_values(self.samples)])


def measure_noise(model: Model, case: Case) -> Noise | None:
    """Repeat the request of the unchanged text; None if the model is not on a server, or answers only with text.

    The case has log-probabilities, and its output units are tokens.
    """
    if not isinstance(model, RepeatsRequests) or not response_of(model).is_logprob:
        return None
    if not str(model.info["backend"]).startswith("http"):
        return None
    contrast = [] if case.contrast is None else [case.contrast.token]
    first = np.array([[token.logprob for token in (*case.output, *contrast)]], dtype=np.float64)
    censored = model.meter.censored

    def again(repetition: int, targets: slice) -> Floats:
        return model.score_again(repetition, case.ids[None], case.positions[targets], case.targets[targets]).logprob

    # Without an echo, every target is a request of its own: one of them is enough to notice.
    begin = 0 if "of the prompt" in model.info["backend"] else first.shape[1] - 1
    samples, second = first, again(1, slice(begin, None))
    if np.abs(second - first[:, begin:]).max() > SAME:
        others = [again(1, slice(begin))] if begin else []
        more = [again(n, slice(None)) for n in range(2, REPETITIONS + 2)]
        samples = np.concatenate([first, np.concatenate([*others, second], axis=1), *more])
    model.meter.censored = censored
    noise = Noise(samples)
    if model.meter.requests or model.meter.cached:  # a model that only counts has none, and its noise is not real
        for warning in noise_warnings(noise.per_token(case)):
            logger.warning("%s", warning)
    return noise


def _with_errors(attribution: Attribution, errors: Floats, case: Case) -> Attribution:
    """With `errors` [rows] added to the standard errors, as independent ones."""

    def add(row: Floats, error: float) -> Floats:
        return np.where(case.protected[: len(row)], row, np.hypot(row, error))

    def add_to_test(test: Sufficiency | None, error: float) -> Sufficiency | None:
        return (
            test if test is None or test.stderr is None else replace(test, stderr=float(np.hypot(test.stderr, error)))
        )

    def add_to_group(group: Group, error: float) -> Group:
        return group if group.stderr is None else replace(group, stderr=float(np.hypot(group.stderr, error)))

    stderr, groups, tests = attribution.stderr, attribution.groups, attribution.sufficiency
    return replace(
        attribution,
        stderr=stderr and [add(row, error) for row, error in zip(stderr, errors, strict=True)],
        groups=groups and [[add_to_group(g, e) for g in some] for some, e in zip(groups, errors, strict=True)],
        sufficiency=tests and [add_to_test(test, error) for test, error in zip(tests, errors, strict=True)],
    )
