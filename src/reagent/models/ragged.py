"""Scores of sequences of different lengths, for every model."""

from collections.abc import Sequence

import numpy as np

from reagent.case import Ids, TargetScores
from reagent.models.base import Model, ScoresRagged


def score_ragged(model: Model, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
    """As `ScoresRagged.score_ragged`, for every model.

    A model without that capability scores the sequences in groups that have the same length and the same positions.
    """
    if isinstance(model, ScoresRagged):
        return model.score_ragged(sequences, positions, targets)
    logprob, rank = np.empty(positions.shape), np.empty(positions.shape, dtype=np.int64)
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, own in enumerate(positions.tolist()):
        groups.setdefault((len(sequences[i]), *own), []).append(i)
    for rows in groups.values():
        scores = model.score(np.stack([sequences[i] for i in rows]), positions[rows[0]], targets)
        logprob[rows], rank[rows] = scores
    return TargetScores(logprob, rank)
