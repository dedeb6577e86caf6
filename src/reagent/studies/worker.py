"""Scores the prompts of one input: the answer in the whole prompt, and in the prompt without some of its parts."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reagent.bench.records import Cell
from reagent.bench.worker import JobResult, Worker, describe_error
from reagent.case import Case
from reagent.errors import InputError
from reagent.models.base import HasChatTemplate, Model, has_chat_template, require, response_of
from reagent.models.ragged import score_ragged

WHOLE = "whole prompt"  # label of the trial that removes nothing
_BEFORE_SPACE = ":;,.!?)"  # a word after one of these, or after a letter, begins with a space


@dataclass(frozen=True)
class Trial:
    """The prompts without some parts: one, or one for each alternative of a slot."""

    label: str  # names the parts
    key: str  # a hash of everything that the number depends on
    prompts: tuple[str, ...]


@dataclass(frozen=True)
class StudyJob:
    """The trials of one input that are measured together and written in one transaction."""

    study: str
    model: str
    info: Mapping[str, Any]  # provenance of the loaded model
    input: str
    prompt: str
    answer: str | None  # None: the model's own
    max_new_tokens: int
    chat: bool | None
    trials: tuple[Trial, ...]


class StudyWorker(Worker):
    """A worker of the benchmark that does the jobs of a study."""

    def do(self, job: StudyJob) -> JobResult:  # type: ignore[override]
        model = self._load()
        self.check_info(model, job.info)
        begin, before = time.perf_counter(), replace(model.meter)
        try:
            cells = _measure(model, job)
        except Exception as error:  # this input only
            return self.fail(job, describe_error(error))
        cost = {
            "forward_passes": model.meter.forward_passes - before.forward_passes,
            "tokens": model.meter.tokens - before.tokens,
            "seconds": time.perf_counter() - begin,
        }
        return JobResult(tuple(cells), cost)

    @staticmethod
    def fail(job: StudyJob, error: str) -> JobResult:  # type: ignore[override]
        return JobResult(tuple(_cell(job, trial, None, error) for trial in job.trials), {})


def _measure(model: Model, job: StudyJob) -> list[Cell]:
    chat = _prefers_chat(model) if job.chat is None else job.chat
    if chat:
        require(model, HasChatTemplate, "a chat")
    case = _read(model, job.prompt, None if job.answer is None else fit_answer(job.answer, job.prompt, chat), job, chat)
    answer = case.completion
    full = [trial for trial in job.trials if all(prompt.strip() for prompt in trial.prompts)]
    cases = [case if p == job.prompt else _read(model, p, answer, job, chat) for t in full for p in t.prompts]
    values = iter(score_answers(model, cases))
    response = response_of(model)
    measured: dict[str, dict[str, Any]] = {
        trial.label: {
            "value": float(np.mean([next(values) for _ in trial.prompts])),
            "tokens": len(cases[sum(len(one.prompts) for one in full[:i])].input),
        }
        for i, trial in enumerate(full)
    }
    if WHOLE in measured:
        measured[WHOLE] |= {"answer": answer, "chat": chat, "unit": response.unit, "nat": response.nat}
    return [
        _cell(job, trial, measured.get(trial.label), None if trial.label in measured else "its prompt is empty")
        for trial in job.trials
    ]


def _prefers_chat(model: Model) -> bool:
    """Whether the model has a chat template; a function of Python gets a plain text, as in `explain`."""
    return has_chat_template(model) and model.info["backend"] != "python function"


def fit_answer(answer: str, prompt: str, chat: bool) -> str:
    """The answer as the model would write it: after a plain prompt, a word begins with a space.

    >>> fit_answer("Oslo", "City:", False), fit_answer("Oslo", "City: ", False), fit_answer(" Oslo", "City:", True)
    (' Oslo', 'Oslo', 'Oslo')
    """
    if chat:
        return answer.strip()
    joins = prompt[-1:].isalnum() or prompt[-1:] in _BEFORE_SPACE
    return f" {answer}" if joins and answer[0].isascii() and not answer[0].isspace() else answer


def score_answers(model: Model, cases: Sequence[Case]) -> list[float]:
    """The value of the answer in each case."""
    groups: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        groups[tuple(case.targets.tolist())].append(i)  # nearly always one group
    values = np.empty(len(cases))
    for rows in groups.values():
        positions = np.stack([cases[i].positions for i in rows])
        scores = score_ragged(model, [cases[i].ids for i in rows], positions, cases[rows[0]].targets)
        values[rows] = scores.logprob.sum(-1)
    if not np.isfinite(values).all():
        raise InputError("the answer has no finite log-probability: leave out control tokens, or use another model")
    return [float(value) for value in values]


def _read(model: Model, prompt: str, answer: str | None, job: StudyJob, chat: bool) -> Case:
    if chat:
        assert isinstance(model, HasChatTemplate)
        return model.chat([{"role": "user", "content": prompt}], answer, job.max_new_tokens)
    return model.case(prompt, answer, job.max_new_tokens)


def _cell(job: StudyJob, trial: Trial, measured: Mapping[str, Any] | None, error: str | None) -> Cell:
    return Cell(
        key=trial.key,
        suite=job.study,
        model=job.model,
        dataset=job.study,
        level="sequence",
        example=job.input,
        group="",
        method="study",
        label=trial.label,
        options={},
        seed=0,
        status="failed" if measured is None else "done",
        error=error,
        explanation=None,
        evaluation=None,
        seconds=0.0,
        measured=measured,
    )
