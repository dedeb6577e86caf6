"""How much of each token each layer passes on to each position: contributions, and the effect of missing values.

Both are [length, length] for each layer. Rows sum to 1, and no row depends on later tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from reagent.case import Ids
from reagent.models.base import Singles
from reagent.models.decoder_layers import DecoderLayer
from reagent.models.network import SAME, SAME_IN_LOW_PRECISION, Network

_Seen = dict[nn.Module, tuple[torch.Tensor, torch.Tensor]]


def compute_contributions(network: Network, layers: Sequence[DecoderLayer], ids: Ids) -> list[Singles] | None:
    """Contributions to the text after attention (Ferrando and Voita, 2024); None if they do not add up to it.

    That text is the sum of the text before attention and of one term for each head and each token. The contribution of
    a term is by how much the L1 distance to the sum is less than the norm of the sum, and 0 if it is not. `layers` are
    those of `network.eager`. The scale of a normalisation after attention is a constant.
    """
    parts = [part for layer in layers for part in (layer.module, layer.values, layer.middle, layer.attention_norm)]
    allowed = SAME_IN_LOW_PRECISION if network.is_low_precision else SAME
    with torch.inference_mode(), _recorded(parts) as seen:
        weights = network.attentions(ids)
        if weights is None or len(weights) != len(layers):
            return None
        matrices = []
        for layer, attention in zip(layers, weights, strict=True):
            terms = _terms(layer, attention[0].float(), seen)
            if not terms.error <= allowed:
                return None
            matrices.append(_contributions(terms))
    return matrices


def compute_value_zeroing(network: Network, layers: Sequence[DecoderLayer], ids: Ids) -> list[Singles]:
    """How much the output of each layer changes without the value of each token (Mohebbi and others, 2023).

    The change is the cosine distance. Attention weights stay as they are, and so does the input of the layer.
    """
    text = network.tensor(ids[None])
    with torch.inference_mode():
        with _recorded_calls(layers) as calls:
            network.eager.module(input_ids=text, use_cache=False)
        return [_zero_values(layer, calls[layer.module], network.rows_at_once(len(ids), 1)) for layer in layers]


# --- contributions ---


class _Terms(NamedTuple):
    """The text after attention as a sum: before + scale · (Σ attention · heads + bias)."""

    before: torch.Tensor  # [length, width]
    attention: torch.Tensor  # [heads, length, length]
    heads: torch.Tensor  # [heads, length, width]: what a head writes if it attends to one token only
    bias: torch.Tensor  # [width]
    scale: torch.Tensor  # [length, width]
    after: torch.Tensor  # [length, width]

    @property
    def error(self) -> float:
        joined = torch.einsum("hij,hjd->id", self.attention, self.heads) + self.bias
        return float((self.before + self.scale * joined - self.after).norm() / self.after.norm())


def _terms(layer: DecoderLayer, attention: torch.Tensor, seen: _Seen) -> _Terms:
    weight, count = layer.output_weight.float(), len(attention)
    values = layer.values_in(_read(seen[layer.values][1]))
    values = values.reshape(len(values), -1, len(weight) // count)  # [length, heads with values of their own, size]
    values = values.repeat_interleave(count // values.shape[1], dim=1)
    heads = torch.einsum("jhe,hed->hjd", values, weight.view(count, values.shape[-1], -1))
    before, after = _read(seen[layer.module][0]), _read(seen[layer.middle][0])
    own: Any = getattr(layer.output, "bias", None)
    bias = torch.zeros_like(after[0]) if own is None else own.float()
    scale = torch.ones_like(after)
    if layer.attention_norm is not None:
        joined, normed = map(_read, seen[layer.attention_norm])
        scale = torch.where(joined == 0, 0.0, normed / joined)
    return _Terms(before, attention, heads, bias, scale, after)


def _contributions(terms: _Terms) -> Singles:
    length = len(terms.after)
    matrix = torch.zeros(length, length)
    for i in range(length):
        written = terms.attention[:, i, : i + 1, None] * terms.heads[:, : i + 1] * terms.scale[i]
        matrix[i, : i + 1] = _proximity(written, terms.after[i]).sum(0)
        matrix[i, i] += _proximity(terms.before[i], terms.after[i])
    return _normalized(matrix)


def _proximity(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    return (total.abs().sum() - (terms - total).abs().sum(-1)).clamp(min=0)


def _normalized(matrix: torch.Tensor) -> Singles:
    """Rows over their sums; a position to which nothing contributes stays as it is."""
    rows: Singles = matrix.double().cpu().numpy()
    sums = rows.sum(-1, keepdims=True)
    return np.asarray(np.where(sums > 0, rows / np.where(sums > 0, sums, 1), np.eye(len(rows))), dtype=np.float32)


# --- value zeroing ---


def _zero_values(layer: DecoderLayer, call: tuple[tuple[Any, ...], dict[str, Any]], rows: int) -> Singles:
    (hidden, *others), named = call
    length = hidden.shape[1]
    whole = _first(layer.module(hidden, *others, **named)).float()
    matrix = torch.zeros(length, length)
    for start in range(0, length, rows):
        tokens = torch.arange(start, min(start + rows, length), device=hidden.device)

        def zero(_module: nn.Module, _given: Any, projected: torch.Tensor, tokens: torch.Tensor = tokens) -> None:
            layer.values_in(projected)[torch.arange(len(tokens)), tokens] = 0

        hook = layer.values.register_forward_hook(zero)
        try:
            changed = _first(layer.module(hidden.expand(len(tokens), -1, -1), *others, **named)).float()
        finally:
            hook.remove()
        matrix[:, tokens.cpu()] = (1 - torch.cosine_similarity(changed, whole, dim=-1)).clamp(min=0).T.cpu()
    return _normalized(matrix.tril())


# --- what passes through the modules ---


def _first(output: Any) -> torch.Tensor:
    tensor: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
    return tensor


def _read(tensor: torch.Tensor) -> torch.Tensor:
    """Of one text, [length, width]."""
    return tensor[0].float()


@contextmanager
def _recorded(parts: Sequence[nn.Module | None]) -> Iterator[_Seen]:
    """Input and output of each part in its latest call."""
    seen: _Seen = {}

    def record(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        seen[part] = (given[0] if given else named["hidden_states"], _first(output))

    hooks = [part.register_forward_hook(record, with_kwargs=True) for part in parts if part is not None]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _recorded_calls(
    layers: Sequence[DecoderLayer],
) -> Iterator[dict[nn.Module, tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The arguments of each layer in its latest call, the text first."""
    calls: dict[nn.Module, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def record(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        named = dict(named)
        calls[module] = (given if given else (named.pop("hidden_states"),), named)

    hooks = [layer.module.register_forward_pre_hook(record, with_kwargs=True) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
