"""The attention of an encoder–decoder as attention between the positions of one sequence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from reagent.models.base import Singles

ROUNDING = 0.02  # of the sum of a row, in half precision


def join_attention(result: Any, source: int, output: int) -> list[Singles] | None:
    """The weights of each layer over source and output, [heads, length, length]; encoder layers first.

    `result` is the output of a network with its attentions. A row of the output has half of its weight on the source
    (cross attention) and half on the output so far. In a layer of the encoder the rows of the output are zero, and in a
    layer of the decoder those of the source. None if the weights are not between all tokens, as in local windows.
    """
    own = _read(result, "encoder_attentions", (source, source))
    cross = _read(result, "cross_attentions", (output, source))
    within = _read(result, "decoder_attentions", (output, output))
    if not own or not cross or not within or len(cross) != len(within):
        return None
    layers = []
    for encoder in own:
        layers.append(np.zeros((len(encoder), source + output, source + output), dtype=np.float32))
        layers[-1][:, :source, :source] = encoder
    for to_source, to_output in zip(cross, within, strict=True):
        layers.append(np.zeros((len(to_source), source + output, source + output), dtype=np.float32))
        layers[-1][:, source:, :source] = to_source / 2
        layers[-1][:, source:, source:] = to_output / 2
    return layers


def _read(result: Any, name: str, shape: tuple[int, int]) -> Sequence[Singles] | None:
    """The weights of all layers, [heads, rows, columns]; None if they have other shapes or do not sum to 1."""
    layers: list[Singles] = []
    for layer in getattr(result, name, None) or ():
        if not isinstance(layer, torch.Tensor) or layer.shape[-2:] != shape:
            return None
        weights = layer[0].float().cpu().numpy()
        if not np.allclose(weights.sum(-1), 1, atol=ROUNDING):
            return None
        layers.append(weights)
    return layers
