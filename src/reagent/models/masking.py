"""Asking a model to look away from some tokens, while all others stay where they are.

What is masked gives nothing to attention; the rest keeps its position, so that a gap stays a gap. That is
what `attention_mask` and `position_ids` do together, in networks of `transformers` that take both.
"""

import inspect
from typing import Any, Protocol, runtime_checkable

import numpy as np

from reagent.case import Ids, Mask, TargetScores
from reagent.errors import CapabilityError
from reagent.models.base import Model


@runtime_checkable
class Masks(Protocol):
    """Can look away from some tokens (needed by masking)."""

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
        """As `Model.score`, of what `keep` [batch, length] leaves visible.

        The token before each of `positions` must be visible, since the prediction is read off it.
        """
        ...


def masking(model: Model, wanted_by: str) -> Masks:
    """How to ask `model` with a mask; an error that names both where it takes none."""
    if isinstance(model, Masks):
        return model
    network = getattr(model, "network", None)
    takes = inspect.signature(network.forward).parameters if network is not None else {}
    lacks = [name for name in ("attention_mask", "position_ids") if name not in takes]
    if network is not None and getattr(network.config, "alibi", False):
        lacks = ["position_ids"]  # it takes them and counts by the mask instead
    if lacks:
        raise CapabilityError(
            f"{wanted_by} needs a model that takes an attention mask and positions, and {model.info['id']!r} "
            f"({model.info['backend']}) does not take {' and '.join(lacks)}: choose another model, or replace instead"
        )
    return _Network(model)


class _Network:
    """A local model whose network takes both."""

    def __init__(self, model: Any) -> None:
        self.model, self.network = model, model.network
        self.few = "logits_to_keep" in inspect.signature(model.network.forward).parameters

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
        import torch

        length = int(positions.max())  # the last target itself is never read
        assert keep[:, positions - 1].all(), "a prediction cannot be read off a masked token"
        self.model.meter.add(len(sequences), length)
        device = self.network.device
        ids, seen = (torch.from_numpy(np.ascontiguousarray(a[:, :length])).to(device) for a in (sequences, keep))
        where, wanted = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (positions - 1, targets))
        logprob, rank = [], []
        with torch.inference_mode():
            step = self._rows_at_once(length, len(positions))
            for some in (slice(begin, begin + step) for begin in range(0, len(ids), step)):
                logits = self._logits(ids[some], seen[some], where).float()  # [rows, targets, vocabulary]
                own = logits.gather(-1, wanted.expand(len(logits), -1)[..., None])  # [rows, targets, 1]
                logprob.append((own.squeeze(-1) - logits.logsumexp(-1)).double().cpu())
                rank.append((logits > own).sum(-1).cpu())
        return TargetScores(torch.cat(logprob).numpy(), torch.cat(rank).numpy())

    def _logits(self, ids: Any, seen: Any, where: Any) -> Any:
        import torch

        places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        more = {"logits_to_keep": where} if self.few else {}
        answer = self.network(ids, attention_mask=seen.long(), position_ids=places, use_cache=False, **more)
        return answer.logits if self.few else answer.logits[:, where]

    def _rows_at_once(self, length: int, targets: int) -> int:
        vocabulary = int(self.network.config.get_text_config().vocab_size)
        fit = min(self.model.tokens_at_once // length, self.model.logits_at_once // (vocabulary * targets))
        return max(1, int(fit))
