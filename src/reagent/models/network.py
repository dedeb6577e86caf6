"""A `transformers` causal language model as one function: tokens or embeddings in, logits at some positions out.

Only `Network` calls the module: `forward` for logits at chosen positions, `extend` for logits after the last token with
a cache, `attentions` for attention weights. No code per model family: the signature of the model's own `forward`
determines which inputs it takes.
"""

import copy
import inspect
import logging
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from reagent.case import Ids
from reagent.models.base import Singles

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

TOKENS_AT_ONCE = 2048  # tokens per forward pass of a batch
LOGITS_AT_ONCE = 64 * 2**20  # logits held at once: 256 MiB in float32
OPTIONAL_INPUTS = frozenset({"inputs_embeds", "attention_mask", "position_ids"})


class Network:
    """Runs a `transformers` causal LM within the limits of memory.

    `tokens_at_once` and `logits_at_once` bound one batch. The module keeps its weights, its device and its attention
    implementation.
    """

    def __init__(
        self,
        module: "PreTrainedModel",
        tokens_at_once: int = TOKENS_AT_ONCE,
        logits_at_once: int = LOGITS_AT_ONCE,
    ) -> None:
        module.train(False)  # no dropout; the weights stay as they are
        self.module = module
        self.tokens_at_once = tokens_at_once
        self.logits_at_once = logits_at_once
        self._inputs = frozenset(inspect.signature(module.forward).parameters)
        self._selects_positions = "logits_to_keep" in self._inputs

    @property
    def device(self) -> torch.device:
        return torch.device(self.module.device)

    @property
    def vocabulary_size(self) -> int:
        return int(self.module.config.get_text_config().vocab_size)

    @property
    def context_length(self) -> int | None:
        limit = getattr(self.module.config.get_text_config(), "max_position_embeddings", None)
        return limit if limit and limit > 0 else None

    @property
    def missing_inputs(self) -> frozenset[str]:
        """The optional inputs that this module does not take."""
        missing = OPTIONAL_INPUTS - self._inputs
        # With ALiBi the module takes position ids, but counts positions by the mask.
        return missing | {"position_ids"} if self._has_alibi else missing

    @property
    def _has_alibi(self) -> bool:
        return bool(getattr(getattr(self.module, "config", None), "alibi", False))

    @property
    def positions_at_once(self) -> int:
        """At how many positions the logits fit into memory."""
        return self.logits_at_once // self.vocabulary_size

    def rows_at_once(self, length: int, positions: int, memory: int = 1) -> int:
        """How many sequences fit into one batch; each takes `memory` times the memory of a plain forward pass."""
        held = positions if self._selects_positions else length
        return max(1, min(self.tokens_at_once // length, self.positions_at_once // held) // memory)

    def forward(
        self,
        text: torch.Tensor,
        positions: torch.Tensor,
        *,
        mask: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        cache: "Cache | None" = None,
    ) -> torch.Tensor:
        """Float32 logits [rows, positions, vocabulary]; logits of all positions are built only if they must be.

        `text` is ids [rows, length] or embeddings [rows, length, width]. With a `mask` [rows, length], hidden tokens
        get no attention and all others keep their positions. A `cache` holds keys and values of the first tokens.
        With `places` [length after the cache], the tokens after the cache have these positions, and `mask`
        [rows, 1, length after the cache, length] is added to the attention logits.
        """
        start = 0 if cache is None else cache.get_seq_length()
        inputs: dict[str, Any] = {"inputs_embeds": text} if text.is_floating_point() else {}
        tokens = () if inputs else (text[:, start:],)
        if places is not None:
            inputs |= {"attention_mask": mask, "position_ids": places.expand(len(text), -1)}
        elif mask is not None:
            numbers = torch.arange(text.shape[1], device=text.device).expand(text.shape[:2])
            inputs |= {"attention_mask": mask.long(), "position_ids": numbers[:, start:]}
        if cache is not None:
            inputs["past_key_values"] = cache
        if self._selects_positions:
            inputs["logits_to_keep"] = positions - start
        logits: torch.Tensor = self.module(*tokens, use_cache=cache is not None, **inputs).logits
        return (logits if self._selects_positions else logits[:, positions - start]).float()

    def extend(self, ids: torch.Tensor, cache: Any = None) -> tuple[torch.Tensor, Any]:
        """Read `ids` [rows, length] after `cache`: logits after the last token [rows, vocabulary] and the grown cache.

        The new cache is None if the network has none.
        """
        inputs: dict[str, Any] = {} if cache is None else {"past_key_values": cache}
        if self._selects_positions:
            inputs["logits_to_keep"] = 1
        output = self.module(ids, use_cache=True, **inputs)
        return output.logits[:, -1], getattr(output, "past_key_values", None)

    def embed(self, ids: Ids) -> Singles | None:
        """The input embedding of each token, [length, width]; None if the network takes tokens only.

        Some families scale embeddings afterwards; they do the same with embeddings that they are given.
        """
        if "inputs_embeds" in self.missing_inputs:
            return None
        with torch.no_grad():
            table: Any = self.module.get_input_embeddings()
            return np.asarray(table(self.tensor(ids[None]))[0].float().cpu().numpy())

    def attentions(self, ids: Ids) -> tuple[torch.Tensor, ...] | None:
        """The attention weights of each layer, as the network reports them."""
        output = self._eager(self.tensor(ids[None]), use_cache=False, output_attentions=True)
        return getattr(output, "attentions", None)

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """An array as a tensor on the network's device; floating-point numbers get the network's type."""
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return tensor.to(self.module.dtype) if tensor.is_floating_point() else tensor

    @cached_property
    def _eager(self) -> Any:
        """The same network with the attention implementation that keeps its weights.

        A copy of the modules and settings around the same parameters, so that other users of the network never see it
        switched.
        """
        weights = {id(tensor): tensor for tensor in chain(self.module.parameters(), self.module.buffers())}
        twin = copy.deepcopy(self.module, weights)
        log = logging.getLogger("transformers.modeling_utils")
        level = log.level
        log.setLevel(logging.ERROR)  # a family with only one implementation warns, and that one will do
        try:
            twin.set_attn_implementation("eager")
        finally:
            log.setLevel(level)
        return twin
