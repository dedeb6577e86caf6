"""Computations with a network besides scores: distributions, masked scores, values, gradients, attention."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.models.base import Singles
from reagent.models.network import Network
from reagent.models.prefix_cache import SharedPrefix

ROW_ROUNDING = 0.05  # of the sum of a row of attention in half precision
LOGITS_IN_CACHE = 2**20  # logits that are read several times while they are in the cache of the processor
GRADIENT_MEMORY = 8  # how many times the memory of a forward pass its gradient takes
PACKED_TOKENS = 512  # after a prefix, in one text of several copies; a quarter of the prefix, if that is more


def compute_distributions(network: Network, text: Ids | Singles, positions: Ids) -> Singles:
    """Log-probabilities of every token at `positions`, [rows, positions, vocabulary].

    `text` is ids [rows, length] or embeddings [rows, length, width].
    """
    length = int(positions.max())  # the last position itself is never read
    read, before = network.tensor(text[:, :length]), network.tensor(positions - 1)
    with torch.inference_mode():
        rows = [
            network.forward(read[batch], before).log_softmax(-1).cpu().numpy()
            for batch in _batches(len(text), network.rows_at_once(length, len(positions)))
        ]
    return np.concatenate(rows)


def score_masked(network: Network, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
    """As `Model.score`, of the tokens that `keep` [rows, length] leaves visible."""
    assert keep[:, positions - 1].all(), "a prediction cannot be read off a masked token"
    length = int(positions.max())  # the last target itself is never read
    ids, mask = network.tensor(sequences[:, :length]), network.tensor(keep[:, :length])
    before, wanted = network.tensor(positions - 1), network.tensor(targets)
    scores = []
    with torch.inference_mode():
        for batch in _batches(len(ids), network.rows_at_once(length, len(positions))):
            scores.append(score_targets(network.forward(ids[batch], before, mask=mask[batch]), wanted))
    return _join(scores)


def score_hidden(
    network: Network, sequence: Ids, hidden: Mask, positions: Ids, targets: Ids, prefix: SharedPrefix
) -> TargetScores:
    """As `Model.score` of one sequence, where each row of `hidden` [rows, prefix] hides some tokens of its prefix.

    The text after the prefix is repeated for every row, and all copies are read as one text: a copy sees itself and
    what its row does not hide. The keys and values of the prefix are therefore never copied.
    """
    begin, end = hidden.shape[1], int(positions.max())  # the last target itself is never read
    size, limit = end - begin, max(PACKED_TOKENS, begin // 4)
    copies = network.rows_at_once(size, len(positions))
    copies = max(1, min(copies, limit // size))
    scores, wanted = [], network.tensor(targets)
    for some in _batches(len(hidden), copies):
        count = len(hidden[some])
        ids = network.tensor(np.concatenate([sequence[:begin], np.tile(sequence[begin:end], count)])[None])
        own = np.kron(np.eye(count, dtype=np.bool_), np.tri(size, dtype=np.bool_))
        visible = np.concatenate([np.repeat(~hidden[some], size, axis=0), own], axis=1)
        lowest = torch.finfo(network.module.dtype).min
        mask = network.tensor(np.where(visible, 0.0, lowest)[None, None])
        places = network.tensor(np.tile(np.arange(begin, end), count))
        before = network.tensor((positions - 1 + size * np.arange(count)[:, None]).ravel())
        with torch.inference_mode():
            logits = network.forward(ids, before, mask=mask, places=places, cache=prefix)
        scores.append(score_targets(logits.view(count, len(positions), -1), wanted))
    return _join(scores)


def score_targets(logits: torch.Tensor, targets: torch.Tensor, places: torch.Tensor | None = None) -> TargetScores:
    """Scores of `targets` from logits [rows, targets, vocabulary], or [rows, positions, vocabulary] with `places`.

    `places` [rows, targets] says at which of the positions each target is read. A few rows at a time, because the
    logits are read several times.
    """
    scores = []
    for batch in _batches(len(logits), max(1, LOGITS_IN_CACHE // (len(targets) * logits.shape[-1]))):
        some = logits[batch]
        if places is not None:
            some = some[torch.arange(len(some), device=some.device)[:, None], places[batch]]
        own = targets.expand(len(some), -1)[..., None]
        logprob = some.log_softmax(-1).gather(-1, own).squeeze(-1)
        rank = (some > some.gather(-1, own)).sum(-1, dtype=torch.int32)
        scores.append(TargetScores(logprob.double().cpu().numpy(), rank.long().cpu().numpy()))
    return _join(scores)


def _join(scores: Sequence[TargetScores]) -> TargetScores:
    return TargetScores(*(np.concatenate(columns) for columns in zip(*scores, strict=True)))


def compute_values(network: Network, case: Case, embeddings: Singles, batch_size: int | None) -> Floats:
    """The value of each output unit of `case` at each point, [points, outputs]."""
    rows = _rows(network, case, embeddings, batch_size)
    with torch.no_grad():
        values = [
            torch.stack(_values(network, case, network.tensor(embeddings[batch])), -1)
            for batch in _batches(len(embeddings), rows)
        ]
    return np.asarray(torch.cat(values).double().cpu().numpy())


def compute_gradients(
    network: Network, case: Case, embeddings: Singles, targets: Sequence[int], batch_size: int | None
) -> Singles:
    """The gradient of the value of each of `targets`, [points, targets, length, width].

    One forward pass for each point, then one backward pass for each target.
    """
    gradients = np.empty((len(embeddings), len(targets), *embeddings.shape[1:]), dtype=np.float32)
    rows = _rows(network, case, embeddings, batch_size, GRADIENT_MEMORY)
    with torch.inference_mode(False), torch.enable_grad():
        for batch in _batches(len(embeddings), rows):
            points = network.tensor(embeddings[batch]).requires_grad_()
            values = _values(network, case, points)
            for j, t in enumerate(targets):
                # The rows of a batch are independent: the gradient of their sum holds the gradient of each.
                (gradient,) = torch.autograd.grad(values[t].sum(), points, retain_graph=j + 1 < len(targets))
                gradients[batch, j] = gradient.float().cpu().numpy()
    return gradients


def compute_attentions(network: Network, ids: Ids) -> list[Singles] | None:
    """The attention weights of each layer that has them, [heads, length, length]; None if the network shows none.

    Rows sum to 1, or to less if the layer has a sink that takes attention from all tokens.
    """
    with torch.inference_mode():
        shown = network.attentions(ids) or ()
    square = (len(ids), len(ids))  # layers of linear attention show something else
    layers = [layer for layer in shown if getattr(layer, "shape", ())[-2:] == square]
    weights = [layer[0].float().cpu().numpy() for layer in layers]
    if not weights or any(np.triu(layer, 1).any() or (layer.sum(-1) > 1 + ROW_ROUNDING).any() for layer in weights):
        return None  # a state-space model, or not the weights of causal attention
    return weights


def _values(network: Network, case: Case, embeddings: torch.Tensor) -> list[torch.Tensor]:
    """For each output unit its value at each point, [points]; gradients flow back to `embeddings`."""
    logits = network.forward(embeddings, network.tensor(case.positions - 1))
    return case.output_values(_logits_of(logits, network.tensor(case.targets)) - logits.logsumexp(-1))


def _logits_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The logits of the targets, [rows, targets], from [rows, targets, vocabulary]."""
    return logits.gather(-1, targets.expand(len(logits), -1)[..., None]).squeeze(-1)


def _rows(network: Network, case: Case, embeddings: Singles, batch_size: int | None, memory: int = 1) -> int:
    fitting = network.rows_at_once(embeddings.shape[1], len(case.positions), memory)
    return fitting if batch_size is None else max(1, min(batch_size, fitting))


def _batches(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
