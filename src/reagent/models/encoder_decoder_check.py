"""What an encoder–decoder can do, tried on a short random source and output when it is first used."""

import logging
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from reagent.errors import InputError
from reagent.models.network import difference

if TYPE_CHECKING:
    from reagent.models.encoder_decoder import EncoderDecoderNetwork

CHECKED_LENGTH = 9  # tokens of the random texts, or fewer if the network reads fewer
SHORTEST = 4  # tokens; a network that reads fewer is not checked, and read in the slow ways that are always right

T = TypeVar("T")

_log = logging.getLogger(__name__)
_results: WeakKeyDictionary[torch.nn.Module, dict[Hashable, Any]] = WeakKeyDictionary()  # of checks


class EncoderDecoderCheck:
    """The results of the checks of one network; each check runs when its result is first needed."""

    def __init__(self, network: "EncoderDecoderNetwork") -> None:
        self.network = network

    @cached_property
    def _length(self) -> int:
        return min([CHECKED_LENGTH, *(limit for limit in self.network.limits if limit is not None)])

    @cached_property
    def is_causal(self) -> bool:
        """Whether one pass serves all targets; otherwise the later output tokens of a pass change its earlier scores.

        An error for a network that fails, or gives other scores when the source is read first.
        """
        return self._once("causal", self._check_causal)

    def _check_causal(self) -> bool:
        if self._length < SHORTEST:
            return False
        name = type(self.network.module).__name__
        source, output = self._random_texts()
        try:
            with torch.inference_mode():
                plain = self.network.module(input_ids=source, decoder_input_ids=output, use_cache=False).logits.float()
                states = self.network.encode(source)
                whole = self.network.decode(states, output)
                parts = [self.network.decode(states, output[:, :n]) for n in (2, output.shape[1] // 2 + 1)]
        except Exception as error:  # the code of another package
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(
                f"{name} cannot be explained: a forward pass over {source.shape[1]} tokens gives no logits ({reason}); "
                "choose another model"
            ) from error
        if not self._equal(whole, plain):
            raise InputError(f"{name} gives other scores when its source is read first: choose another model")
        return all(self._equal(part, plain[:, : part.shape[1]]) for part in parts)

    @cached_property
    def pads(self) -> bool:
        """Whether sources of different lengths can share a batch."""
        return self._length >= SHORTEST and self._once("pads", lambda: self._holds(self._check_padding))

    def _check_padding(self) -> bool:
        source, output = self._random_texts()
        added = source.shape[1] // 3
        short = source[:, :-added]
        with torch.inference_mode():
            padded = torch.cat([short, torch.full_like(source[:, :added], self.network.filler)], dim=1)
            mask = torch.ones_like(source)
            mask[0, -added:] = 0
            both, masks = torch.cat([padded, source]), torch.cat([mask, torch.ones_like(mask)])
            batch = self.network.decode(self.network.encode(both, masks), output.expand(2, -1), masks)
            alone = [self.network.decode(self.network.encode(text), output) for text in (short, source)]
        return self._equal(batch, torch.cat(alone))

    @cached_property
    def keeps_gaps(self) -> bool:
        """Whether masks hide tokens of source and output, and the others keep their positions."""
        return self._length > SHORTEST and self._once("gaps", lambda: self._holds(self._check_gaps))

    def _check_gaps(self) -> bool:
        """Some families count the visible tokens only.

        Then a text with hidden tokens equals the text without them, though the order of tokens matters.
        """
        source, output = self._random_texts()
        every = list(range(source.shape[1]))
        hidden = [i for i in (3, 4, 6) if i < every[-1]]
        left = [i for i in every if i not in hidden]
        mask = torch.ones_like(source)
        mask[0, hidden] = 0

        def keeps(text: torch.Tensor, read: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]) -> bool:
            """`read` gives the last logits after a text, of which a mask hides some tokens."""
            gap, closed = read(text, mask), read(text[:, left], None)
            others = text.clone()
            others[0, hidden] = text[0, [1, 2, 1][: len(hidden)]]
            if not self._equal(read(others, mask), gap):
                return False  # the mask is ignored
            swapped = text[:, [0, 2, 1, *every[3:]]]
            return not self._equal(gap, closed) or self._equal(read(swapped, None), read(text, None))

        with torch.inference_mode():
            states = self.network.encode(source)
            return keeps(
                source, lambda text, mask: self.network.decode(self.network.encode(text, mask), output, mask)[:, -1]
            ) and keeps(output, lambda text, mask: self.network.decode(states, text, output_mask=mask)[:, -1])

    @staticmethod
    def _holds(check: Callable[[], bool]) -> bool:
        try:
            return check()
        except Exception as error:  # the code of another package
            _log.debug("the self-check raised %r", error)
            return False

    def _random_texts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A random source and what a decoder reads, [1, length] each."""
        size = min(self.network.vocabulary_size, self.network.source_vocabulary_size)
        special = {self.network.start, self.network.filler}
        choices = [i for i in range(min(size, 1000)) if i not in special]
        ids = np.random.default_rng(0).choice(choices, (2, 1, self._length))
        ids[1, 0, 0] = self.network.start
        return self.network.tensor(ids[0]), self.network.tensor(ids[1])

    def _equal(self, one: torch.Tensor, two: torch.Tensor) -> bool:
        return one.shape == two.shape and self.network.agree(one, two)

    def _once(self, name: str, check: Callable[[], T]) -> T:
        """The result of a check, which runs once for each module: a pair may be wrapped many times."""
        known = _results.setdefault(self.network.module, {})
        key = name, self.network.module.dtype, self.network.device, self.network.start, self.network.filler
        if key not in known:
            known[key] = check()
        result: T = known[key]
        return result

    @cached_property
    def scales(self) -> tuple[float | None, float | None]:
        return self._once("scales", self._find_scales)

    def _find_scales(self) -> tuple[float | None, float | None]:
        """What the embeddings of encoder and decoder are multiplied with before they are given to the network.

        Some families scale the embeddings of ids, but not embeddings that they are given. None if no scale gives the
        same result as ids do.
        """
        if self._length < SHORTEST:
            return None, None
        source, output = self._random_texts()
        with torch.inference_mode():
            states = self.network.encode(source)
            logits = self.network.decode(states, output)

            def find(side: int, ids: torch.Tensor, run: Any, expected: torch.Tensor) -> float | None:
                embedded = self.network.tables[side](ids)
                scales = (1.0, float(getattr(self.network.parts[side], "embed_scale", None) or 1.0))
                try:
                    results = {scale: run(embedded * scale) for scale in scales}
                except Exception:  # the code of another package: it takes no embeddings
                    return None
                best = min(scales, key=lambda scale: difference(results[scale], expected))
                return best if self._equal(results[best], expected) else None

            return (
                find(0, source, self.network.encode, states),
                find(1, output, lambda embedded: self.network.decode(states, embedded), logits),
            )
