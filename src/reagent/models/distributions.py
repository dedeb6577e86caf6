"""Whole next-token distributions, after tokens or after embeddings: what most metrics compare.

A capability like any other: a model may have the methods of a protocol here itself; one that has a network
of `transformers` has them through that network. No code per model family.
"""

import inspect
from typing import Any, Protocol, runtime_checkable

import numpy as np

from reagent.case import Ids
from reagent.errors import CapabilityError
from reagent.models.base import Model, Singles


@runtime_checkable
class GivesDistributions(Protocol):
    """Gives whole distributions (needed by the Hellinger distance of `comprehensiveness` and `sufficiency`)."""

    def rows_at_once(self, length: int, positions: int) -> int:
        """How many sequences to ask about at once, at most: that many distributions are held in memory."""
        ...

    def after_tokens(self, sequences: Ids, positions: Ids) -> Singles:
        """Log-probabilities of every token at `positions`, given all before; [batch, positions, vocabulary].

        As in `Model.score`, `sequences` are [batch, length], and position 5 is read off token 4.
        """
        ...


@runtime_checkable
class ReadsEmbeddings(GivesDistributions, Protocol):
    """Reads embeddings and gives whole distributions (needed by soft_ns, soft_nc, pi_soft_ns and pi_soft_nc)."""

    def embed(self, ids: Ids) -> Singles:
        """What the network looks up for each token, [length, width]."""
        ...

    def after_embeddings(self, embeddings: Singles, positions: Ids) -> Singles:
        """The same when it reads `embeddings` [batch, length, width]; places stay what they are."""
        ...


def gives_distributions(model: Model) -> GivesDistributions | None:
    """How to ask `model` for whole distributions; None where it has none."""
    if isinstance(model, GivesDistributions):
        return model
    return None if getattr(model, "network", None) is None else _Network(model)


def reads_embeddings(model: Model) -> ReadsEmbeddings | None:
    """How to give `model` embeddings to read; None where it takes tokens only."""
    if isinstance(model, ReadsEmbeddings):
        return model
    network = getattr(model, "network", None)
    if network is None or "inputs_embeds" not in inspect.signature(network.forward).parameters:
        return None
    return _Network(model)


def refusal(model: Model, capability: type, metric: str) -> CapabilityError:
    """What to say when `metric` needs what `model` lacks."""
    what = (capability.__doc__ or capability.__name__).split(" (")[0].lower()
    return CapabilityError(
        f"metric {metric!r} needs a model that {what}, which {model.info['id']!r} "
        f"({model.info['backend']}) does not: choose another model or another metric"
    )


class _Network:
    """A local model's network, in batches that its limits allow."""

    def __init__(self, model: Any) -> None:
        self.model, self.network = model, model.network
        self.few = "logits_to_keep" in inspect.signature(self.network.forward).parameters

    def rows_at_once(self, length: int, positions: int) -> int:
        vocabulary = int(self.network.config.get_text_config().vocab_size)
        kept = positions if self.few else length
        fit = min(self.model.tokens_at_once // length, self.model.logits_at_once // (vocabulary * kept))
        return max(1, int(fit))

    def embed(self, ids: Ids) -> Singles:
        """Some families scale it afterwards; they do the same with embeddings that they are given."""
        import torch

        with torch.inference_mode():
            found = self.network.get_input_embeddings()(torch.from_numpy(ids[None]).to(self.network.device))[0]
            return np.asarray(found.float().cpu().numpy())

    def after_tokens(self, sequences: Ids, positions: Ids) -> Singles:
        import torch

        ids = torch.from_numpy(np.ascontiguousarray(sequences[:, : int(positions.max())])).to(self.network.device)
        return self._after({"input_ids": ids}, len(ids), positions)

    def after_embeddings(self, embeddings: Singles, positions: Ids) -> Singles:
        import torch

        read = torch.from_numpy(np.ascontiguousarray(embeddings[:, : int(positions.max())]))
        return self._after({"inputs_embeds": read.to(self.network.device, self.network.dtype)}, len(read), positions)

    def _after(self, text: dict[str, Any], rows: int, positions: Ids) -> Singles:
        import torch

        length = int(positions.max())  # what is asked for last is never read
        self.model.meter.add(rows, length)
        where = torch.from_numpy(np.ascontiguousarray(positions - 1)).to(self.network.device)
        step = self.rows_at_once(length, len(positions))
        found = []
        with torch.inference_mode():
            for begin in range(0, rows, step):
                some = {name: values[begin : begin + step] for name, values in text.items()}
                more = {"logits_to_keep": where} if self.few else {}
                logits = self.network(**some, use_cache=False, **more).logits
                logits = logits if self.few else logits[:, where]
                found.append(logits.float().log_softmax(-1).cpu().numpy())  # [rows, positions, vocabulary]
        return np.concatenate(found)
