"""A `transformers` encoder–decoder as one function: a source and the output so far in, logits out.

Source and output are one sequence, as everywhere else: the tokens of the source, the *boundary*, and the tokens of the
output. The boundary is an id of its own, the first after the vocabulary. It stands for the start token of the decoder
and shows where the source ends, however many tokens were removed before it. Embeddings have one more column, which is 1
at the boundary and 0 elsewhere.

Two calls do all the work: `encode` reads sources, `decode` reads outputs and encoded sources. No code per model family.
"""

import copy
import logging
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

from reagent.case import Ids
from reagent.errors import InputError
from reagent.models.base import Singles
from reagent.models.joint_attention import join_attention
from reagent.models.network import LOGITS_AT_ONCE, TOKENS_AT_ONCE, Network, difference, find_first_position

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

CHECKED_LENGTH = 9  # tokens of the random texts, or fewer if the network reads fewer
SHORTEST = 4  # tokens; a network that reads fewer is not checked, and read in the slow ways that are always right

T = TypeVar("T")

_log = logging.getLogger(__name__)
_results: WeakKeyDictionary[torch.nn.Module, dict[Hashable, Any]] = WeakKeyDictionary()  # of checks


class EncoderDecoderNetwork(Network):
    """Runs an encoder–decoder within the limits of memory.

    `start` is the id of the decoder's start token, `filler` an id that fills up shorter sources in a batch.
    """

    def __init__(
        self,
        module: "PreTrainedModel",
        start: int,
        filler: int,
        tokens_at_once: int = TOKENS_AT_ONCE,
        logits_at_once: int = LOGITS_AT_ONCE,
    ) -> None:
        super().__init__(module, tokens_at_once, logits_at_once)
        self.start, self.filler = start, filler
        self._selects_positions = False
        self._known_boundary: int | None = None
        self._weights_agree = False  # those of attention, with the network as it runs; not compared yet

    # --- sizes and inputs ---

    @property
    def vocabulary_size(self) -> int:
        return int(self._tables[1].weight.shape[0])

    @property
    def source_vocabulary_size(self) -> int:
        return int(self._tables[0].weight.shape[0])

    @property
    def boundary(self) -> int:
        """The id that separates source and output."""
        return self.vocabulary_size

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a source."""
        return self._limits[0]

    @property
    def output_length(self) -> int | None:
        """The largest number of tokens that the decoder reads."""
        return self._limits[1]

    @cached_property
    def _limits(self) -> tuple[int | None, int | None]:
        """The largest numbers of tokens that encoder and decoder read."""

        def find(side: str, part: Any) -> int | None:
            config = getattr(self.module.config, side, self.module.config)
            names = (f"max_{side}_position_embeddings", "max_position_embeddings")
            limits = (getattr(config, name, None) for name in names)
            known = (limit for limit in limits if isinstance(limit, int) and limit > 0)
            return next((limit - find_first_position(part) for limit in known), None)

        return find("encoder", self._parts[0]), find("decoder", self._parts[1])

    @cached_property
    def _checked_length(self) -> int:
        return min([CHECKED_LENGTH, *(limit for limit in self._limits if limit is not None)])

    @property
    def missing_inputs(self) -> frozenset[str]:
        missing = set()
        if None in self._scales:
            missing.add("inputs_embeds")
        if not self._keeps_gaps:
            missing.add("position_ids")
        return frozenset(missing)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        """Encoder and decoder."""
        module: Any = self.module
        return module.get_encoder(), module.get_decoder()

    @cached_property
    def _tables(self) -> tuple[Any, Any]:
        """The embeddings of encoder and decoder."""
        try:
            encoder, decoder = (part.get_input_embeddings() for part in self._parts)
        except AttributeError as error:
            name = type(self.module).__name__
            raise InputError(f"{name} has no embeddings of its encoder and decoder: choose another model") from error
        return encoder, decoder

    @property
    def _widths(self) -> tuple[int, int]:
        source, output = (int(table.weight.shape[1]) for table in self._tables)
        return source, output

    # --- the two calls ---

    def encode(self, source: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states [rows, length, width] of sources: ids [rows, length], or embeddings."""
        inputs: dict[str, Any] = {"inputs_embeds" if source.is_floating_point() else "input_ids": source}
        visible = torch.ones(source.shape[:2], device=source.device) if mask is None else mask
        states: torch.Tensor = self._parts[0](**inputs, attention_mask=visible.long(), return_dict=True)[0]
        return states

    def decode(
        self,
        states: torch.Tensor,
        output: torch.Tensor,
        mask: torch.Tensor | None = None,
        output_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Float32 logits after each token of `output`, [rows, length, vocabulary]; the start token comes first.

        `states` are encoded sources, of which `mask` [rows, source length] leaves some tokens visible. `output` are ids
        [rows, length] or embeddings.
        """
        inputs: dict[str, Any] = {
            "decoder_inputs_embeds" if output.is_floating_point() else "decoder_input_ids": output,
            "attention_mask": (torch.ones(states.shape[:2], device=states.device) if mask is None else mask).long(),
        }
        if output_mask is not None:
            inputs["decoder_attention_mask"] = output_mask.long()
        encoded: Any = BaseModelOutput(last_hidden_state=states)  # type: ignore[arg-type]
        encoded.router_logits = None  # read by mixtures of experts
        logits: torch.Tensor = self.module(encoder_outputs=encoded, use_cache=False, **inputs).logits
        return logits.float()

    # --- sequences of source, boundary and output, all with the boundary at the same place ---

    def split(self, sequence: Ids) -> tuple[Ids, Ids]:
        """The source, and what the decoder reads; a source of no tokens becomes one filler."""
        places = np.flatnonzero(sequence == self.boundary)
        assert len(places) == 1, "a sequence has one boundary between source and output"
        source, output = sequence[: places[0]], sequence[places[0] :].copy()
        output[0] = self.start
        return source if len(source) else np.array([self.filler]), output

    def with_boundary(self, place: int) -> "EncoderDecoderNetwork":
        """The same network for embeddings with the boundary at a known place."""
        network = copy.copy(self)
        network._known_boundary = place
        return network

    def forward(
        self,
        text: torch.Tensor,
        positions: torch.Tensor,
        *,
        mask: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        cache: "Cache | None" = None,
    ) -> torch.Tensor:
        """As `Network.forward`; equal sources are read once."""
        assert cache is None, "source and output share no keys and values"
        assert places is None, "both texts begin at their first position"
        place = self._find_boundary(text)
        source, output = text[:, :place], text[:, place:]
        source_mask, output_mask = (None, None) if mask is None else (mask[:, :place], mask[:, place:])
        if text.is_floating_point():
            states = self.encode(source[..., : self._widths[0]], source_mask)
            output = output[..., : self._widths[1]]
        else:
            output = torch.cat([torch.full_like(output[:, :1], self.start), output[:, 1:]], dim=1)
            states = self._encode_different(source, source_mask)
        in_output = positions - place
        if self.is_causal:
            return self.decode(states, output, source_mask, output_mask)[:, in_output]
        ends = [(i, int(end) + 1) for i, end in enumerate(in_output)]
        masks = [None if output_mask is None else output_mask[:, :end] for _, end in ends]
        logits = [self.decode(states, output[:, :end], source_mask, masks[i])[:, -1] for i, end in ends]
        return torch.stack(logits, dim=1)

    def _encode_different(self, source: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        keys = source if mask is None else torch.cat([source, mask.long()], dim=1)
        different, row_of = torch.unique(keys, dim=0, return_inverse=True)
        length = source.shape[1]
        return self.encode(different[:, :length], None if mask is None else different[:, length:])[row_of]

    def _find_boundary(self, text: torch.Tensor) -> int:
        if self._known_boundary is not None:
            return self._known_boundary
        marks = text[:, :, -1] == 1 if text.is_floating_point() else text == self.boundary
        (places,) = marks.all(0).nonzero(as_tuple=True)
        assert len(places) == 1, "the sequences of a batch have one boundary, at the same place"
        return int(places[0])

    def extend(self, ids: torch.Tensor, cache: Any = None) -> tuple[torch.Tensor, Any]:  # noqa: ARG002
        """As `Network.extend`, without a cache."""
        return self.forward(ids, torch.tensor([ids.shape[1] - 1]))[:, 0], None

    # --- embeddings ---

    def embed(self, ids: Ids) -> Singles | None:
        """The embeddings of source and output, [length, width + 1]; the last column marks the boundary.

        If encoder and decoder have different widths, the narrower embeddings end with zeros.
        """
        if "inputs_embeds" in self.missing_inputs:
            return None
        source, output = self.split(ids)
        place = len(ids) - len(output)
        embeddings = np.zeros((len(ids), max(self._widths) + 1), dtype=np.float32)
        for rows, side, part in ((slice(place), 0, source[:place]), (slice(place, None), 1, output)):
            embeddings[rows, : self._widths[side]] = self._embed(part, side).float().cpu().numpy()
        embeddings[place, -1] = 1
        return embeddings

    def _embed(self, ids: Ids, side: int) -> torch.Tensor:
        with torch.no_grad():
            embedded: torch.Tensor = self._tables[side](self.tensor(ids)) * self._scales[side]
            return embedded

    @cached_property
    def _scales(self) -> tuple[float | None, float | None]:
        return self._once("scales", self._find_scales)

    def _find_scales(self) -> tuple[float | None, float | None]:
        """What the embeddings of encoder and decoder are multiplied with before they are given to the network.

        Some families scale the embeddings of ids, but not embeddings that they are given. None if no scale gives the
        same result as ids do.
        """
        if self._checked_length < SHORTEST:
            return None, None
        source, output = self._random_texts()
        with torch.inference_mode():
            states = self.encode(source)
            logits = self.decode(states, output)

            def find(side: int, ids: torch.Tensor, run: Any, expected: torch.Tensor) -> float | None:
                embedded = self._tables[side](ids)
                scales = (1.0, float(getattr(self._parts[side], "embed_scale", None) or 1.0))
                try:
                    results = {scale: run(embedded * scale) for scale in scales}
                except Exception:  # the code of another package: it takes no embeddings
                    return None
                best = min(scales, key=lambda scale: difference(results[scale], expected))
                return best if self._equal(results[best], expected) else None

            return (
                find(0, source, self.encode, states),
                find(1, output, lambda embedded: self.decode(states, embedded), logits),
            )

    # --- attention ---

    def attention_layers(self, ids: Ids) -> list[Singles] | None:
        """The attention weights of each layer over the whole sequence, as joint_attention.py describes them."""
        source, output = self.split(ids)
        if len(source) + len(output) != len(ids):
            return None  # an empty source
        read, written = self.tensor(source[None]), self.tensor(output[None])
        with torch.inference_mode():
            result = self._eager(input_ids=read, decoder_input_ids=written, use_cache=False, output_attentions=True)
            if not self._weights_agree and not self._equal(result.logits, self.decode(self.encode(read), written)):
                return None
            self._weights_agree = True
        return join_attention(result, len(source), len(output))

    # --- what is checked when a model is first used ---

    @cached_property
    def is_causal(self) -> bool:
        """Whether one pass serves all targets; otherwise the later output tokens of a pass change its earlier scores.

        An error for a network that fails, or gives other scores when the source is read first.
        """
        return self._once("causal", self._check_causal)

    def _check_causal(self) -> bool:
        if self._checked_length < SHORTEST:
            return False
        name = type(self.module).__name__
        source, output = self._random_texts()
        try:
            with torch.inference_mode():
                plain = self.module(input_ids=source, decoder_input_ids=output, use_cache=False).logits.float()
                states = self.encode(source)
                whole = self.decode(states, output)
                parts = [self.decode(states, output[:, :n]) for n in (2, output.shape[1] // 2 + 1)]
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
        return self._checked_length >= SHORTEST and self._once("pads", lambda: self._holds(self._check_padding))

    def _check_padding(self) -> bool:
        source, output = self._random_texts()
        added = source.shape[1] // 3
        short = source[:, :-added]
        with torch.inference_mode():
            padded = torch.cat([short, torch.full_like(source[:, :added], self.filler)], dim=1)
            mask = torch.ones_like(source)
            mask[0, -added:] = 0
            both, masks = torch.cat([padded, source]), torch.cat([mask, torch.ones_like(mask)])
            batch = self.decode(self.encode(both, masks), output.expand(2, -1), masks)
            alone = [self.decode(self.encode(text), output) for text in (short, source)]
        return self._equal(batch, torch.cat(alone))

    @cached_property
    def _keeps_gaps(self) -> bool:
        """Whether masks hide tokens of source and output, and the others keep their positions."""
        return self._checked_length > SHORTEST and self._once("gaps", lambda: self._holds(self._check_gaps))

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
            states = self.encode(source)
            return keeps(
                source, lambda text, mask: self.decode(self.encode(text, mask), output, mask)[:, -1]
            ) and keeps(output, lambda text, mask: self.decode(states, text, output_mask=mask)[:, -1])

    @staticmethod
    def _holds(check: Callable[[], bool]) -> bool:
        try:
            return check()
        except Exception as error:  # the code of another package
            _log.debug("the self-check raised %r", error)
            return False

    def _random_texts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A random source and what a decoder reads, [1, length] each."""
        size = min(self.vocabulary_size, self.source_vocabulary_size)
        special = {self.start, self.filler}
        choices = [i for i in range(min(size, 1000)) if i not in special]
        ids = np.random.default_rng(0).choice(choices, (2, 1, self._checked_length))
        ids[1, 0, 0] = self.start
        return self.tensor(ids[0]), self.tensor(ids[1])

    def _equal(self, one: torch.Tensor, two: torch.Tensor) -> bool:
        return one.shape == two.shape and self.agree(one, two)

    def _once(self, name: str, check: Callable[[], T]) -> T:
        """The result of a check, which runs once for each module: a pair may be wrapped many times."""
        known = _results.setdefault(self.module, {})
        key = name, self.module.dtype, self.device, self.start, self.filler
        if key not in known:
            known[key] = check()
        result: T = known[key]
        return result
