"""Leave-one-out: effects of replacing single units, with standard errors, from probes shared by all output tokens.

The published update is a sum over the steps in which a token happened to be replaced. Four changes follow:

- The order of the steps does not matter, so probes are drawn in advance and scored in large batches.
- How often a token is replaced is noise, and so is what else is replaced with it. Sampling is therefore balanced: each
  round replaces every token once, in blocks as small as the number of probes allows, and no candidate of a token is
  used twice before all were used once. If blocks are single tokens, further probes after three replicates of each
  token go to the tokens with the largest remaining variance.
- The published sum grows with the number of steps. The effect of a token does not: it is the drop in log-probability
  of the target when the token is replaced. It is much closer to additive over tokens than the published response.
- One pass over prompt and continuation perturbs the context of every output token at once.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.explanation import Z_95
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.effects import Design, Effects, estimate
from reagent.methods.normalization import NORMALIZATIONS, normalize
from reagent.methods.reagent_paper import gain
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.sampling import BalancedSampler
from reagent.validation import check_integer, check_name, check_range

BATCH, MIN_BATCH = 32, 16  # probes scored at once
REPLICATES = 6  # per token, over all probes; more would need larger blocks, which add noise
MAX_BLOCK_SHARE = 0.1  # of the tokens, even with few probes
MIN_REPLICATES = 3  # per token, before the ranking is tested: a single candidate may happen to have no effect
SNAPSHOTS = tuple(16 * 2**k for k in range(16))  # numbers of probes after which a partial result is reported
MOST_STRATA = 16  # for the candidates of one token
RESPONSES = {"logprob": "nats", "g": "g"}  # response of a probe, and its unit
NEGLIGIBLE = 0.1  # share of the largest effect: smaller differences need not be settled


@dataclass(frozen=True)
class LeaveOneOut:
    """Balanced probes, effects by regression, and early stopping."""

    probes: int | None = None  # exact number; by default, until the top of every ranking is settled
    max_probes: int = 256  # upper limit if `probes` is not given
    look: int = 32  # probes between two tests of the ranking
    ratio: float | None = None  # share of the tokens replaced in each probe; by default, see `share_replaced`
    top: int = 3  # number of top tokens that must be separated from the rest
    response: str = "logprob"  # or "g", the published response

    def __post_init__(self) -> None:
        owner = "preset 'leave-one-out'"
        if self.ratio is not None:
            check_range(owner, "ratio", self.ratio, 1e-9, 1)
        for name in ("probes", "max_probes", "look", "top"):
            if getattr(self, name) is not None:
                check_integer(owner, name, getattr(self, name), 1)
        check_name("response", self.response, RESPONSES)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.share_replaced, "scores": NORMALIZATIONS["positive"]}

    @property
    def budget(self) -> int:
        """The maximum number of probes."""
        return self.probes or self.max_probes

    @property
    def share_replaced(self) -> float:
        """Share of the tokens that a probe replaces; by default, as needed for `REPLICATES` replicates per token.

        >>> [fast.share_replaced for fast in (LeaveOneOut(probes=32), LeaveOneOut(probes=120), LeaveOneOut(ratio=0.3))]
        [0.1, 0.05, 0.3]
        """
        return min(MAX_BLOCK_SHARE, REPLICATES / self.budget) if self.ratio is None else self.ratio

    def block_size(self, tokens: int) -> int:
        """Number of tokens that a probe replaces; by default, large enough for one replicate of every token."""
        one_round = -(-tokens // self.budget) if self.ratio is None else 1
        return max(1, one_round, round(self.share_replaced * tokens))

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output tokens with the same probes."""
        total = self.budget
        free = np.flatnonzero(proposals.replaceable[:-1])  # the last output token precedes no target
        exhausted_after = proposals.exhausted_after(MOST_STRATA)[free]
        sampler = BalancedSampler(len(free), self.block_size(len(free)), proposals.strata(MOST_STRATA)[free], rng)
        adaptive = self.ratio is None and sampler.round_length == len(free)  # blocks are single tokens
        first_test = _round_up_to_batches(MIN_REPLICATES * sampler.round_length)
        design = Design.empty(proposals.normalised[free], proposals.sampling_variance[free])
        regressions = _Regressions(case, free, design)
        responses, effects = np.empty((0, len(case.output))), list[Effects]()
        for stop in self._checkpoints(first_test):
            count = stop - len(responses)
            if adaptive and len(responses) >= first_test:
                variance = regressions.reducible_variance(effects)
                replaced, uniform = sampler.next_uncertain(count, variance, exhausted_after)
            else:
                replaced, uniform = sampler.next_blocks(count)
            columns = proposals.choose(uniform, free)
            regressions = regressions.append(replaced, columns)
            for sequences in _batches(proposals.apply(replaced, columns, free)):
                responses = np.concatenate([responses, self._respond(model, case, sequences)])
                if len(responses) < stop:
                    on_progress(Progress(len(responses), total, "probes"))
            effects = regressions.estimate_effects(responses)
            attribution = self._attribution(regressions, effects, stop, MIN_REPLICATES * sampler.round_length)
            if not self.probes and stop >= first_test:
                settled = all(attribution.stopped[t] != "unsettled" for t in case.required_rows)
                exhausted = adaptive and (sampler.replicates >= exhausted_after).all()
                total = stop if settled or exhausted else total
            on_progress(Progress(stop, total, "probes", partial=attribution))
            if stop == total:
                break
        return attribution

    def for_level(self, level: int, levels: int) -> "LeaveOneOut":
        """The same method with its share of the probes, for one of several levels."""
        if self.probes and self.probes < levels:
            raise InputError(f"{levels} levels need at least {levels} probes, got {self.probes}")

        def share(count: int) -> int:
            return max(1, (count + level) // levels)

        method = replace(self, probes=self.probes and share(self.probes), max_probes=share(self.max_probes))
        return method if level == levels - 1 else replace(method, top=1)  # a coarse level only selects units to expand

    def _checkpoints(self, first_test: int) -> list[int]:
        """Numbers of probes after which effects are estimated; the last is the budget.

        Estimation takes longer with more probes, so later checkpoints are further apart.

        >>> LeaveOneOut()._checkpoints(96), LeaveOneOut(probes=600)._checkpoints(400)
        ([16, 32, 64, 96, 128, 160, 192, 224, 256], [16, 32, 64, 128, 256, 400, 450, 506, 569, 600])
        """
        checkpoints, test = [count for count in SNAPSHOTS if count < min(first_test, self.budget)], first_test
        while test < self.budget:
            checkpoints.append(test)
            test += max(self.look, test // 8)
        return [*checkpoints, self.budget]

    def _respond(self, model: Model, case: Case, sequences: Ids) -> Floats:
        """Response of each target to each probe, [probes, targets]: drop in log-probability, or g of Eq. 6."""
        before, after = case.values[None], case.score_outputs(model, sequences).value
        if self.response == "logprob":
            return np.asarray(before - after)
        return gain(case.probability(before) - case.probability(after))

    def _attribution(
        self, regressions: "_Regressions", effects: list[Effects], probes: int, min_probes: int
    ) -> Attribution:
        too_few = self.budget == probes < min_probes
        means = [regressions.to_row(t, e.mean) for t, e in enumerate(effects)]
        normalized = [normalize(mean, regressions.case.protected) for mean in means]
        stopped = ["fixed" if self.probes else "settled" if is_settled(e, self.top) else "unsettled" for e in effects]
        if too_few:
            stopped = ["few"] * len(effects)
        return Attribution(
            scores=[scores for scores, _ in normalized],
            effects=means,
            stderr=[regressions.to_row(t, e.stderr) for t, e in enumerate(effects)],
            effect_unit=RESPONSES[self.response],
            steps=[probes] * len(effects),
            stopped=[
                "flat" if flat and not too_few else reason
                for (_, flat), reason in zip(normalized, stopped, strict=True)
            ],
            runs=[],
            probes=probes,
            stopping_tests=0,
        )


@dataclass(frozen=True)
class _Regressions:
    """One regression per target, all with the same probes. Target t sees only the tokens before it."""

    case: Case
    free: Ids  # units that can be replaced: the tokens of the design
    design: Design

    def append(self, replaced: Mask, column: Ids) -> "_Regressions":
        """The regressions with further probes."""
        return replace(self, design=self.design.append(replaced, column))

    def estimate_effects(self, responses: Floats) -> list[Effects]:
        """For each target, the effects of the tokens before it."""
        return [
            estimate(self.design.restrict(len(responses), self._tokens_before(t)), y) for t, y in enumerate(responses.T)
        ]

    def reducible_variance(self, effects: list[Effects]) -> Floats:
        """Variance that further probes can reduce, relative to the squared largest effect, summed over targets."""
        variance = np.zeros(len(self.free))
        for target in (effects[t] for t in self.case.required_rows):
            largest = float(abs(target.mean).max(initial=0.0))
            variance[: len(target.mean)] += target.reducible / largest**2 if largest else 0.0
        return variance

    def _tokens_before(self, t: int) -> int:
        """Number of replaceable tokens before target t."""
        return int(np.searchsorted(self.free, len(self.case.input) + t))

    def to_row(self, t: int, values: Floats) -> Floats:
        """Values of replaceable tokens as a row over all units before target t."""
        row = np.zeros(len(self.case.input) + t)
        row[self.free[: len(values)]] = values
        return row


def is_settled(effects: Effects, top: int) -> bool:
    """Whether the `top` tokens differ significantly from all others, or differ from them by a negligible amount."""
    order = np.argsort(-effects.mean, kind="stable")
    first, rest = order[:top], order[top:]
    gap = effects.mean[first][:, None] - effects.mean[rest]
    error = Z_95 * np.hypot(effects.stderr[first][:, None], effects.stderr[rest])
    largest = max(0.0, float(effects.mean.max(initial=0.0)))
    return bool(((gap > error) | (gap + error < NEGLIGIBLE * largest)).all())


def _round_up_to_batches(probes: int) -> int:
    """The number of probes, rounded up to a multiple of the smallest batch.

    >>> _round_up_to_batches(0), _round_up_to_batches(16), _round_up_to_batches(17)
    (16, 16, 32)
    """
    return MIN_BATCH * max(1, -(-probes // MIN_BATCH))


def _batches(sequences: Ids) -> Iterator[Ids]:
    """The sequences in batches that are scored at once."""
    for start in range(0, len(sequences), BATCH):
        yield sequences[start : start + BATCH]
