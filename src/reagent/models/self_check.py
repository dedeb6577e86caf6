"""A network is checked when it is loaded: short passes over one random text, computed in several ways.

A network that looks at later tokens, or has no logits, is refused, because its log-probabilities are not those of a
next token. Everything else that fails is left out: without a cache, batches, a mask or embeddings the results are still
right, only slower or with fewer methods.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from reagent.errors import InputError
from reagent.models.decoder_layers import DecoderLayer
from reagent.models.information_flow import compute_contributions
from reagent.models.network import Network
from reagent.models.prefix_cache import PrefixCache

LENGTH = 8  # tokens of the random text, or fewer if the network reads fewer
SHORTEST = 4  # tokens; a network that reads fewer is not checked
STEPS = (0.005, -0.005, 0.002, -0.002)  # nats: changes of a value along its gradient
SLOPE_ERROR = 0.02  # share; without cuts, it is about 0.003

_log = logging.getLogger(__name__)


class _Result(NamedTuple):
    """What a check has found, of a module with weights of this type on this device."""

    dtype: torch.dtype
    device: torch.device
    has_cache: bool
    has_batches: bool
    unsupported: frozenset[str]


_results: WeakKeyDictionary[torch.nn.Module, _Result] = WeakKeyDictionary()


def check_network(network: Network, name: str, avoid: frozenset[int]) -> None:
    """Refuse a network that predicts no next tokens; switch off what does not work.

    `avoid` are ids that the random text must not have: special tokens may stand for images, or be skipped. The passes
    run once for each module: a pair may be wrapped many times.
    """
    known = _results.get(network.module)
    if known is not None and (known.dtype, known.device) == (network.module.dtype, network.device):
        network.has_cache, network.unsupported = known.has_cache, known.unsupported
        network.tokens_at_once = network.tokens_at_once if known.has_batches else 1
        return
    _check_configuration(network, name)
    if _text_length(network) >= SHORTEST:
        has_batches = _check_passes(network, name, _random_text(network, avoid))
        _results[network.module] = _Result(
            network.module.dtype, network.device, network.has_cache, has_batches, network.unsupported
        )


def _check_passes(network: Network, name: str, ids: torch.Tensor) -> bool:
    """Compare passes over two texts; whether batches work."""
    with torch.inference_mode():
        full = _plain_logits(network, name, ids[:1])
        _check_causal(network, name, ids, full)
        has_batches = _holds(_batch_agrees, network, ids, full)
        if not has_batches:
            network.tokens_at_once = 1
            _log.warning("%r gives other logits in batches: it reads one sequence at a time", name)
        if not _holds(_cache_agrees, network, ids, full):
            network.has_cache = False
            _log.warning("%r gives other logits with its cache: it reads every text from the start", name)
        for what, check in (("attention_mask", _mask_agrees), ("inputs_embeds", _embeddings_agree)):
            if what not in network.missing_inputs and not _holds(check, network, ids, full):
                network.unsupported |= {what}
                _log.info("%r does not work with %s: methods that need it are not available", name, what)
    return has_batches


def gradients_hold(network: Network, avoid: frozenset[int]) -> bool:
    """Whether the gradient of a log-probability is its slope: some networks cut gradients off inside.

    One slope that fits is enough, because a network with experts jumps where another expert takes over.
    """
    ids = _random_text(network, avoid)[:1]
    try:
        slopes = _relative_slopes(network, ids)
        if network.is_low_precision:  # rounding hides a small slope
            return math.isfinite(next(slopes))
        return any(abs(slope - 1) < SLOPE_ERROR for slope in slopes)
    except Exception as error:  # the code of another package
        _log.debug("the check of gradients raised %r", error)
        return False


def layers_hold(network: Network, layers: Sequence[DecoderLayer], avoid: frozenset[int]) -> bool:
    """Whether the parts of the layers add up to what the network computes, in one short text."""
    ids = _random_text(network, avoid)[0].cpu().numpy()
    try:
        return network.embed(ids) is not None and compute_contributions(network, layers, ids) is not None
    except Exception as error:  # the code of another package
        _log.debug("the check of decoder layers raised %r", error)
        return False


def _relative_slopes(network: Network, ids: torch.Tensor) -> Iterator[float]:
    """Slopes of a log-probability along its gradient, over the length of the gradient: steps ahead and back."""
    embeddings = network.embed(ids[0].cpu().numpy())
    assert embeddings is not None
    with torch.inference_mode(False), torch.enable_grad():
        text = network.tensor(embeddings[None]).requires_grad_()
        value = _value(network, text)
        (gradient,) = torch.autograd.grad(value, text)
    for step in STEPS:
        with torch.no_grad():
            change = _value(network, text + step * gradient / gradient.float().norm() ** 2) - value.detach()
        yield float(change) / step


def _value(network: Network, embeddings: torch.Tensor) -> torch.Tensor:
    """The log-probability of one token after the text."""
    last = torch.tensor([embeddings.shape[1] - 1], device=embeddings.device)
    return network.forward(embeddings, last).log_softmax(-1)[0, 0, network.vocabulary_size // 2]


def _check_configuration(network: Network, name: str) -> None:
    """What a short text does not show, of Reformer."""
    if hasattr(network.module.config, "local_attn_chunk_length"):
        network.unsupported |= {"attention_mask"}  # it pads longer texts itself, and fails with positions
    if "lsh" in (getattr(network.module.config, "attn_layers", None) or ()):
        raise InputError(
            f"{name!r} cannot be explained: its LSH attention sorts the whole text into buckets, so that predictions "
            f"depend on later tokens; choose another model"
        )


def _text_length(network: Network) -> int:
    limit = network.context_length
    return LENGTH if limit is None else min(LENGTH, limit)


def _random_text(network: Network, avoid: frozenset[int]) -> torch.Tensor:
    """Two texts with the same first half, [2, length]."""
    allowed = np.setdiff1d(np.arange(network.vocabulary_size), sorted(avoid))
    rng = np.random.default_rng(0)
    first, second = rng.choice(allowed, (2, _text_length(network)))
    half = len(first) // 2
    second[:half] = first[:half]
    return network.tensor(np.stack([first, second]))


def _plain_logits(network: Network, name: str, ids: torch.Tensor) -> torch.Tensor:
    try:
        logits = _logits(network, ids)
    except Exception as error:  # the code of another package
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{name!r} cannot be explained: a forward pass over {ids.shape[1]} tokens gives no logits ({reason}); "
            f"choose a causal language model"
        ) from error
    if not torch.isfinite(logits).all():
        raise InputError(
            f"{name!r} cannot be explained: its logits are not finite as {network.module.dtype}; load it as float32"
        )
    return logits


def _logits(network: Network, ids: torch.Tensor, first: int = 0, **options: object) -> torch.Tensor:
    """Logits at the positions from `first` on."""
    return network.forward(ids, torch.arange(first, ids.shape[1], device=ids.device), **options)  # type: ignore[arg-type]


def _check_causal(network: Network, name: str, ids: torch.Tensor, full: torch.Tensor) -> None:
    """Predictions in the first half depend neither on the second half, nor on whether there is one."""
    half = ids.shape[1] // 2
    start = torch.arange(half, device=ids.device)
    for logits in (network.forward(ids[-1:], start), network.forward(ids[-1:, :half], start)):
        if _look_ahead(network, logits, full[:, :half]):
            kind = type(network.module).__name__
            raise InputError(
                f"{name!r} cannot be explained: the predictions of this {kind} depend on later tokens; choose a causal "
                f"language model (an encoder needs is_decoder=true in its configuration, and weights trained for it)"
            )


def _look_ahead(network: Network, found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether predictions [1, positions, vocabulary] have changed with the later tokens.

    In low precision most positions must have changed: rounding may select another expert at a single one.
    """
    if not network.is_low_precision:
        return not network.agree(found, expected)
    positions = range(expected.shape[1])
    changed = sum(not network.agree(found[:, i], expected[:, i]) for i in positions)
    return changed > len(positions) / 2


# --- what can be left out ---


def _batch_agrees(network: Network, ids: torch.Tensor, full: torch.Tensor) -> bool:
    return network.agree(_logits(network, ids.flip(0))[1:], full)


def _cache_agrees(network: Network, ids: torch.Tensor, full: torch.Tensor) -> bool:
    """Steps of several tokens and of one, and a batch that continues a shared prefix."""
    cache, start, length = None, 0, ids.shape[1]
    half = length // 2
    for end in (half, length - 1, length):
        logits, cache = network.extend(ids[:1, start:end], cache)
        if not network.agree(logits, full[:, end - 1]):
            return False
        if cache is None:
            return True
        start = end
    prefix = PrefixCache(network).read(ids[0, :half].cpu().numpy(), keep=False)
    return prefix is None or network.agree(_logits(network, ids, half, cache=prefix)[:1], full[:, half:])


def _mask_agrees(network: Network, ids: torch.Tensor, full: torch.Tensor) -> bool:
    """A mask that hides nothing changes nothing, and hidden tokens have no influence."""
    texts = ids[[0, 0, 0]]
    texts[2, 1:3] = ids[1, -2:]
    mask = torch.ones_like(texts)
    mask[1:, 1:3] = 0
    logits = _logits(network, texts, mask=mask)
    return network.agree(logits[:1], full) and network.agree(logits[2:, 3:], logits[1:2, 3:])


def _embeddings_agree(network: Network, ids: torch.Tensor, full: torch.Tensor) -> bool:
    """Embeddings say what their tokens say; not exactly the same, because Gemma 4 looks exact ones up in its table."""
    embeddings = network.embed(ids[0].cpu().numpy())
    if embeddings is None:
        return False
    text = network.tensor(embeddings[None])
    return network.agree(_logits(network, text * (1 + 4 * torch.finfo(text.dtype).eps)), full)


def _holds(
    check: Callable[[Network, torch.Tensor, torch.Tensor], bool],
    network: Network,
    ids: torch.Tensor,
    full: torch.Tensor,
) -> bool:
    try:
        return check(network, ids, full)
    except Exception as error:  # the code of another package
        _log.debug("the self-check raised %r", error)
        return False
