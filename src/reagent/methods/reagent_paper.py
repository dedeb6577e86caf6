"""ReAGent as published: Zhao and Shan, "ReAGent: A Model-agnostic Feature Attribution Method for Generative
Language Models", Algorithm 1 and its equations.

The published loop is sequential: replace some tokens, update the scores, test, again. But what is
replaced never depends on the scores, so `ahead` steps are drawn and scored in one batch; running sums
then give the scores after every step, and a second batch makes every stopping test. The law is the
same, and for the same random numbers so is every result.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, OutputScores
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer, check_range

LARGEST_DROP = 1 - 1e-6  # the logit of Eq. 6 is infinite at 1


@dataclass(frozen=True)
class ReagentPaper:
    """The hyperparameters of the paper."""

    ratio: float = 0.3  # r: share of the context replaced in each step
    keep: float | int = 0.3  # stopping test: share (or, from 1 on, number) of the most important tokens kept
    top_k: int = 3  # k: the target must be among the model's k likeliest tokens
    runs: int = 3  # independent runs to average
    max_steps: int = 1000  # where a run that does not stop is cut off
    stop: bool = True  # whether to test; otherwise every run goes to the maximum
    ahead: int = 32  # steps drawn and scored at once; changes the speed only

    def __post_init__(self) -> None:
        owner = "preset 'paper'"
        check_range(owner, "ratio", self.ratio, 1e-9, 1)
        check_range(owner, "keep", self.keep, 1e-9, 1e6)
        if self.keep >= 1 and self.keep != int(self.keep):
            raise InputError(f"keep of {owner} must be a share below 1 or a whole number of tokens, got {self.keep!r}")
        for name in ("top_k", "runs", "max_steps", "ahead"):
            check_integer(owner, name, getattr(self, name), 1)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": "softmax of the published sum, mean over runs"}

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain every output token, one after another."""
        work = _Work(self, case, report)
        scores, outcomes = [], []
        for t in range(len(case.output)):
            target = _Target.of(model, case, proposals, t)
            children = rng.spawn(self.runs)  # one stream per run: a run cannot shift the draws of the next
            idle = target.size < 2 or t not in case.explained_rows
            runs = [] if idle else [self._run(target, child, work) for child in children]
            scores.append(target.spread(_average(runs, target.size)))
            outcomes.append(runs)
        return Attribution(
            scores=scores,
            steps=[sum(run.steps for run in runs) for runs in outcomes],
            stopped=[_reason(runs) for runs in outcomes],
            runs=[[run.steps for run in runs] for runs in outcomes],
            probes=work.probes,
            stopping_tests=work.tests,
        )

    def _run(self, target: "_Target", rng: np.random.Generator, work: "_Work") -> "_Run":
        """Algorithm 1, in blocks that grow to `ahead` steps, since many runs stop early."""
        n = target.size
        replaced = max(1, round(self.ratio * n))
        kept = min(n, self.keep if self.keep >= 1 else max(1, round(self.keep * n)))
        state = rng.random(n)  # line 1: random scores, on the logit scale
        steps, block = 0, min(4, self.ahead) if self.stop else self.ahead
        while steps < self.max_steps:
            block = min(block, self.max_steps - steps)
            chosen_by, replaced_by, tested_by = rng.random((block, 3, n)).swapaxes(0, 1)
            selection = _smallest(chosen_by, replaced)  # line 3: R, [block, n]
            gain = target.gain(selection, replaced_by)  # lines 4 and 5, [block, 1]
            # Line 6, Eq. 5 and 6: + on what was replaced, − on what was not, since logit(1 − p) = −logit(p).
            path = np.cumsum(np.concatenate([state[None], np.where(selection, gain, -gain)]), axis=0)
            met = np.zeros(block, dtype=np.bool_)
            if self.stop:
                unimportant = _smallest(path[:-1], n - int(kept))
                met = target.score(unimportant, tested_by).rank[:, 0] < self.top_k  # line 2, before each of the steps
            seen = None if self.stop else target.spread(_softmax(path[-1]))
            work.add(block, left=self.max_steps - steps - block, run_is_over=bool(met.any()), seen=seen)
            if met.any():
                first = int(met.argmax())
                return _Run(_softmax(path[first]), steps + first, stopped=True)
            state, steps = path[-1], steps + block
            block = min(2 * block, self.ahead)
        return _Run(_softmax(state), steps, stopped=False)


def gain(drop: Floats) -> Floats:
    """g = logit((Δp + 1) / 2) of Eq. 6."""
    drop = np.clip(drop, -LARGEST_DROP, LARGEST_DROP)
    return np.asarray(np.log1p(drop) - np.log1p(-drop))


class _Run(NamedTuple):
    scores: Floats  # [n], sums to 1
    steps: int
    stopped: bool  # by its own condition, before the maximum


@dataclass(frozen=True)
class _Target:
    """One output unit and the n units before it that may be replaced."""

    model: Model
    case: Case  # with this output unit alone
    free: Ids  # [n]
    proposals: Proposals

    @classmethod
    def of(cls, model: Model, case: Case, proposals: Proposals, t: int) -> "_Target":
        return cls(model, case.for_target(t), np.flatnonzero(proposals.replaceable[: len(case.input) + t]), proposals)

    @property
    def size(self) -> int:
        return len(self.free)

    def score(self, selection: Mask, uniform: Floats) -> OutputScores:
        """Replace the selected units [batch, n] and ask for the target, [batch, 1]."""
        columns = self.proposals.choose(uniform, self.free)
        sequences = self.proposals.apply(selection, columns, self.free)
        return self.case.score_outputs(self.model, sequences[:, : len(self.case.ids)])

    def gain(self, selection: Mask, uniform: Floats) -> Floats:
        """g of a replacement: how much less likely the target became (Eq. 4), on the scale of the scores."""
        before, after = self.case.values[None], self.score(selection, uniform).value
        return gain(self.case.probability(before) - self.case.probability(after))

    def spread(self, scores: Floats) -> Floats:
        """Scores of the free units among all units: what may not be replaced has 0."""
        row = np.zeros(len(self.case.input))
        row[self.free] = scores
        return row


class _Work:
    """Counts what was done, and tells how much is left at most."""

    def __init__(self, settings: ReagentPaper, case: Case, report: ProgressCallback) -> None:
        self.probes = self.tests = self.steps = 0
        self.total = len(case.explained_rows) * settings.runs * settings.max_steps
        self.stops = settings.stop
        self.alone = len(case.output) == 1 and settings.runs == 1  # then scores on the way are a picture
        self.report = report

    def add(self, steps: int, left: int, run_is_over: bool, seen: Floats | None) -> None:
        self.probes += steps
        self.tests += steps if self.stops else 0
        self.steps += steps
        if run_is_over:
            self.total -= left
        self.report(Progress(self.steps, self.total, "steps", self._picture(seen) if self.alone else None))

    def _picture(self, scores: Floats | None) -> Attribution | None:
        """The answer as it would be with this many steps as the maximum."""
        if scores is None:
            return None
        return Attribution([scores], [self.steps], ["maximum"], [[self.steps]], self.probes, self.tests)


def _smallest(values: Floats, count: int) -> Mask:
    """Marks the `count` smallest values of each row."""
    rank = np.argsort(np.argsort(values, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(rank < count)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _average(runs: list[_Run], size: int) -> Floats:
    """The mean of the runs that stopped by themselves; of all runs where none did; uniform with no run."""
    counted = [run.scores for run in runs if run.stopped] or [run.scores for run in runs]
    return np.asarray(np.mean(counted, axis=0)) if counted else np.full(size, 1 / max(size, 1))


def _reason(runs: list[_Run]) -> str:
    if not runs:
        return "single"
    stopped = [run for run in runs if run.stopped]
    if not stopped:
        return "maximum"
    return "start" if any(run.steps == 0 for run in stopped) else "condition"
