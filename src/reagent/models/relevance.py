"""AttnLRP (Achtibat and others, 2024): layer-wise relevance propagation through a transformer, as modified gradients.

Relevance is the input times a gradient whose rules differ from calculus in four places:

    a normalisation           its scale is a constant
    an activation             f(x) / x is a constant
    a product of two factors  each gets half: gate and value, attention weights and values, queries and keys
    softmax                   as in calculus

Queries and keys are factors of a product (half) that becomes the weights of another one (half again). All rules are
hooks on `Network.eager`, a twin of the network around the same weights: nothing else ever sees them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from reagent.case import Case
from reagent.models.base import Singles
from reagent.models.decoder_layers import DecoderLayer, find_norms
from reagent.models.network import Network

SMALLEST = 1e-10  # added to the input of an activation, so that 0 is no divisor


def compute_relevance(
    network: Network, layers: Sequence[DecoderLayer], case: Case, embeddings: Singles, targets: Sequence[int]
) -> Singles:
    """The relevance of each token for the logit of each of `targets`, [targets, length].

    The value of a phrase is the sum of the logits of its tokens, that of a contrasted target the difference of both.
    One forward pass, then one backward pass for each target.
    """
    twin = network.eager
    rows = np.empty((len(targets), len(embeddings)), dtype=np.float32)
    with torch.inference_mode(False), torch.enable_grad(), _rules(twin.module, layers):
        text = twin.tensor(embeddings[None]).requires_grad_()
        logits = twin.forward(text, twin.tensor(case.positions - 1))
        values = case.output_values(logits.gather(-1, twin.tensor(case.targets)[None, :, None]).squeeze(-1))
        for row, t in zip(rows, targets, strict=True):
            (gradient,) = torch.autograd.grad(values[t].sum(), text, retain_graph=t != targets[-1])
            row[:] = (text * gradient).sum(-1)[0].detach().float().cpu().numpy()
    return rows


@contextmanager
def _rules(module: nn.Module, layers: Sequence[DecoderLayer]) -> Iterator[None]:
    hooks = [norm.register_forward_hook(_keep_scale) for norm in find_norms(module)]
    for layer in layers:
        hooks.append(layer.activation.register_forward_hook(_keep_ratio))
        hooks.append(layer.values.register_forward_hook(_divide_values(layer)))
        hooks += [part.register_forward_hook(_divide_output) for part in layer.queries_and_keys]
        if layer.product is not None:
            hooks.append(layer.product.register_forward_pre_hook(_halve_input))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _keep_scale(norm: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    """The same output, linear in the input; LayerNorm also subtracts the mean, which stays a function of the input."""
    bias: Any = getattr(norm, "bias", None)
    shift = 0 if bias is None else bias
    centred = given[0] - given[0].mean(-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else given[0]
    scale = torch.where(centred == 0, 0.0, (output - shift) / centred).detach()
    return centred * scale + shift


def _keep_ratio(_part: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    return given[0] * (output / (given[0] + SMALLEST)).detach()


def _divide_values(layer: DecoderLayer) -> Callable[[nn.Module, Any, torch.Tensor], None]:
    """Half for values; a quarter for queries and keys, if the same projection gives them."""

    def hook(_part: nn.Module, _given: Any, output: torch.Tensor) -> None:
        share = torch.full_like(output[0, 0], 0.25)
        layer.values_in(share)[:] = 0.5
        _scale_gradient(output, share)

    return hook


def _divide_output(_part: nn.Module, _given: Any, output: torch.Tensor) -> None:
    _scale_gradient(output, 0.25)


def _halve_input(_part: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    product = given[0] * 1  # a tensor of its own for the hook
    _scale_gradient(product, 0.5)
    return (product, *given[1:])


def _scale_gradient(tensor: torch.Tensor, share: torch.Tensor | float) -> None:
    tensor.register_hook(lambda gradient: gradient * share)  # type: ignore[no-untyped-call]
