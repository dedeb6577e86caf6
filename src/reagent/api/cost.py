"""What an explanation costs: passes, tokens, requests and seconds."""

import time
from collections.abc import Callable
from dataclasses import replace

from reagent.errors import InputError
from reagent.explanation import Cost
from reagent.methods import Attribution
from reagent.models.base import Model
from reagent.replacers import Proposals


class CostMeter:
    """Passes, tokens and seconds since it was made."""

    def __init__(self, model: Model) -> None:
        self.meter = model.meter
        self.begin, self.before = time.perf_counter(), replace(model.meter)
        self.proposals = self.unlisted = 0

    @property
    def censored(self) -> int:
        return self.meter.censored - self.before.censored

    @property
    def seconds(self) -> float:
        return round(time.perf_counter() - self.begin, 3)

    def measure(self, propose: Callable[[], Proposals]) -> Proposals:
        """Make proposals and record how many passes they took."""
        before = self.meter.forward_passes
        proposals = propose()
        if not isinstance(proposals, Proposals):
            raise InputError(f"the replacer must return Proposals, got a {type(proposals).__name__}")
        self.proposals = self.meter.forward_passes - before + proposals.auxiliary_passes
        return proposals

    def cost(self, attribution: Attribution) -> Cost:
        return Cost(
            forward_passes=self.meter.forward_passes - self.before.forward_passes,
            tokens=self.meter.tokens - self.before.tokens,
            seconds=self.seconds,
            proposals=self.proposals,
            probes=attribution.probes,
            stopping_tests=attribution.stopping_tests,
            steps=tuple(attribution.steps),
            stopped=tuple(attribution.stopped),
            runs=tuple(tuple(steps) for steps in attribution.runs),
            requests=self.meter.requests - self.before.requests,
            censored=self.censored,
            unlisted=self.unlisted,
        )
