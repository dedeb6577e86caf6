"""The keys of a GGUF header that belong to an architecture; each one is read, checked or refused."""

from collections.abc import Mapping
from typing import Any

from reagent.errors import InputError
from reagent.models.gguf.header import Header

ALTERNATIVE = "give the model's own folder, or serve the file with llama.cpp and give the URL of the server"
_REQUIRED: Any = object()
# Without effect on probabilities: the vocabulary is counted in the embeddings, the layout is a remark. Each
# architecture requires one of the two epsilons and does not read the other.
_METADATA = (
    "vocab_size",
    "tensor_data_layout",
    "rope.scaling.finetuned",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
)
_OTHER_INPUTS = ("vision.", "audio.", "mm.")  # only texts are given to the model
# Read by llama.cpp for every architecture; here only the values that change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "pooling_type": (0,),
}


class Keys:
    """The keys `{architecture}.*` of a header. What is read is noted, so that the rest can be refused."""

    def __init__(self, header: Header) -> None:
        self.header = header
        prefix = f"{header.architecture}."
        self._values = {key[len(prefix) :]: value for key, value in header.values.items() if key.startswith(prefix)}
        self._unread = set(self._values)

    def __call__(self, name: str, default: Any = _REQUIRED) -> Any:
        self._unread.discard(name)
        value = self._values.get(name, default)
        if value is _REQUIRED:
            raise InputError(f"{str(self.header.path)!r} lacks the key {self.full(name)!r}: convert the model again")
        if isinstance(value, tuple):  # one value for each layer
            if len(set(value)) != 1:
                raise self.refusal(name, value)
            return value[0]
        return value

    def layers(self, name: str) -> tuple[Any, ...] | None:
        """A key with one value for each layer, if it is there in this form."""
        value = self._values.get(name)
        if not isinstance(value, tuple):
            return None
        self._unread.discard(name)
        return value

    def expect(self, name: str, *allowed: Any) -> None:
        """Refuse the key unless it is absent or has a value that is computed anyway."""
        value = self(name, allowed[0])
        if not any(abs(value - other) <= 1e-6 for other in allowed):
            raise self.refusal(name, value)

    def refuse_unread(self) -> None:
        self._unread = {name for name in self._unread if name not in _METADATA and not name.startswith(_OTHER_INPUTS)}
        for name in self._unread & set(_NEUTRAL):
            self.expect(name, *_NEUTRAL[name])
        if self._unread:
            name = min(self._unread)
            raise self.refusal(name, self._values[name])

    def refusal(self, name: str, value: Any) -> InputError:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
        return InputError(
            f"{str(self.header.path)!r} has {self.full(name)} = {shown}, which transformers cannot compute for this "
            f"architecture: {ALTERNATIVE}"
        )

    def full(self, name: str) -> str:
        return f"{self.header.architecture}.{name}"

    def has(self, tensor: str) -> bool:
        """Whether the file has a tensor, in the first block if it is one of a block."""
        return tensor in self.header.tensors or f"blk.0.{tensor}" in self.header.tensors

    # --- sizes that several architectures share ---

    @property
    def width(self) -> int:
        return int(self("embedding_length"))

    @property
    def heads(self) -> int:
        return int(self("attention.head_count"))

    @property
    def head(self) -> int:
        """The size of a head; llama.cpp allows another one for values, transformers does not."""
        size = int(self("attention.key_length", self.width // self.heads))
        self.expect("attention.value_length", size)
        return size

    @property
    def context(self) -> int:
        return int(self("context_length"))

    @property
    def vocabulary(self) -> int:
        return self.header.tensors["token_embd.weight"].shape[0] if self.has("token_embd.weight") else 0
