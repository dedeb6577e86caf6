"""ReAGent, fast: the same question, asked of all output tokens at once and answered with an error.

Four things follow from what the published update really computes, a sum over the steps in which a
token happened to be replaced:

- The steps need no order, so probes are drawn ahead and scored in large batches.
- How often a token is drawn is noise, and so is what else is replaced with it. Tokens are dealt like cards,
  each once per deck, in hands as small as the number of probes allows, and so are the candidates of each,
  so that none is used twice before all were used. Where hands are single tokens and all had three turns,
  further turns go to the tokens whose effects are least known.
- The sum grows with the number of steps. An effect does not: it is what replacing the token costs the
  target in log-probability, which adds up over tokens far better than the published response does.
- One pass over prompt and continuation perturbs the context of every output token at once.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError, UnknownNameError
from reagent.explanation import Z_95
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.effects import Design, Effects, estimate
from reagent.methods.normalization import HOW, share
from reagent.methods.reagent_paper import gain
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.sampling import BalancedSampler
from reagent.validation import check_integer, check_range

BLOCK, SMALLEST_BLOCK = 32, 16  # probes scored at once
TURNS = 6  # how often each token is replaced by all probes together: more tokens at once than that takes are noise
LARGEST_HAND = 0.1  # of the tokens, however few the probes
FIRST_TURNS = 3  # how often each token is replaced before anything is concluded: one candidate may be harmless
GLANCES = tuple(16 * 2**k for k in range(16))  # probes after which there is a picture for those who watch
MOST_STRATA = 16
RESPONSES = {"logprob": "nats", "g": "g"}  # what is measured of a probe, and its unit
NEGLIGIBLE = 0.1  # of the largest effect: a difference below it need not be settled


@dataclass(frozen=True)
class ReagentFast:
    """How many probes, and how they are dealt."""

    probes: int | None = None  # exactly so many; by default, until the top of every ranking is settled
    max_probes: int = 256  # where that ends at the latest
    look: int = 32  # probes between two looks at the ranking
    ratio: float | None = None  # share of the tokens replaced in each probe; by default what gives each its turns
    top: int = 3  # how many of the most important tokens must be told apart from the rest
    response: str = "logprob"  # or g, the published one

    def __post_init__(self) -> None:
        owner = "preset 'fast'"
        if self.ratio is not None:
            check_range(owner, "ratio", self.ratio, 1e-9, 1)
        for name in ("probes", "max_probes", "look", "top"):
            if getattr(self, name) is not None:
                check_integer(owner, name, getattr(self, name), 1)
        if self.response not in RESPONSES:
            raise UnknownNameError("response", self.response, RESPONSES)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.share_replaced, "scores": HOW["positive"]}

    @property
    def most(self) -> int:
        """How many probes there can be."""
        return self.probes or self.max_probes

    @property
    def share_replaced(self) -> float:
        """How much of the tokens a probe replaces.

        >>> [fast.share_replaced for fast in (ReagentFast(probes=32), ReagentFast(probes=120), ReagentFast(ratio=0.3))]
        [0.1, 0.05, 0.3]
        """
        return min(LARGEST_HAND, TURNS / self.most) if self.ratio is None else self.ratio

    def hand(self, tokens: int) -> int:
        """How many tokens a probe replaces; by default so many that each has a turn, however few the probes."""
        least = -(-tokens // self.most) if self.ratio is None else 1
        return max(1, least, round(self.share_replaced * tokens))

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output tokens with the same probes."""
        count = self.most
        free = np.flatnonzero(proposals.replaceable[:-1])  # the last target replaces nothing
        enough = proposals.exhausted_after(MOST_STRATA)[free]
        dealer = BalancedSampler(len(free), self.hand(len(free)), proposals.strata(MOST_STRATA)[free], rng)
        one_by_one = self.ratio is None and dealer.deck == len(free)
        first = _whole_blocks(FIRST_TURNS * dealer.deck)
        rows = _Rows(case, free, Design.empty(proposals.normalised[free], proposals.sampling_variance[free]))
        answers, effects = np.empty((0, len(case.output))), list[Effects]()
        for stop in self._stops(first):
            if one_by_one and len(answers) >= first:
                replaced, uniform = dealer.next_uncertain(stop - len(answers), rows.open(effects), enough)
            else:
                replaced, uniform = dealer.next_blocks(stop - len(answers))
            columns = proposals.choose(uniform, free)
            rows = rows.append(replaced, columns)
            for sequences in _blocks(proposals.apply(replaced, columns, free)):
                answers = np.concatenate([answers, self._respond(model, case, sequences)])
                if len(answers) < stop:
                    report(Progress(len(answers), count, "probes"))
            effects = rows.effects(answers)
            found = self._attribution(rows, effects, stop, few=self.most == stop < FIRST_TURNS * dealer.deck)
            clear = all(found.stopped[t] != "unsettled" for t in case.required_rows)
            if not self.probes and stop >= first and (clear or (one_by_one and (dealer.turns >= enough).all())):
                count = stop
            report(Progress(stop, count, "probes", partial=found))
            if stop == count:
                break
        return found

    def part(self, level: int, levels: int) -> "ReagentFast":
        """With its share of the probes, where several levels share them."""
        if self.probes and self.probes < levels:
            raise InputError(f"{levels} levels need at least {levels} probes, got {self.probes}")

        def share(count: int) -> int:
            return max(1, (count + level) // levels)

        part = replace(self, probes=self.probes and share(self.probes), max_probes=share(self.max_probes))
        return part if level == levels - 1 else replace(part, top=1)  # a coarse level only says where to look

    def _stops(self, first: int) -> list[int]:
        """After how many probes to look at what was found; the last is the end.

        A look takes the longer the more there is to see, so looks at many probes are further apart.

        >>> ReagentFast()._stops(96), ReagentFast(probes=600)._stops(400)
        ([16, 32, 64, 96, 128, 160, 192, 224, 256], [16, 32, 64, 128, 256, 400, 450, 506, 569, 600])
        """
        stops, look = [count for count in GLANCES if count < min(first, self.most)], first
        while look < self.most:
            stops.append(look)
            look += max(self.look, look // 8)
        return [*stops, self.most]

    def _respond(self, model: Model, case: Case, sequences: Ids) -> Floats:
        """What each probe cost each target; [probes, targets]."""
        before, after = case.values[None], case.score_outputs(model, sequences).value
        if self.response == "logprob":
            return np.asarray(before - after)
        return gain(case.probability(before) - case.probability(after))

    def _attribution(self, rows: "_Rows", effects: list[Effects], probes: int, few: bool) -> Attribution:
        means = [rows.spread(t, e.mean) for t, e in enumerate(effects)]
        shared = [share(mean, rows.case.protected) for mean in means]
        ended = ["fixed" if self.probes else "settled" if settled(e, self.top) else "unsettled" for e in effects]
        if few:
            ended = ["few"] * len(effects)
        return Attribution(
            scores=[scores for scores, _ in shared],
            effects=means,
            stderr=[rows.spread(t, e.stderr) for t, e in enumerate(effects)],
            effect_unit=RESPONSES[self.response],
            steps=[probes] * len(effects),
            stopped=["flat" if nothing and not few else why for (_, nothing), why in zip(shared, ended, strict=True)],
            runs=[],
            probes=probes,
            stopping_tests=0,
        )


@dataclass(frozen=True)
class _Rows:
    """From the tokens that may be replaced to the rows of the answer, and back."""

    case: Case
    free: Ids
    design: Design

    def append(self, replaced: Mask, column: Ids) -> "_Rows":
        """With further probes."""
        return replace(self, design=self.design.append(replaced, column))

    def effects(self, answers: Floats) -> list[Effects]:
        """Of the tokens before each target, on that target."""
        return [estimate(self.design.restrict(len(answers), self._before(t)), y) for t, y in enumerate(answers.T)]

    def open(self, effects: list[Effects]) -> Floats:
        """How much probes can still tell of each token, [free]: variances over the squared largest effect, summed."""
        variance = np.zeros(len(self.free))
        for found in (effects[t] for t in self.case.required_rows):
            largest = float(abs(found.mean).max(initial=0.0))
            variance[: len(found.mean)] += found.open / largest**2 if largest else 0.0
        return variance

    def _before(self, t: int) -> int:
        """How many of the tokens that may be replaced stand before target t."""
        return int(np.searchsorted(self.free, len(self.case.input) + t))

    def spread(self, t: int, values: Floats) -> Floats:
        row = np.zeros(len(self.case.input) + t)
        row[self.free[: len(values)]] = values
        return row


def settled(effects: Effects, top: int) -> bool:
    """Whether the `top` tokens stand clear of all others, or differ from them by nothing that matters."""
    order = np.argsort(-effects.mean, kind="stable")
    first, rest = order[:top], order[top:]
    gap = effects.mean[first][:, None] - effects.mean[rest]
    error = Z_95 * np.hypot(effects.stderr[first][:, None], effects.stderr[rest])
    largest = max(0.0, float(effects.mean.max(initial=0.0)))
    return bool(((gap > error) | (gap + error < NEGLIGIBLE * largest)).all())


def _whole_blocks(probes: int) -> int:
    """So many probes, or a few more.

    >>> _whole_blocks(0), _whole_blocks(16), _whole_blocks(17)
    (16, 16, 32)
    """
    return SMALLEST_BLOCK * max(1, -(-probes // SMALLEST_BLOCK))


def _blocks(sequences: Ids) -> Iterator[Ids]:
    """What is scored at once."""
    for start in range(0, len(sequences), BLOCK):
        yield sequences[start : start + BLOCK]
