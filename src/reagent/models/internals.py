"""A look inside a network: its embeddings, gradients back to them, and its attention. No code per model family."""

import copy
import inspect
import logging
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reagent.case import Case, Floats, Ids
from reagent.models.base import Singles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GRAPH = 8  # how many times the memory of an answer its gradient takes: so many times fewer tokens at once


class Inside:
    """What a gradient or attention method may see of a `transformers` causal LM.

    The network itself is left as it is: it keeps its weights, its device and its attention implementation.
    """

    def __init__(self, network: "PreTrainedModel") -> None:
        self.network = network
        known = inspect.signature(network.forward).parameters
        self._takes_embeddings = "inputs_embeds" in known
        self._takes_positions = "logits_to_keep" in known

    # --- embeddings and gradients ---

    def embed(self, ids: Ids) -> Singles | None:
        """What the network looks up for each token, [length, width]; None if it cannot be given that instead of tokens.

        Some families scale it afterwards; they do the same with embeddings that they are given.
        """
        if not self._takes_embeddings:
            return None
        with torch.no_grad():
            table: Any = self.network.get_input_embeddings()
            found = table(torch.from_numpy(ids[None]).to(self.network.device))[0]
        return np.asarray(found.float().cpu().numpy())

    def values(self, case: Case, embeddings: Singles, rows: int) -> Floats:
        """What the network makes of each output unit, [points, outputs], `rows` points at a time."""
        with torch.no_grad():
            parts = [torch.stack(self._values(case, self._tensor(part)), -1) for part in _cut(embeddings, rows)]
        return np.asarray(torch.cat(parts).double().cpu().numpy())

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], rows: int) -> Singles:
        """How the value of each of `targets` changes with each embedding, [points, targets, length, width].

        A forward pass for each point, from which a backward pass goes out for each target.
        """
        found = np.empty((len(embeddings), len(targets), *embeddings.shape[1:]), dtype=np.float32)
        with torch.inference_mode(False), torch.enable_grad():
            for start, part in zip(range(0, len(embeddings), rows), _cut(embeddings, rows), strict=True):
                points = self._tensor(part).requires_grad_()
                values = self._values(case, points)
                for j, t in enumerate(targets):
                    # The rows of a batch do not know of each other: the gradient of the sum has that of each.
                    again = j + 1 < len(targets)
                    (gradient,) = torch.autograd.grad(values[t].sum(), points, retain_graph=again)
                    found[start : start + len(part), j] = gradient.float().cpu().numpy()
        return found

    def _values(self, case: Case, embeddings: torch.Tensor) -> list[torch.Tensor]:
        """For each output unit its value at each point, [points]."""
        where = torch.from_numpy(case.positions - 1).to(self.network.device)
        wanted = torch.from_numpy(case.targets).to(self.network.device)
        few: dict[str, Any] = {"logits_to_keep": where} if self._takes_positions else {}
        logits = self.network(inputs_embeds=embeddings, use_cache=False, **few).logits
        logits = (logits if self._takes_positions else logits[:, where]).float()  # [points, asked, vocabulary]
        own = logits.gather(-1, wanted.expand(len(embeddings), -1)[..., None]).squeeze(-1)
        return case.output_values(own - logits.logsumexp(-1))

    def _tensor(self, embeddings: Singles) -> torch.Tensor:
        return torch.from_numpy(embeddings).to(self.network.device, self.network.dtype)

    # --- attention ---

    def attentions(self, ids: Ids) -> list[Singles] | None:
        """For each layer, to which position each position attends, [heads, length, length]; None if it does not say."""
        with torch.inference_mode():
            text = torch.from_numpy(ids[None]).to(self.network.device)
            answer = self._eager(text, use_cache=False, output_attentions=True)
        layers = getattr(answer, "attentions", None)
        square = (len(ids), len(ids))
        if not layers or any(getattr(layer, "shape", ())[-2:] != square for layer in layers):
            return None  # as of networks that remember in other ways
        return [layer[0].float().cpu().numpy() for layer in layers]

    @cached_property
    def _eager(self) -> Any:
        """The same network in the implementation that keeps its attention weights.

        A copy of the modules and settings around the same weights: nobody who uses the network at the same
        time sees it switched.
        """
        weights = {id(tensor): tensor for tensor in chain(self.network.parameters(), self.network.buffers())}
        twin = copy.deepcopy(self.network, weights)
        log = logging.getLogger("transformers.modeling_utils")
        level = log.level
        log.setLevel(logging.ERROR)  # a family with one implementation only says so; that one will do
        try:
            twin.set_attn_implementation("eager")
        finally:
            log.setLevel(level)
        return twin


def _cut(embeddings: Singles, rows: int) -> list[Singles]:
    return [embeddings[start : start + rows] for start in range(0, len(embeddings), rows)]
