"""What an explanation would take, without asking the model anything: the method runs on a stand-in that counts.

The stand-in answers with noise in which nothing is ever settled and no stopping test ever holds, so that the
numbers are what is needed at most.
"""

from dataclasses import dataclass

import numpy as np

from reagent.case import Case, Ids, TargetScores
from reagent.models.base import HasChatTemplate, Meter, Model, Predictions
from reagent.models.chat import Chat
from reagent.models.http.censoring import UNLISTED
from reagent.models.http.scoring import asked, contexts

VOCABULARY = 1000


@dataclass
class Tally:
    """Requests and the tokens that they send; each also generates one."""

    requests: int = 0
    tokens: int = 0

    def add(self, lengths: list[int]) -> None:
        self.requests += len(lengths)
        self.tokens += sum(lengths)


class Rehearsal:
    """Stands in for `model`, and counts what each way of asking would take."""

    def __init__(self, model: Model) -> None:
        self.model, self.info, self.meter = model, model.info, Meter()
        self.echo, self.next = Tally(), Tally()
        self._noise = np.random.default_rng(0)

    @property
    def ordinary_ids(self) -> Ids:
        return np.arange(VOCABULARY)

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return tuple(f" w{i}" for i in range(VOCABULARY))

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        outline = getattr(self.model, "outline", self.model.case)
        case: Case = outline(prompt, target, max_new_tokens)
        return case

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10) -> Case:
        outline = getattr(self.model, "outline", None)
        if outline is not None:
            case: Case = outline(messages, target, max_new_tokens)
            return case
        assert isinstance(self.model, HasChatTemplate)
        return self.model.chat(messages, target, max_new_tokens)

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        rows = contexts(sequences[:, : int(positions.max()) + 1])
        wanted = [q for row in asked(rows, positions, targets) for q in row]
        told = {(row[:p], row[p]) for row in rows for p in positions.tolist() if p < len(row)}
        self.meter.add(len(sequences), int(positions.max()))
        self.echo.add([*map(len, set(rows)), *(len(context) + 1 for context, _ in set(wanted) - told)])
        self.next.add([*map(len, {context for context, _ in wanted})])
        shape = len(sequences), len(positions)
        return TargetScores(self._noise.normal(-5.0, 1.0, shape), np.full(shape, UNLISTED))

    def predict(self, sequence: Ids, k: int) -> Predictions:
        self.meter.add(1, len(sequence) - 1)
        self.echo.add([len(sequence)])
        self.next.add(list(range(1, len(sequence))))
        others = sequence[1:, None] + np.arange(1, k + 1)
        return Predictions(others, np.full(others.shape, -1.0))
