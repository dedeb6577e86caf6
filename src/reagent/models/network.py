"""A `transformers` causal language model as one function: tokens or embeddings in, logits at some positions out.

Only `Network` calls the module: `forward` for logits at chosen positions, `extend` for logits after the last token with
a cache, `attentions` for attention weights. No code per model family: the signature of the model's own `forward`
determines which inputs it takes.
"""

import copy
import inspect
import logging
import sys
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from reagent.case import Ids
from reagent.models.base import Singles
from reagent.models.mixed_precision import HalfProduct

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

TOKENS_AT_ONCE = 2048  # tokens per forward pass of a batch
LOGITS_AT_ONCE = 64 * 2**20  # logits held at once: 256 MiB in float32
OPTIONAL_INPUTS = frozenset({"inputs_embeds", "attention_mask", "position_ids"})
CONTEXT_LIMITS = ("max_position_embeddings", "max_seq_len", "max_target_positions")  # names in configurations
# Sparse attention keeps this number of keys with the largest scores. In longer texts, predictions were found to depend
# on later tokens; up to this number, all keys are kept.
SPARSE_LIMITS = ("index_topk", "indexer_budget", "keep_window_size")
SAME = 1e-3  # relative difference of logits that are computed in two ways
SAME_IN_LOW_PRECISION = 0.1


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
        self._eager_agrees = False  # not compared yet
        self.has_cache = True  # the self-check switches it off if steps with a cache differ from full passes
        self.unsupported: frozenset[str] = frozenset()  # optional inputs that do not work, found by the self-check
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
        """How many tokens the network reads; None if its configuration has no limit."""
        config = self.module.config.get_text_config()
        limits = [getattr(config, name, None) for name in CONTEXT_LIMITS]
        known = [limit - self.first_position for limit in limits if isinstance(limit, int) and limit > 0]
        return min([*known[:1], *self._sparse_limits], default=None)

    @property
    def _sparse_limits(self) -> list[int]:
        config = self.module.config.get_text_config()
        limits = [getattr(config, name, None) for name in SPARSE_LIMITS]
        blocks, size = getattr(config, "index_topk_blocks", None), getattr(config, "index_block_size", None)
        return [*(limit for limit in limits if limit), *([blocks * size] if blocks and size else [])]

    @cached_property
    def rope_switch(self) -> int:
        """The length of the longest text that is read with the first set of rotary factors.

        With LongRoPE, all tokens of a longer text have other factors. Keys and values of its beginning, read as a text
        of its own, are therefore of no use to it. Other kinds have one set for all lengths.
        """
        rope: Any = getattr(self.module.config.get_text_config(), "rope_parameters", None) or {}
        kinds = [kind for kind in (rope, *rope.values()) if isinstance(kind, dict)]  # one for each kind of layer
        limits = [kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope"]
        return min(limits, default=sys.maxsize)

    def shares_prefixes(self, length: int) -> bool:
        """Whether keys and values of the first tokens of a text of this length do not depend on the others."""
        return length <= self.rope_switch

    @cached_property
    def first_position(self) -> int:
        return find_first_position(self.module)

    @property
    def missing_inputs(self) -> frozenset[str]:
        """The optional inputs that this module does not take."""
        missing = OPTIONAL_INPUTS - self._inputs | self.unsupported
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
        is_long = places is None and not self.shares_prefixes(text.shape[1])  # `places` may occur several times
        if is_long and bool((positions < self.rope_switch).any()):
            return self._forward_both(text, positions, mask)
        # A clone, because some families scale what they are given in place.
        embeds = text.is_floating_point()
        inputs: dict[str, Any] = {"inputs_embeds": text.clone()} if embeds else {"input_ids": text[:, start:]}
        if places is not None:
            inputs |= {"attention_mask": mask, "position_ids": (places + self.first_position).expand(len(text), -1)}
        elif mask is not None:
            numbers = self._positions(text, start, text.shape[1] - start)
            inputs |= {"attention_mask": mask.long(), "position_ids": numbers}
        if cache is not None:
            inputs["past_key_values"] = cache
        if self._selects_positions:
            inputs["logits_to_keep"] = positions - start
        logits: torch.Tensor = self.module(use_cache=cache is not None, **inputs).logits
        return (logits if self._selects_positions else logits[:, positions - start]).float()

    def _forward_both(self, text: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """As `forward`, of a text with short and with long factors: each position as if the text ended there."""
        short = positions < self.rope_switch
        begin = slice(None), slice(self.rope_switch)
        logits = self.forward(text[begin], positions[short], mask=None if mask is None else mask[begin])
        joined = logits.new_empty((len(text), len(positions), logits.shape[-1]))
        joined[:, short] = logits
        if not short.all():
            joined[:, ~short] = self.forward(text, positions[~short], mask=mask)
        return joined

    def extend(self, ids: torch.Tensor, cache: Any = None) -> tuple[torch.Tensor, Any]:
        """Read `ids` [rows, length] after `cache`: logits after the last token [rows, vocabulary] and the grown cache.

        The new cache is None if the network has none.
        """
        inputs: dict[str, Any] = {"input_ids": ids}
        if cache is not None:
            inputs["past_key_values"] = cache
            if "position_ids" in self._inputs and hasattr(cache, "get_seq_length"):  # some count from 0 in every call
                inputs["position_ids"] = self._positions(ids, cache.get_seq_length(), ids.shape[1])
        if self._selects_positions:
            inputs["logits_to_keep"] = 1
        output = self.module(use_cache=self.has_cache, **inputs)
        return output.logits[:, -1], getattr(output, "past_key_values", None) if self.has_cache else None

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
        if not self.shares_prefixes(len(ids)):
            return None  # a row would not have the weights of the text that ends there
        output = self._eager(input_ids=self.tensor(ids[None]), use_cache=False, output_attentions=True)
        if not self._eager_agrees:
            expected = self.forward(self.tensor(ids[None]), self.tensor(np.arange(len(ids))))
            if not self.agree(output.logits, expected):
                return None  # weights of another function
            self._eager_agrees = True
        return getattr(output, "attentions", None)

    def agree(self, found: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether logits that were computed in two ways are the same within the precision of the weights."""
        return difference(found, expected) <= (SAME_IN_LOW_PRECISION if self.is_low_precision else SAME)

    @property
    def is_low_precision(self) -> bool:
        """Whether rounding is visible: half precision, or quantized weights."""
        return self._is_quantized or self.module.dtype not in (torch.float32, torch.float64)

    @cached_property
    def _is_quantized(self) -> bool:
        """By `transformers`, or by modules in the place of others: of torch.ao, or half products."""
        return getattr(self.module.config, "quantization_config", None) is not None or any(
            type(part).__module__.startswith("torch.ao.nn.quantized") or isinstance(part, HalfProduct)
            for part in self.module.modules()
        )

    @property
    def layer_count(self) -> int:
        """The number of layers; 0 if the configuration does not tell."""
        return int(getattr(self.module.config.get_text_config(), "num_hidden_layers", 0))

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """An array as a tensor on the network's device; floating-point numbers get the network's type."""
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return tensor.to(self.module.dtype) if tensor.is_floating_point() else tensor

    def _positions(self, rows: torch.Tensor, start: int, length: int) -> torch.Tensor:
        """Position ids of `length` tokens after the first `start`, for each of `rows`."""
        numbers = torch.arange(start, start + length, device=rows.device) + self.first_position
        return numbers.expand(len(rows), -1)

    @cached_property
    def eager(self) -> "Network":
        """The same network around `_eager`: hooks on its modules are seen by nothing else."""
        twin = copy.copy(self)
        twin.module = self._eager
        return twin

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
        log.setLevel(logging.ERROR)  # a family that cannot be switched warns
        try:
            twin.set_attn_implementation("eager")
        finally:
            log.setLevel(level)
        for part in twin.modules():  # Falcon cannot be switched, but reads this setting
            config: Any = getattr(part, "config", None)
            if hasattr(config, "_attn_implementation_internal"):
                config._attn_implementation_internal = "eager"
        return twin


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference of logits, as a share of theirs; not a number if one of them is none."""
    # All logits of a position may differ by one number.
    found, expected = (logits.double() - logits.double().mean(-1, keepdim=True) for logits in (found, expected))
    return float((found - expected).norm() / expected.norm().clamp(min=torch.finfo(torch.float32).tiny))


def find_first_position(module: torch.nn.Module) -> int:
    """The position id of the first token: RoBERTa and its relatives count from their padding id."""
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None:
            return int(part.padding_idx) + 1
    return 0
