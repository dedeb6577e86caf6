"""Measurements: what the answer of each input is worth without some parts, kept in a file of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reagent.bench.engines import Engine
from reagent.bench.plan import digest
from reagent.bench.records import Cell, Place
from reagent.bench.runner import RunProgress
from reagent.bench.store import Store
from reagent.bench.suite import ModelConfig
from reagent.studies.request import StudyRequest
from reagent.studies.worker import WHOLE, StudyJob, Trial

SCHEMA = 1  # increases when the same prompts give other numbers
Parts = frozenset[int]
NOTHING: Parts = frozenset()


@dataclass
class Measurements:
    """Measures sets of parts for every input; what the file already has is not measured again."""

    request: StudyRequest
    model: ModelConfig
    store: Store
    engine: Engine
    on_progress: Callable[[RunProgress], None] = lambda _: None
    progress: RunProgress = field(default_factory=lambda: RunProgress(noun="prompts"))
    _stored: dict[Place, Cell] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        known = self.store.models().get(self.model.id)
        if known is None:
            known = self.engine.inspect(self.model, [])
            self.store.put_model(self.model.id, known)
        self.info = known.info
        self._stored = {cell.place: cell for cell in self.store.cells()}

    def measure(self, sets: Sequence[Parts]) -> None:
        """Measure each input without each of these sets of parts."""
        missing = {job.input: job for number in range(len(self.request.inputs)) if (job := self._job(number, sets))}
        reused = len(sets) * len(self.request.inputs) - sum(len(job.trials) for job in missing.values())
        self.progress.total += sum(len(job.trials) for job in missing.values())
        self.progress.stored += reused
        self.progress.work += sum(map(_work, missing.values()))
        for done in self.engine.run_jobs(self.model, missing.values()):
            self.store.put(done.cells, done.cost)
            self._stored |= {cell.place: cell for cell in done.cells}
            self.progress.done += len(done.cells)
            self.progress.failed += sum(cell.status == "failed" for cell in done.cells)
            self.progress.worked += _work(missing[done.cells[0].example])
            self.on_progress(self.progress)

    def measured(self, number: int, without: Parts) -> dict[str, Any] | None:
        """What was measured of one input; None if it failed."""
        cell = self._cell(number, self._present(number, without))
        return None if cell is None or cell.measured is None else dict(cell.measured)

    def error(self, number: int) -> str | None:
        """Why an input could not be measured at all."""
        cell = self._cell(number, NOTHING)
        return "it was not measured" if cell is None else cell.error

    def effects(self, without: Parts) -> list[float | None]:
        """What the answer of each input loses without these parts; None where they are absent or it failed."""
        return [self._difference(number, without, "value") for number in range(len(self.request.inputs))]

    def tokens(self, without: Parts) -> list[float]:
        """By how much each prompt becomes shorter without these parts, in tokens."""
        differences = (self._difference(number, without, "tokens") for number in range(len(self.request.inputs)))
        return [one for one in differences if one is not None]

    def _difference(self, number: int, without: Parts, name: str) -> float | None:
        if not self._present(number, without):
            return None
        whole, rest = self.measured(number, NOTHING), self.measured(number, without)
        return None if whole is None or rest is None else float(whole[name] - rest[name])

    def _present(self, number: int, parts: Parts) -> Parts:
        """Those parts that the prompt of this input has."""
        return parts & {piece.part for piece in self.request.pieces[number]}

    def _job(self, number: int, sets: Sequence[Parts]) -> StudyJob | None:
        """The trials of one input that are missing."""
        request, one = self.request, self.request.inputs[number]
        own = [self._present(number, parts) for parts in sets]
        whole = self.measured(number, NOTHING)
        known = None if whole is None else str(whole["answer"])
        answer = one.answer if request.metric == "answer" else known
        prompt = request.prompts(number, NOTHING)[0]
        trials = [self._trial(number, parts, prompt) for parts in dict.fromkeys(own)]
        missing = tuple(trial for trial in trials if not self._is_done(number, trial))
        if not missing:
            return None
        return StudyJob(
            request.template.name, self.model.id, self.info, one.id, prompt, answer, request.max_new_tokens,
            request.chat, missing,
        )  # fmt: skip

    def _trial(self, number: int, parts: Parts, prompt: str) -> Trial:
        request, one = self.request, self.request.inputs[number]
        prompts = request.prompts(number, parts)
        asked = one.answer if request.metric == "answer" else request.max_new_tokens
        key = digest(schema=SCHEMA, model=self.info, prompt=prompt, prompts=prompts, answer=asked, chat=request.chat)
        return Trial(self._label(parts), key, prompts)

    def _label(self, parts: Parts) -> str:
        return " + ".join(self.request.template.parts[i].name for i in sorted(parts)) or WHOLE

    def _is_done(self, number: int, trial: Trial) -> bool:
        cell = self._stored.get(self._place(number, trial.label))
        return cell is not None and cell.key == trial.key and cell.status == "done"

    def _cell(self, number: int, parts: Parts) -> Cell | None:
        return self._stored.get(self._place(number, self._label(parts)))

    def _place(self, number: int, label: str) -> Place:
        return self.model.id, self.request.template.name, self.request.inputs[number].id, label, 0


def _work(job: StudyJob) -> float:
    """The characters that the model reads."""
    return float(sum(len(prompt) for trial in job.trials for prompt in trial.prompts))
