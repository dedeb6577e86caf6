"""Matrix products in bfloat16 around weights in float32: scores in a fraction of the time, on processors that have it.

Inputs and weights of the products are rounded to bfloat16. Everything else stays in float32: the text between the
layers, normalisations, attention and the output layer, whose rounding would be the largest error.
"""

import copy
from itertools import chain
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D


class HalfProduct(nn.Module):
    """A linear layer that multiplies in bfloat16."""

    def __init__(self, layer: nn.Linear | Conv1D) -> None:
        super().__init__()
        weight = layer.weight.detach()
        turned = weight if isinstance(layer, nn.Linear) else weight.T  # GPT-2 has it the other way round
        self.register_buffer("weight", turned.to(torch.bfloat16).contiguous(), persistent=False)
        self.bias: Any = layer.bias

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        weight: Any = self.weight
        product = nn.functional.linear(text.to(torch.bfloat16), weight).to(text.dtype)
        return product if self.bias is None else product + self.bias


def with_half_products(network: Any) -> Any:
    """A twin of the network around the same weights, with half products in all layers but the output layer."""
    shared = {id(tensor): tensor for tensor in chain(network.parameters(), network.buffers())}
    twin = copy.deepcopy(network, shared)
    output = twin.get_output_embeddings()
    for part in list(twin.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear | Conv1D) and child is not output:
                setattr(part, name, HalfProduct(child))
    return twin
