"""A `transformers` encoder–decoder as one function: a source and the output so far in, logits out.

Source and output are one sequence, as everywhere else: the tokens of the source, the *boundary*, and the tokens of the
output. The boundary is an id of its own, the first after the vocabulary. It stands for the start token of the decoder
and shows where the source ends, however many tokens were removed before it. Embeddings have one more column, which is 1
at the boundary and 0 elsewhere.

Two calls do all the work: `encode` reads sources, `decode` reads outputs and encoded sources. No code per model family.
"""

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

from reagent.case import Ids
from reagent.errors import InputError
from reagent.models.base import Singles
from reagent.models.encoder_decoder_check import EncoderDecoderCheck
from reagent.models.joint_attention import join_attention
from reagent.models.network import LOGITS_AT_ONCE, TOKENS_AT_ONCE, Network, find_first_position

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


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
        self._check = EncoderDecoderCheck(self)
        self._weights_agree = False  # those of attention, with the network as it runs; not compared yet

    # --- sizes and inputs ---

    @property
    def vocabulary_size(self) -> int:
        return int(self.tables[1].weight.shape[0])

    @property
    def source_vocabulary_size(self) -> int:
        return int(self.tables[0].weight.shape[0])

    @property
    def boundary(self) -> int:
        """The id that separates source and output."""
        return self.vocabulary_size

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a source."""
        return self.limits[0]

    @property
    def output_length(self) -> int | None:
        """The largest number of tokens that the decoder reads."""
        return self.limits[1]

    @cached_property
    def limits(self) -> tuple[int | None, int | None]:
        """The largest numbers of tokens that encoder and decoder read."""

        def find(side: str, part: Any) -> int | None:
            config = getattr(self.module.config, side, self.module.config)
            names = (f"max_{side}_position_embeddings", "max_position_embeddings")
            limits = (getattr(config, name, None) for name in names)
            known = (limit for limit in limits if isinstance(limit, int) and limit > 0)
            return next((limit - find_first_position(part) for limit in known), None)

        return find("encoder", self.parts[0]), find("decoder", self.parts[1])

    @property
    def is_causal(self) -> bool:
        """Whether one pass serves all targets; an error for a network that cannot be used."""
        return self._check.is_causal

    @property
    def pads(self) -> bool:
        """Whether sources of different lengths can share a batch."""
        return self._check.pads

    @property
    def missing_inputs(self) -> frozenset[str]:
        missing = set()
        if None in self._check.scales:
            missing.add("inputs_embeds")
        if not self._check.keeps_gaps:
            missing.add("position_ids")
        return frozenset(missing)

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Encoder and decoder."""
        module: Any = self.module
        return module.get_encoder(), module.get_decoder()

    @cached_property
    def tables(self) -> tuple[Any, Any]:
        """The embeddings of encoder and decoder."""
        try:
            encoder, decoder = (part.get_input_embeddings() for part in self.parts)
        except AttributeError as error:
            name = type(self.module).__name__
            raise InputError(f"{name} has no embeddings of its encoder and decoder: choose another model") from error
        return encoder, decoder

    @property
    def _widths(self) -> tuple[int, int]:
        source, output = (int(table.weight.shape[1]) for table in self.tables)
        return source, output

    # --- the two calls ---

    def encode(self, source: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states [rows, length, width] of sources: ids [rows, length], or embeddings."""
        inputs: dict[str, Any] = {"inputs_embeds" if source.is_floating_point() else "input_ids": source}
        visible = torch.ones(source.shape[:2], device=source.device) if mask is None else mask
        states: torch.Tensor = self.parts[0](**inputs, attention_mask=visible.long(), return_dict=True)[0]
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
            embedded: torch.Tensor = self.tables[side](self.tensor(ids)) * self._check.scales[side]
            return embedded

    # --- attention ---

    def attention_layers(self, ids: Ids) -> list[Singles] | None:
        """The attention weights of each layer over the whole sequence, as joint_attention.py describes them."""
        source, output = self.split(ids)
        if len(source) + len(output) != len(ids):
            return None  # an empty source
        read, written = self.tensor(source[None]), self.tensor(output[None])
        with torch.inference_mode():
            result = self._eager(input_ids=read, decoder_input_ids=written, use_cache=False, output_attentions=True)
            if not self._weights_agree and not self.agree(result.logits, self.decode(self.encode(read), written)):
                return None
            self._weights_agree = True
        return join_attention(result, len(source), len(output))
