"""Models for benchmarks: one that remembers its scores on disk, and one whose answer is a function of a subset."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers import Value

from reagent.atomic_io import atomic_write
from reagent.case import Case, Ids, TargetScores
from reagent.explanation import Token
from reagent.models.base import Meter, Predictions
from reagent.models.ragged import score_ragged


class CachedModel:
    """A model that reads scores of one target from a file if it computed them before.

    The meter counts all passes, as if there were no file; `cached` counts those that were read from it.
    """

    def __init__(self, model: Any, path: Path, *, reads: bool = True) -> None:
        self.model, self.path = model, path
        self.meter = Meter()
        self.cached = 0
        self._scores: dict[str, list[Any]] = json.loads(path.read_text()) if path.is_file() else {}
        self._reads = reads

    @property
    def info(self) -> Mapping[str, Any]:
        return dict(self.model.info)

    @property
    def ordinary_ids(self) -> Ids:
        return np.asarray(self.model.ordinary_ids)

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        case: Case = self.model.case(prompt, target, max_new_tokens)
        return case

    def predict(self, sequence: Ids, k: int) -> Predictions:
        self.meter.add(1, len(sequence) - 1)
        predictions: Predictions = self.model.predict(sequence, k)
        return predictions

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        if len(positions) > 1:
            self.meter.add(len(sequences), int(positions.max()))
            scores: TargetScores = self.model.score(sequences, positions, targets)
            return scores
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        assert len(targets) == 1, "only cases of one target"
        texts = [row[:end] for row, (end,) in zip(sequences, positions.tolist(), strict=True)]
        keys = [hashlib.sha1(np.append(text, targets).tobytes()).hexdigest()[:20] for text in texts]
        new = [i for i, key in enumerate(keys) if not (self._reads and key in self._scores)]
        if new:
            ids = [np.append(texts[i], targets) for i in new]
            scores = score_ragged(self.model, ids, positions[new], targets)
            for i, logprob, rank in zip(new, scores.logprob[:, 0], scores.rank[:, 0], strict=True):
                self._scores[keys[i]] = [float(logprob), int(rank)]
        for text in texts:
            self.meter.add(1, len(text))
        self.cached += len(keys) - len(new)
        logprob, rank = zip(*(self._scores[key] for key in keys), strict=True)
        return TargetScores(np.array(logprob)[:, None], np.array(rank, dtype=np.int64)[:, None])

    def save(self) -> None:
        atomic_write(self.path, json.dumps(self._scores))


class ValueModel:
    """A model of n words whose log-probability of its answer is a function of the words that are there.

    The prompt starts with a protected token, so that all words can be deleted.
    """

    def __init__(self, units: int, value: Value) -> None:
        self.units, self.value = units, value
        self.meter = Meter()

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "value", "revision": None, "dtype": "float64", "backend": "function"}

    def case(self, prompt: str = "", target: str | None = None, max_new_tokens: int = 1) -> Case:  # noqa: ARG002
        words = [f" w{i}" for i in range(self.units)]
        starts = np.cumsum([0, *(len(word) for word in words)]).tolist()
        first = Token((self.units,), "", 0, 0, protected=True)
        tokens = (Token((i,), word, starts[i], starts[i + 1]) for i, word in enumerate(words))
        return Case("".join(words), " x", (first, *tokens), (Token((self.units + 1,), " x", 0, 2),))

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:  # noqa: ARG002
        kept = np.zeros((len(sequences), self.units + 2), dtype=np.bool_)
        for row, ids, (end,) in zip(kept, sequences, positions.tolist(), strict=True):
            row[ids[:end]] = True
            self.meter.add(1, end)
        logprob = self.value(kept[:, : self.units])
        # At most 1/p − 1 other tokens are more likely.
        rank = np.floor(np.exp(-np.minimum(logprob, 0.0))).astype(np.int64) - 1
        return TargetScores(logprob[:, None], rank[:, None])
