"""Encoded sources are kept: an encoder–decoder reads each source once.

Many probes share a source: those that change only the output so far, and all steps of a generated output.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from reagent.case import Ids
from reagent.models.base import Meter
from reagent.models.encoder_decoder import EncoderDecoderNetwork

KEPT_SOURCES = 4  # encoded sources that are kept, in batches of tokens


class EncodedSources(NamedTuple):
    """Encoded sources of a batch."""

    states: torch.Tensor  # [rows, length, width]
    mask: torch.Tensor  # [rows, length]


class SourceCache:
    """Hidden states of the sources that were read last; a source that is among them is not read again."""

    def __init__(self, network: EncoderDecoderNetwork, meter: Meter) -> None:
        self.network, self.meter = network, meter
        self._states: OrderedDict[bytes, torch.Tensor] = OrderedDict()

    def clear(self) -> None:
        self._states.clear()

    def read(self, sources: Sequence[Ids]) -> EncodedSources:
        """The states of each source, filled up to the longest."""
        keys = [source.tobytes() for source in sources]
        new = {key: source for key, source in zip(keys, sources, strict=True) if key not in self._states}
        if new:
            lengths = [len(source) for source in new.values()]
            ids = self.network.tensor(pad(list(new.values()), self.network.filler))
            encoded = self.network.encode(ids, self._mask(lengths))
            self.meter.tokens += sum(lengths)
            self._states |= {key: row[:n].clone() for key, row, n in zip(new, encoded, lengths, strict=True)}
        for key in keys:
            self._states.move_to_end(key)
        states = torch.nn.utils.rnn.pad_sequence([self._states[key] for key in keys], batch_first=True)
        self._drop_oldest()
        return EncodedSources(states, self._mask([len(source) for source in sources]))

    def _drop_oldest(self) -> None:
        kept = sum(len(states) for states in self._states.values())
        while kept > KEPT_SOURCES * self.network.tokens_at_once:
            kept -= len(self._states.popitem(last=False)[1])

    def _mask(self, lengths: Sequence[int]) -> torch.Tensor:
        return self.network.tensor((np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64))


def pad(sequences: Sequence[Ids], filler: int) -> Ids:
    """Sequences filled up to the longest, [n, longest].

    >>> pad([np.array([1, 2]), np.array([3])], 0).tolist()
    [[1, 2], [3, 0]]
    """
    padded = np.full((len(sequences), max(map(len, sequences))), filler, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded
