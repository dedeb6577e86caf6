"""The texts of an encoder–decoder as tokens: the source, what its decoder starts with, and the target.

Source and target are texts of their own, each with its own special tokens: end tokens, language codes. A tokenizer may
read targets in another way than sources.
"""

import copy
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.tokenization import Span, TokenizerCodec

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SHOWN_CODES = 8  # of languages, in error messages


class SourceAndTarget:
    """The tokenizer of an encoder–decoder, and the tokens that its decoder starts with.

    `languages` are codes of the languages of source and target. They come before those of the network's settings.
    """

    def __init__(
        self,
        network: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        name: str,
        languages: tuple[str, str] | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer = tokenizer if languages is None else _with_languages(tokenizer, languages, name)
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
        if languages is not None:
            start = start if code is None else code
            forced = None
        if not has_target and ((start is None and code is not None) or (forced is None and around.before)):
            raise InputError(
                f"{name!r} translates between several languages: give `languages` of source and target, "
                f"as its tokenizer names them ({_some_codes(tokenizer)})"
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


def _with_languages(
    tokenizer: "PreTrainedTokenizerBase", languages: tuple[str, str], name: str
) -> "PreTrainedTokenizerBase":
    """A copy of the tokenizer that reads sources and targets in these languages."""
    if not hasattr(tokenizer, "src_lang"):
        raise InputError(f"the tokenizer of {name!r} has no languages: leave `languages` out")
    own: Any = copy.deepcopy(tokenizer)
    for language in languages:
        if language not in _codes(own):
            close = get_close_matches(language, _codes(own), n=1)
            guess = f", did you mean {close[0]!r}?" if close else "."
            raise InputError(f"{name!r} has no language {language!r}{guess} It has: {_some_codes(own)}")
    own.src_lang, own.tgt_lang = languages
    return own  # type: ignore[no-any-return]


def _codes(tokenizer: Any) -> list[str]:
    """The special tokens that are codes of languages, as `src_lang` takes them."""
    named = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token, tokenizer.pad_token, tokenizer.mask_token)
    return [token.strip("_") for token in tokenizer.all_special_tokens if token not in {*named, tokenizer.sep_token}]


def _some_codes(tokenizer: Any) -> str:
    codes = _codes(tokenizer)
    return ", ".join(codes[:SHOWN_CODES]) + (", …" if len(codes) > SHOWN_CODES else "")


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
