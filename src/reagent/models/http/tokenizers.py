"""Tokenizers of a model on a server: a tokenizer on this machine, or the /tokenize endpoint of the server."""

import re
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from reagent.errors import FileError, InputError, ServerError
from reagent.models.http.client import Client
from reagent.models.http.responses import TokenLogprob, as_bytes, as_count, visible
from reagent.models.tokenization import REPLACEMENT, Span, TokenizerCodec, spans_by_decoding

_SPARE_TOKENS = 16  # special tokens around a text; normalization makes at most a few tokens of each byte
_SPECIAL = re.compile(r"<[|/]?[\w|▁ .-]+[|]?>|\[[A-Z_]+\]")

# Names of control tokens that are not pieces of ordinary text, as <p> may be.
_CONTROL = re.compile(r"<[|｜][^<>]+[|｜]>|</?(s|bos|eos|pad|unk|think)>|<(start|end)_of_turn>|\[/?INST\]")


def looks_special(text: str) -> bool:
    """Whether a text looks like the name of a special token.

    >>> [looks_special(text) for text in ("<|im_end|>", "</s>", "[PAD]", "<", " a")]
    [True, True, True, False, False]
    """
    return _SPECIAL.fullmatch(text) is not None


class TextCodec(Protocol):
    """A codec (see `tokenization.Codec`) that also knows the text of each token, and the ids of tokens in responses."""

    @property
    def special_ids(self) -> Container[int]: ...
    @property
    def token_texts(self) -> dict[int, str]: ...
    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def name(self, token: int) -> str: ...
    def token_text(self, token: int) -> str | None:
        """The text of a token as a server that does not report ids writes it."""
        ...

    def find_id(self, listed: TokenLogprob) -> int | None:
        """The id of a listed token, if it is known."""
        ...


class LocalCodec(TokenizerCodec):
    """A tokenizer on this machine."""

    def token_text(self, token: int) -> str | None:
        return self.token_texts.get(token)

    def find_id(self, listed: TokenLogprob) -> int | None:
        if listed.id is None:
            return self._ids_by_text.get(listed.text)
        return listed.id if listed.id < len(self.tokenizer) else None

    @cached_property
    def _ids_by_text(self) -> dict[str, int]:
        # Of two tokens with the same text the later wins: the earlier is a byte token.
        return {text: i for i, text in self.token_texts.items()}


class ServerCodec:
    """The tokenizer on the server: /tokenize, and /detokenize if the former returns no texts.

    It knows the tokens that it has seen; with `list_vocabulary`, all tokens of the server.
    """

    def __init__(
        self, client: Client, model: str, list_vocabulary: Callable[[], Sequence[TokenLogprob]] | None = None
    ) -> None:
        self.client, self.model, self.list_vocabulary = client, model, list_vocabulary
        self.special_ids: set[int] = set()
        self._raw: dict[int, bytes] = {}

    @property
    def token_texts(self) -> dict[int, str]:
        list_vocabulary, self.list_vocabulary = self.list_vocabulary, None  # once is enough
        for listed in () if list_vocabulary is None else list_vocabulary():
            self.find_id(listed)
        texts = sorted(self._raw.items())
        return {i: raw.decode("utf-8", "replace") for i, raw in texts if i not in self.special_ids}

    def token_text(self, token: int) -> str | None:
        return self.decode([token])

    def find_id(self, listed: TokenLogprob) -> int | None:
        if listed.id is None:
            ids = self._tokenize(listed.text, False)
            return ids[0] if len(ids) == 1 else None
        has_text = bool(listed.text) or listed.raw is not None
        if has_text and listed.id not in self._raw:
            self._raw[listed.id] = listed.text.encode() if listed.raw is None else listed.raw
        if listed.is_special or looks_special(listed.text):
            self.special_ids.add(listed.id)
        return listed.id

    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]:
        plain = self._tokenize(text, False)
        whole = self._tokenize(text, True) if special else plain
        start = next((k for k in range(len(whole)) if whole[k : k + len(plain)] == plain), 0)
        self.special_ids.update(whole[:start])
        decoded = self.decode(plain)
        self.special_ids.update(i for i in plain if _CONTROL.fullmatch(self._raw[i].decode("utf-8", "replace").strip()))
        extra = len(decoded) - len(text)  # some tokenizers put a space before every text
        if extra < 0 or not decoded.endswith(text):
            raise InputError(
                f"the tokens of the server do not add up to the text: {decoded[:40]!r} … instead of {text[:40]!r} …; "
                "give its `tokenizer`"
            )
        spans = [(max(0, a - extra), max(0, b - extra)) for a, b in spans_by_decoding(self.decode, [], plain)]
        return whole[:start] + plain, [(0, 0)] * start + spans

    def decode(self, ids: Sequence[int]) -> str:
        self._request_texts(ids)
        if any(REPLACEMENT.encode() in self._raw[i] for i in ids):  # the bytes of a partial character are unknown
            (text,) = self.client.request_all(
                "/detokenize", [self._detokenize_request(ids)], _parse_text, counted=False
            )
            return text
        return b"".join(self._raw[i] for i in ids).decode("utf-8", "replace")

    def name(self, token: int) -> str:
        return self.decode([token]) or f"<{token}>"

    def _tokenize(self, text: str, special: bool) -> list[int]:
        if not text:
            return []
        (tokens,) = self.client.request_all(
            "/tokenize", [tokenize_request(self.model, text, special)], parse_tokens, counted=False
        )
        if len(tokens) > 8 * len(text.encode()) + _SPARE_TOKENS:
            raise ServerError(f"the /tokenize endpoint of the server returned {len(tokens)} tokens for {text[:40]!r} …")
        self._raw |= {token: raw for token, raw in tokens if raw is not None and token not in self._raw}
        return [token for token, _ in tokens]

    def _request_texts(self, ids: Sequence[int]) -> None:
        """Request the texts of tokens that are not known yet."""
        unknown = [i for i in dict.fromkeys(ids) if i not in self._raw]
        if not unknown:
            return
        before = self._tokenize("a", False)  # decoded alone, some tokens lose their leading space
        bodies = [self._detokenize_request(tokens) for tokens in (before, *([*before, i] for i in unknown))]
        start, *texts = self.client.request_all("/detokenize", bodies, _parse_text, counted=False)
        self._raw |= {i: text[len(start) :].encode() for i, text in zip(unknown, texts, strict=True)}

    def _detokenize_request(self, ids: Sequence[int]) -> dict[str, Any]:
        return {"model": self.model, "tokens": list(ids)}


def tokenize_request(model: str, text: str, special: bool) -> dict[str, Any]:
    """One request with the field names of vLLM (prompt), llama.cpp (content) and TGI (inputs)."""
    return {
        "model": model, "prompt": text, "content": text, "inputs": text,
        "add_special_tokens": special, "add_special": special, "with_pieces": True,
    }  # fmt: skip


def parse_tokens(data: Any) -> list[tuple[int, bytes | None]]:
    """Ids, with their bytes if the server reports them.

    >>> parse_tokens({"tokens": [{"id": 5, "piece": " a"}]}), parse_tokens({"tokens": [5]}), parse_tokens([{"id": 5}])
    ([(5, b' a')], [(5, None)], [(5, None)])
    """

    def raw(piece: Any) -> bytes | None:
        return piece.encode() if isinstance(piece, str) else None if piece is None else as_bytes(piece)

    try:
        entries = data["tokens"] if isinstance(data, dict) else data
        return [
            (as_count(entry), None)
            if isinstance(entry, int)
            else (as_count(entry["id"]), raw(entry.get("piece", entry.get("text"))))
            for entry in entries
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerError(
            f"the /tokenize endpoint of the server returned an unknown format ({visible(repr(error))})"
        ) from error


def _parse_text(data: Any) -> str:
    try:
        text = data["prompt"] if "prompt" in data else data["content"]
        return text if isinstance(text, str) else _refuse_text(text)
    except (KeyError, TypeError) as error:
        raise ServerError(
            f"the /detokenize endpoint of the server returned an unknown format ({visible(repr(error))})"
        ) from error


def _refuse_text(value: Any) -> str:
    raise TypeError(f"text expected, got {type(value).__name__}")


def load_tokenizer(source: str | Path) -> LocalCodec:
    """The tokenizer of a bundled model, a folder or a hub id, without its network."""
    from reagent.models import _transformers, bundled

    name = str(source)
    where: str | Path = bundled.fetch(name) if name in bundled.MODELS else Path(name).expanduser()
    if isinstance(where, Path) and not where.is_dir():
        if _transformers.looks_like_path(name) or where.exists():
            raise FileError(f"there is no folder {name!r} with a tokenizer: give a folder, a hub id or 'smollm2'")
        where = name
    import transformers

    try:
        with _transformers.quiet_transformers():
            return LocalCodec(transformers.AutoTokenizer.from_pretrained(where, trust_remote_code=False))
    except Exception as error:  # transformers raises anything from OSError to KeyError
        raise InputError(
            f"cannot load the tokenizer {name!r}: {_transformers.shorten_message(error)}; give a folder or a hub id"
        ) from error
