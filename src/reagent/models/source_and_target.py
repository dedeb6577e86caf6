"""The texts of an encoder–decoder as tokens: the source, what its decoder starts with, and the target.

Source and target are texts of their own, each with its own special tokens: end tokens, language codes. A tokenizer may
read targets in another way than sources.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.tokenization import Span, TokenizerCodec

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class SourceAndTarget:
    """The tokenizer of an encoder–decoder, and the tokens that its decoder starts with."""

    def __init__(self, network: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", name: str) -> None:
        self.name = name
        self.codec = TokenizerCodec(tokenizer)
        # Without a target language, a tokenizer of several languages reads targets like sources.
        has_target = not hasattr(tokenizer, "src_lang") or getattr(tokenizer, "tgt_lang", None) is not None
        target_tokenizer = cast("PreTrainedTokenizerBase", _TargetTokenizer(tokenizer))
        self.target_codec = TokenizerCodec(target_tokenizer) if has_target else self.codec
        settings = (network.generation_config, network.config, getattr(network.config, "decoder", None))
        self.end_ids = _ids(_first(settings, "eos_token_id"), tokenizer.eos_token_id)
        around = _read(self.target_codec, "a", name)
        # The labels of mBART end with a language code, which becomes the start token.
        code = around.after[-1] if around.after and around.after[-1] not in self.end_ids else None
        start = _first(settings, "decoder_start_token_id")
        forced = _first(settings, "forced_bos_token_id")
        if not has_target and ((start is None and code is not None) or (forced is None and around.before)):
            raise InputError(
                f"{name!r} translates between several languages: set src_lang and tgt_lang of its tokenizer, and give "
                "the model as a (model, tokenizer) pair"
            )
        start = next((i for i in (start, code, _first(settings, "bos_token_id")) if i is not None), None)
        if start is None:
            raise InputError(
                f"{name!r} has no start token for its decoder: set decoder_start_token_id in its generation config"
            )
        self.start = int(start)
        before = [] if around.before == [self.start] else around.before
        # Tokens that the decoder reads between the start token and the output.
        self.prefix: list[int] = before if forced is None else [int(forced)]

    def tokenize_source(self, text: str) -> tuple[Token, ...]:
        """The tokens of a source; special tokens are protected."""
        source = _read(self.codec, text, self.name)
        end = len(text)
        spans = [*((0, 0) for _ in source.before), *source.spans, *((end, end) for _ in source.after)]
        return tuple(
            Token((i,), text[a:b] if a < b else self.codec.name(i), a, b, a == b or i in self.codec.special_ids)
            for i, (a, b) in zip([*source.before, *source.ids, *source.after], spans, strict=True)
        )

    def tokenize_target(self, text: str) -> tuple[Token, ...]:
        """The tokens of a target, without special tokens around it."""
        if not text:
            raise InputError("`target` is empty: give the text of the output, or leave it out")
        target = _read(self.target_codec, text, self.name)
        return tuple(
            Token((i,), text[a:b] if a < b else self.codec.name(i), a, b)
            for i, (a, b) in zip(target.ids, target.spans, strict=True)
        )


class _TargetTokenizer:
    """A tokenizer that reads texts as targets."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str, **options: Any) -> Any:
        return self._tokenizer(text_target=text, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __len__(self) -> int:
        return len(self._tokenizer)


class _Text(NamedTuple):
    """A text as ids with spans, and the special tokens around it."""

    before: list[int]
    ids: list[int]
    spans: list[Span]
    after: list[int]


def _read(codec: TokenizerCodec, text: str, name: str) -> _Text:
    whole = list(codec.tokenizer(text, verbose=False)["input_ids"])
    ids, spans = codec.encode(text, special=False)
    for begin in range(len(whole) - len(ids) + 1):
        if ids and whole[begin : begin + len(ids)] == ids:
            return _Text(whole[:begin], ids, spans, whole[begin + len(ids) :])
    raise InputError(f"the tokenizer of {name!r} gives no tokens for {text!r}: give another text")


def _first(settings: Sequence[Any], name: str) -> Any:
    return next((value for one in settings if (value := getattr(one, name, None)) is not None), None)


def _ids(*values: Any) -> frozenset[int]:
    ids: set[int] = set()
    for value in values:
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
    return frozenset(ids)
