"""What a model is asked. A backend is anything that answers; no class here is inherited from.

The one question of the seam is `Model.score`. Everything else a method may want is a capability: a
small protocol of its own, which a model may or may not have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reagent.case import Case, Floats, Ids, TargetScores
from reagent.errors import CapabilityError
from reagent.models.chat import Chat

Singles = npt.NDArray[np.float32]  # what comes out of a network


class Predictions(NamedTuple):
    """The most likely next tokens, best first."""

    ids: Ids  # [positions, k]
    logprob: Floats  # [positions, k]


@dataclass
class Meter:
    """Counts what a model was asked: one forward pass is one sequence, however batches were cut."""

    forward_passes: int = 0
    tokens: int = 0
    requests: int = 0  # to a server
    censored: int = 0  # answers of which only a bound is known, since the server lists the likeliest tokens only

    def add(self, sequences: int, length: int) -> None:
        self.forward_passes += sequences
        self.tokens += sequences * length


class Model(Protocol):
    """What every backend can do."""

    meter: Meter

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id, revision, dtype, backend."""
        ...

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        """Split prompt and target into tokens; with no target, the model's own greedy continuation."""
        ...

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        """How likely is `targets[j]` at `positions[j]`, given everything before it?

        `sequences` is [batch, length], all of one length. One pass per sequence answers for all targets.
        """
        ...


@runtime_checkable
class PredictsTokens(Protocol):
    """Names its most likely next tokens (needed by the replacers `self` and `infill`)."""

    def predict(self, sequence: Ids, k: int) -> Predictions:
        """For each position 1 … length-1 of `sequence`, the `k` likeliest tokens given what stands before.

        Special tokens are left out. Fewer than `k` come back where the vocabulary is smaller.
        """
        ...


@runtime_checkable
class HasChatTemplate(Protocol):
    """Has a chat template (needed by --chat)."""

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10) -> Case:
        """The case of an answer to `messages`; what the template adds is protected."""
        ...


@runtime_checkable
class Streams(Protocol):
    """Streams its answer while it is made (for those who watch)."""

    def streaming(self, say: Callable[[str], None]) -> Model:
        """The same model, which says the text of its answer so far after each token that it generates."""
        ...


@runtime_checkable
class HasVocabulary(Protocol):
    """Knows which of its tokens are ordinary text."""

    @property
    def ordinary_ids(self) -> Ids:
        """Ids of tokens that are printable text and not special."""
        ...


@runtime_checkable
class HasTokenTexts(HasVocabulary, Protocol):
    """Spells its tokens (needed by the replacers `roberta` and `pos`)."""

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        """The text of each of `ordinary_ids` as it stands inside a text: a leading space belongs to it."""
        ...


@runtime_checkable
class Differentiable(Protocol):
    """Gives gradients (needed by the methods `input_x_gradient`, `integrated_gradients` and `gradient_shap`)."""

    def embed(self, ids: Ids) -> Singles | None:
        """The embedding of each token, [length, width]; None if this one network can be given tokens only."""
        ...

    def values(self, case: Case, embeddings: Singles, batch: int | None = None) -> Floats:
        """What the model makes of each output unit of `case` when it reads `embeddings`; [points, outputs].

        `embeddings` are [points, length, width], of what stands before the last token that is asked for. As in
        `Case.answers`, the log-probability of a phrase is a sum, and a target with a contrast has log-odds.
        At most `batch` points are computed at once, and never more than the model has room for.
        """
        ...

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], batch: int | None = None) -> Singles:
        """The gradient of the values of the output units `targets`; [points, targets, length, width].

        One forward pass for each point serves all targets; the meter does not count the backward passes, of
        which there is one for each target.
        """
        ...


@runtime_checkable
class HasAttention(Protocol):
    """Shows its attention (needed by the methods `attention`, `attention_last` and `attention_rollout`)."""

    def attentions(self, ids: Ids) -> list[Singles] | None:
        """For each layer how much each position attends to each, [heads, length, length].

        None if this one network has no attention to show.
        """
        ...


def require(model: Model, capability: type, wanted_by: str) -> None:
    """Stop before any work if `model` lacks what `wanted_by` needs."""
    if not isinstance(model, capability):
        raise lacking(model, capability, wanted_by)


def lacking(model: Model, capability: type, wanted_by: str) -> CapabilityError:
    """What to say when `model` turns out to lack what `wanted_by` needs."""
    what = (capability.__doc__ or capability.__name__).split(" (")[0].rstrip(".").lower()
    return CapabilityError(
        f"{wanted_by} needs a model that {what}, which {model.info['id']!r} "
        f"({model.info['backend']}) does not: choose another model or another method"
    )
