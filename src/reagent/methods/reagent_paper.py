"""ReAGent as published: Zhao and Shan, "ReAGent: A Model-agnostic Feature Attribution Method for Generative
Language Models", Algorithm 1 and its equations.

The published loop is sequential: replace some tokens, update the scores, test the stopping condition, repeat. The
choice of replacements never depends on the scores. Therefore `ahead` steps are drawn and scored in one batch,
cumulative sums give the scores after every step, and a second batch makes all stopping tests. With the same random
numbers the results equal those of the sequential loop.
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
    """Algorithm 1 with the hyperparameters of the paper."""

    ratio: float = 0.3  # r: share of the context replaced in each step
    keep: float | int = 0.3  # stopping test: share (or, from 1 on, number) of the most important tokens kept
    top_k: int = 3  # k: the target must be among the k most likely tokens
    runs: int = 3  # independent runs to average
    max_steps: int = 1000  # upper limit of steps per run
    stop: bool = True  # whether to test the stopping condition; otherwise every run makes `max_steps` steps
    ahead: int = 32  # steps drawn and scored at once; affects only the speed

    def __post_init__(self) -> None:
        owner = "preset 'paper'"
        check_range(owner, "ratio", self.ratio, 1e-9, 1)
        check_range(owner, "keep", self.keep, 1e-9, 1e6)
        if self.keep >= 1 and self.keep != int(self.keep):
            raise InputError(f"`keep` of {owner} must be a share below 1 or a whole number, got {self.keep!r}")
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
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain every output token, one after another."""
        work = _WorkMeter(self, case, on_progress)
        scores, outcomes = [], []
        for t in range(len(case.output)):
            target = _Target.of(model, case, proposals, t)
            children = rng.spawn(self.runs)  # one generator per run: the length of a run does not affect the next
            skipped = target.size < 2 or t not in case.explained_rows
            runs = [] if skipped else [self._run(target, child, work) for child in children]
            scores.append(target.to_row(_average(runs, target.size)))
            outcomes.append(runs)
        return Attribution(
            scores=scores,
            steps=[sum(run.steps for run in runs) for runs in outcomes],
            stopped=[_reason(runs) for runs in outcomes],
            runs=[[run.steps for run in runs] for runs in outcomes],
            probes=work.probes,
            stopping_tests=work.tests,
        )

    def _run(self, target: "_Target", rng: np.random.Generator, work: "_WorkMeter") -> "_Run":
        """Algorithm 1, in batches of steps that grow to `ahead`, because many runs stop early."""
        n = target.size
        replaced = max(1, round(self.ratio * n))
        kept = min(n, self.keep if self.keep >= 1 else max(1, round(self.keep * n)))
        state = rng.random(n)  # line 1: random scores, on the logit scale
        steps, batch = 0, min(4, self.ahead) if self.stop else self.ahead
        while steps < self.max_steps:
            batch = min(batch, self.max_steps - steps)
            selection_draws, candidate_draws, test_draws = rng.random((batch, 3, n)).swapaxes(0, 1)
            selection = _smallest(selection_draws, replaced)  # line 3: R, [batch, n]
            gain = target.gain(selection, candidate_draws)  # lines 4 and 5, [batch, 1]
            # Line 6, Eq. 5 and 6: +g for replaced tokens, −g for the others, because logit(1 − p) = −logit(p).
            path = np.cumsum(np.concatenate([state[None], np.where(selection, gain, -gain)]), axis=0)
            met = np.zeros(batch, dtype=np.bool_)
            if self.stop:
                unimportant = _smallest(path[:-1], n - int(kept))
                met = target.score(unimportant, test_draws).rank[:, 0] < self.top_k  # line 2, before each step
            row = None if self.stop else target.to_row(_softmax(path[-1]))
            work.add(batch, left=self.max_steps - steps - batch, run_is_over=bool(met.any()), row=row)
            if met.any():
                first = int(met.argmax())
                return _Run(_softmax(path[first]), steps + first, stopped=True)
            state, steps = path[-1], steps + batch
            batch = min(2 * batch, self.ahead)
        return _Run(_softmax(state), steps, stopped=False)


def gain(drop: Floats) -> Floats:
    """g = logit((Δp + 1) / 2) of Eq. 6."""
    drop = np.clip(drop, -LARGEST_DROP, LARGEST_DROP)
    return np.asarray(np.log1p(drop) - np.log1p(-drop))


class _Run(NamedTuple):
    scores: Floats  # [n], sums to 1
    steps: int
    stopped: bool  # by the stopping condition


@dataclass(frozen=True)
class _Target:
    """One output unit and the n units before it that may be replaced."""

    model: Model
    case: Case  # of this output unit only, see `Case.for_target`
    free: Ids  # [n]
    proposals: Proposals

    @classmethod
    def of(cls, model: Model, case: Case, proposals: Proposals, t: int) -> "_Target":
        return cls(model, case.for_target(t), np.flatnonzero(proposals.replaceable[: len(case.input) + t]), proposals)

    @property
    def size(self) -> int:
        return len(self.free)

    def score(self, selection: Mask, uniform: Floats) -> OutputScores:
        """Score of the target with the selected units [batch, n] replaced, [batch, 1]."""
        columns = self.proposals.choose(uniform, self.free)
        sequences = self.proposals.apply(selection, columns, self.free)
        return self.case.score_outputs(self.model, sequences[:, : len(self.case.ids)])

    def gain(self, selection: Mask, uniform: Floats) -> Floats:
        """g of Eq. 6 for the drop Δp in the probability of the target (Eq. 4), [batch, 1]."""
        before, after = self.case.values[None], self.score(selection, uniform).value
        return gain(self.case.probability(before) - self.case.probability(after))

    def to_row(self, scores: Floats) -> Floats:
        """Scores of the replaceable units as a row over all units; the others get 0."""
        row = np.zeros(len(self.case.input))
        row[self.free] = scores
        return row


class _WorkMeter:
    """Counts probes and tests, and reports progress against the largest possible number of steps."""

    def __init__(self, method: ReagentPaper, case: Case, on_progress: ProgressCallback) -> None:
        self.probes = self.tests = self.steps = 0
        self.total = len(case.explained_rows) * method.runs * method.max_steps
        self.stops = method.stop
        self.single_run = len(case.output) == 1 and method.runs == 1  # then intermediate scores are a partial result
        self.on_progress = on_progress

    def add(self, steps: int, left: int, run_is_over: bool, row: Floats | None) -> None:
        """Count a batch of steps; `row` holds the scores after it, `left` is what remains of the run."""
        self.probes += steps
        self.tests += steps if self.stops else 0
        self.steps += steps
        if run_is_over:
            self.total -= left
        self.on_progress(Progress(self.steps, self.total, "steps", self._partial(row) if self.single_run else None))

    def _partial(self, scores: Floats | None) -> Attribution | None:
        """The result if the current number of steps were the maximum."""
        if scores is None:
            return None
        return Attribution([scores], [self.steps], ["maximum"], [[self.steps]], self.probes, self.tests)


def _smallest(values: Floats, count: int) -> Mask:
    """Mask of the `count` smallest values of each row."""
    rank = np.argsort(np.argsort(values, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(rank < count)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _average(runs: list[_Run], size: int) -> Floats:
    """Mean over the runs that met the stopping condition, or over all runs if none did; uniform without runs."""
    counted = [run.scores for run in runs if run.stopped] or [run.scores for run in runs]
    return np.asarray(np.mean(counted, axis=0)) if counted else np.full(size, 1 / max(size, 1))


def _reason(runs: list[_Run]) -> str:
    if not runs:
        return "single"
    stopped = [run for run in runs if run.stopped]
    if not stopped:
        return "maximum"
    return "start" if any(run.steps == 0 for run in stopped) else "condition"
