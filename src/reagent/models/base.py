"""The protocol of a model, and the protocols of its optional capabilities. No class here is inherited from.

Every model has `score` and `case`. Everything else that a method or metric may need is a capability: a small protocol
of its own, which a model may or may not have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.errors import CapabilityError
from reagent.explanation import Message, Token
from reagent.models.chat import Chat, Tools

Singles = npt.NDArray[np.float32]  # single precision, as networks compute


class Predictions(NamedTuple):
    """The most likely next tokens, best first."""

    ids: Ids  # [positions, k]
    logprob: Floats  # [positions, k]


@dataclass(frozen=True)
class Response:
    """What a model reports as the value of a target: log-probabilities in nats, unless it says otherwise."""

    unit: str = "nats"
    nat: float = 1.0  # the change of the value that a threshold of one nat stands for
    is_logprob: bool = True  # whether it is the log-probability of the target
    saturates: bool = False  # whether all unrelated answers have the same value, so that few units may be removed


UNKNOWN_RANK = 2**30  # the rank of a target that is not among the known ones


def response_of(model: object) -> Response:
    """What the values of a model are; models with other values than log-probabilities have an attribute `response`."""
    response: Response = getattr(model, "response", Response())
    return response


def limit_probes(model: object, wanted: int) -> int:
    """At most `wanted` probes, and no more than the model has a budget for."""
    affordable = model.affordable_probes if isinstance(model, HasBudget) else None
    return wanted if affordable is None else max(1, min(wanted, affordable))


@dataclass
class Meter:
    """Counts the work of a model: one forward pass is one sequence, however batches were cut."""

    forward_passes: int = 0
    tokens: int = 0
    requests: int = 0  # to a server
    cached: int = 0  # responses from the cache, each in place of a request
    censored: int = 0  # log-probabilities with only an upper bound: the server lists only the likeliest tokens

    def add(self, sequences: int, length: int) -> None:
        self.forward_passes += sequences
        self.tokens += sequences * length


class Model(Protocol):
    """The interface of every model."""

    meter: Meter

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id, revision, dtype, backend."""
        ...

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        """Split prompt and target into tokens; with no target, the model's own greedy continuation."""
        ...

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        """The log-probability and rank of `targets[j]` at `positions[j]`, given everything before it.

        `sequences` is [batch, length], all of one length. One forward pass per sequence serves all targets.
        """
        ...


@runtime_checkable
class ScoresRagged(Protocol):
    """Scores sequences of different lengths in one call; `ragged.score_ragged` serves all other models."""

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        """As `Model.score`, of sequences of different lengths.

        `positions` is [batch, targets]: `targets[j]` is predicted from the first `positions[i, j]` tokens of
        sequence i. There is at least one token before each position, and the tokens from it on do not matter.
        """
        ...


@runtime_checkable
class PredictsTokens(Protocol):
    """Predicts next tokens (needed by the replacers `self` and `infill`)."""

    def predict(self, sequence: Ids, k: int) -> Predictions:
        """For each position 1 … length-1 of `sequence`, the `k` likeliest tokens given everything before it.

        Special tokens are left out. Fewer than `k` are returned if the vocabulary is smaller.
        """
        ...


@runtime_checkable
class HasChatTemplate(Protocol):
    """Has a chat template (needed by chats)."""

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()) -> Case:
        """The case of an answer to `messages`; the tokens that the template adds are protected.

        `tools` are definitions that the template shows to the model; without any, the argument is left out.
        """
        ...


@runtime_checkable
class Streams(Protocol):
    """Streams its answer (used by live views)."""

    def with_stream(self, on_text: Callable[[str], None]) -> Model:
        """The same model, which calls `on_text` with the text generated so far after each new token.

        The text ends with a whole character.
        """
        ...


@runtime_checkable
class HasControlTokens(Protocol):
    """Reads control tokens in a text (needed by `control_tokens`)."""

    def find_control_tokens(self, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> list[int]:
        """Indices of the control tokens that are written out in a text, or in the messages of a chat."""
        ...

    def without_control_tokens(self) -> Model:
        """The same model, which reads control tokens in prompts, messages and targets as text."""
        ...


@runtime_checkable
class RepeatsRequests(Protocol):
    """Repeats a request to a server, whose response may differ (used by api/noise.py)."""

    def score_again(self, repetition: int, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        """As `Model.score`, from the response to the same request sent anew; `repetition` is its number, from 1."""
        ...


@runtime_checkable
class HasVocabulary(Protocol):
    """Has a known vocabulary."""

    @property
    def ordinary_ids(self) -> Ids:
        """Ids of tokens that are printable text and not special."""
        ...


@runtime_checkable
class HasTokenTexts(HasVocabulary, Protocol):
    """Has a vocabulary with known texts (needed by the replacers `roberta` and `pos`)."""

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        """The text of each of `ordinary_ids` inside a sentence: a leading space belongs to it."""
        ...


@runtime_checkable
class Differentiable(Protocol):
    """Gives gradients (needed by the methods `input_x_gradient`, `integrated_gradients` and `gradient_shap`)."""

    def embed(self, ids: Ids) -> Singles | None:
        """The embedding of each token, [length, width]; None if this network takes tokens only."""
        ...

    def values(self, case: Case, embeddings: Singles, batch: int | None = None) -> Floats:
        """The value of each output unit of `case` when the model reads `embeddings`; [points, outputs].

        `embeddings` are [points, length, width], of everything before the last token that is scored. As in
        `Case.score_outputs`, the log-probability of a phrase is a sum, and a target with a contrast has log-odds.
        At most `batch` points are computed at once, and never more than fit into memory.
        """
        ...

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], batch: int | None = None) -> Singles:
        """The gradient of the values of the output units `targets`; [points, targets, length, width].

        One forward pass for each point serves all targets. There is one backward pass for each target; the meter does
        not count those.
        """
        ...


@runtime_checkable
class HasAttention(Protocol):
    """Shows its attention (needed by the methods `attention`, `attention_last` and `attention_rollout`)."""

    def attentions(self, ids: Ids) -> list[Singles] | None:
        """The attention weights of each layer, from each position to each other, [heads, length, length].

        None if this network has no attention weights.
        """
        ...


@runtime_checkable
class HasDecoderLayers(Protocol):
    """Has decoder layers of a known form (needed by the methods `ifr`, `value_zeroing` and `attn_lrp`)."""

    @property
    def has_decoder_layers(self) -> bool:
        """Whether this network has layers in the form of LLaMA or of GPT-2, whose parts add up as expected."""
        ...

    def contributions(self, ids: Ids) -> list[Singles] | None:
        """For each layer, what each position takes from each token in attention, [length, length]; rows sum to 1.

        None if this text is too long for it.
        """
        ...

    def value_zeroing(self, ids: Ids) -> list[Singles]:
        """For each layer, how much each position changes without the value of each token; rows sum to 1."""
        ...

    def relevance(self, case: Case, targets: Sequence[int]) -> Singles:
        """The relevance of each token by AttnLRP for the logit of each of the output units `targets`."""
        ...


@runtime_checkable
class HasDistributions(Protocol):
    """Gives whole distributions (needed by the Hellinger distance of `comprehensiveness` and `sufficiency`)."""

    def rows_at_once(self, length: int, positions: int) -> int:
        """The largest number of sequences of one call: all their distributions are held in memory."""
        ...

    def after_tokens(self, sequences: Ids, positions: Ids) -> Singles:
        """Log-probabilities of every token at `positions`, given all before; [batch, positions, vocabulary].

        As in `Model.score`, `sequences` are [batch, length], and position 5 is predicted from tokens 0 … 4.
        """
        ...


@runtime_checkable
class HasEmbeddings(HasDistributions, Protocol):
    """Reads embeddings and gives whole distributions (needed by soft_ns, soft_nc, pi_soft_ns and pi_soft_nc)."""

    def embed(self, ids: Ids) -> Singles:
        """The input embedding of each token, [length, width]."""
        ...

    def after_embeddings(self, embeddings: Singles, positions: Ids) -> Singles:
        """As `after_tokens`, when the model reads `embeddings` [batch, length, width]."""
        ...


@runtime_checkable
class HasAttentionMask(Protocol):
    """Takes an attention mask and positions (needed by masking)."""

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
        """As `Model.score`, of the tokens that `keep` [batch, length] leaves visible.

        Hidden tokens get no attention; all others keep their positions, so that a gap stays a gap. The token before
        each of `positions` must be visible, since the prediction is read off it.
        """
        ...


@runtime_checkable
class HasSamplingNoise(Protocol):
    """Samples its answers, so that values have standard errors (used for the errors of effects)."""

    def sampling_stderr(self, values: Floats, unchanged: bool = False) -> Floats:
        """The standard errors of these values, of perturbed prompts or of the unchanged one."""
        ...


@runtime_checkable
class HasBudget(Protocol):
    """Limits the number of probes (used by methods without a fixed number of probes)."""

    @property
    def affordable_probes(self) -> int | None:
        """The number of probes that may still be made; None without a limit."""
        ...


@runtime_checkable
class HidesPrefix(Protocol):
    """Hides parts of a text that it has read already (used by screening.py)."""

    def score_hidden(self, sequence: Ids, hidden: Mask, positions: Ids, targets: Ids) -> TargetScores | None:
        """As `Model.score` of one sequence, in which each row of `hidden` [rows, prefix] hides some of the prefix.

        The prefix is read once. The tokens after it are read again for each row, with no attention to the hidden
        tokens of the prefix. The other tokens of the prefix have read the hidden ones, so that a row approximates
        `HasAttentionMask.score_masked` at a small part of its cost. All `positions` come after the prefix. None if
        this network has no plain keys and values, or takes no attention mask and positions.
        """
        ...


# --- checks before any work starts ---


def require(model: Model, capability: type, wanted_by: str) -> None:
    """Raise an error if `model` lacks the capability that `wanted_by` needs."""
    if not isinstance(model, capability):
        raise capability_error(model, capability, wanted_by)


def require_decoder_layers(model: Model, wanted_by: str) -> HasDecoderLayers:
    """`model` if its network has layers of a known form; otherwise an error."""
    if isinstance(model, HasDecoderLayers) and model.has_decoder_layers:
        return model
    raise capability_error(model, HasDecoderLayers, wanted_by)


def capability_error(model: Model, capability: type, wanted_by: str) -> CapabilityError:
    """The error for a `model` that lacks the capability that `wanted_by` needs."""
    what = (capability.__doc__ or capability.__name__).split(" (")[0].rstrip(".")
    what = what[0].lower() + what[1:]
    kind = wanted_by.split()[0]
    instead = kind if kind in ("replacer", "metric") else "method"
    return CapabilityError(
        f"{wanted_by} needs a model that {what}, which {model.info['id']!r} "
        f"({model.info['backend']}) does not: choose another model or another {instead}"
    )


def require_logprobs(model: Model, wanted_by: str) -> None:
    """Raise an error if the values of `model` are no log-probabilities."""
    response = response_of(model)
    if not response.is_logprob:
        raise CapabilityError(
            f"{wanted_by} needs log-probabilities, and {model.info['id']!r} is measured by {response.unit}: "
            "leave out `score`, or ask for another explanation"
        )


def has_chat_template(model: Model) -> bool:
    """Whether `model` can be given a chat; a server decides that itself."""
    tokenizer = getattr(model, "tokenizer", None)
    return isinstance(model, HasChatTemplate) and (tokenizer is None or bool(getattr(tokenizer, "chat_template", None)))


def find_distributions(model: Model) -> HasDistributions | None:
    """`model` if it gives whole distributions, otherwise None."""
    return model if isinstance(model, HasDistributions) else None


def find_embeddings(model: Model) -> HasEmbeddings | None:
    """`model` if it reads embeddings, otherwise None."""
    return model if isinstance(model, HasEmbeddings) and "inputs_embeds" not in _missing_inputs(model) else None


def require_attention_mask(model: Model, wanted_by: str) -> HasAttentionMask:
    """`model` if it takes an attention mask and positions; otherwise an error that names both."""
    needed = {"attention_mask", "position_ids"}
    missing = sorted(needed & _missing_inputs(model) if isinstance(model, HasAttentionMask) else needed)
    if isinstance(model, HasAttentionMask) and not missing:
        return model
    raise CapabilityError(
        f"{wanted_by} needs a model that takes an attention mask and positions, and {model.info['id']!r} "
        f"({model.info['backend']}) does not take {' and '.join(missing)}: choose another model, or replace instead"
    )


def _missing_inputs(model: Model) -> frozenset[str]:
    """The optional inputs that the network of this model does not take, though its class has methods for them."""
    missing: frozenset[str] = getattr(model, "missing_inputs", frozenset())
    return missing
