"""Between text and the model's own ids: by a tokenizer on this machine, or by the server's."""

import re
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from reagent.errors import FileError, InputError, ServerError
from reagent.models.http.client import Client
from reagent.models.http.responses import Listed
from reagent.models.tokenization import TokenizerCodec
from reagent.models.tokens import Span, spans_by_decoding

_SPECIAL = re.compile(r"<[|/]?[\w|▁ .-]+[|]?>|\[[A-Z_]+\]")


_LOST = "\N{REPLACEMENT CHARACTER}".encode()


def looks_special(text: str) -> bool:
    """Whether it is spelled as special tokens usually are.

    >>> [looks_special(text) for text in ("<|im_end|>", "</s>", "[PAD]", "<", " a")]
    [True, True, True, False, False]
    """
    return _SPECIAL.fullmatch(text) is not None


class SpellingCodec(Protocol):
    """A codec as `reading` knows it, which also spells its tokens and takes in what a server lists."""

    @property
    def special_ids(self) -> Container[int]: ...
    @property
    def spelled(self) -> dict[int, str]: ...
    def encode(self, text: str, special: bool) -> tuple[list[int], list[Span]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def name(self, token: int) -> str: ...
    def spell(self, token: int) -> str | None:
        """How a server writes a token, where it names none by its id."""
        ...

    def learn(self, listed: Listed) -> int | None:
        """The id of a listed token, if it can be known."""
        ...


class LocalCodec(TokenizerCodec):
    """A tokenizer on this machine."""

    def spell(self, token: int) -> str | None:
        return self.spelled.get(token)

    def learn(self, listed: Listed) -> int | None:
        return self._by_text.get(listed.text) if listed.id is None else listed.id

    @cached_property
    def _by_text(self) -> dict[str, int]:
        # Of two tokens with one spelling the later wins: the other is a byte, which tokenizers list first.
        return {text: i for i, text in self.spelled.items()}


class ServerCodec:
    """The tokenizer on the server: /tokenize, and /detokenize where the former tells no text.

    It knows the tokens that it has met; on a server that lists its whole vocabulary (`whole`), all of them.
    """

    def __init__(self, client: Client, model: str, whole: Callable[[], Sequence[Listed]] | None = None) -> None:
        self.client, self.model, self.whole = client, model, whole
        self.special_ids: set[int] = set()
        self._raw: dict[int, bytes] = {}

    @property
    def spelled(self) -> dict[int, str]:
        whole, self.whole = self.whole, None
        for listed in () if whole is None else whole():
            self.learn(listed)
        known = sorted(self._raw.items())
        return {i: raw.decode("utf-8", "replace") for i, raw in known if i not in self.special_ids}

    def spell(self, token: int) -> str | None:
        return self.decode([token])

    def learn(self, listed: Listed) -> int | None:
        if listed.id is None:
            ids = self._tokenize(listed.text, False)
            return ids[0] if len(ids) == 1 else None
        told = bool(listed.text) or listed.raw is not None
        if told and listed.id not in self._raw:
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
        extra = len(decoded) - len(text)  # a space that some tokenizers put before every text
        if extra < 0 or not decoded.endswith(text):
            raise InputError(
                f"the server's tokens do not spell the text: {decoded[:40]!r} … instead of {text[:40]!r} …; "
                "give its tokenizer with --tokenizer"
            )
        spans = [(max(0, a - extra), max(0, b - extra)) for a, b in spans_by_decoding(self.decode, [], plain)]
        return whole[:start] + plain, [(0, 0)] * start + spans

    def decode(self, ids: Sequence[int]) -> str:
        self._spell(ids)
        if any(_LOST in self._raw[i] for i in ids):  # of a part of a character its text does not tell the bytes
            (text,) = self.client.ask("/detokenize", [self._detokenize_request(ids)], _read_text, paid=False)
            return text
        return b"".join(self._raw[i] for i in ids).decode("utf-8", "replace")

    def name(self, token: int) -> str:
        return self.decode([token]) or f"<{token}>"

    def _tokenize(self, text: str, special: bool) -> list[int]:
        if not text:
            return []
        (found,) = self.client.ask("/tokenize", [tokenize_request(self.model, text, special)], read_tokens, paid=False)
        self._raw |= {token: raw for token, raw in found if raw is not None and token not in self._raw}
        return [token for token, _ in found]

    def _spell(self, ids: Sequence[int]) -> None:
        """Ask for the text of tokens that nobody has told yet."""
        unknown = [i for i in dict.fromkeys(ids) if i not in self._raw]
        if not unknown:
            return
        before = self._tokenize("a", False)  # decoded alone, some tokens lose their leading space
        bodies = [self._detokenize_request(tokens) for tokens in (before, *([*before, i] for i in unknown))]
        start, *texts = self.client.ask("/detokenize", bodies, _read_text, paid=False)
        self._raw |= {i: text[len(start) :].encode() for i, text in zip(unknown, texts, strict=True)}

    def _detokenize_request(self, ids: Sequence[int]) -> dict[str, Any]:
        return {"model": self.model, "tokens": list(ids)}


def tokenize_request(model: str, text: str, special: bool) -> dict[str, Any]:
    """One question in the words of vLLM (prompt), llama.cpp (content) and TGI (inputs)."""
    return {
        "model": model, "prompt": text, "content": text, "inputs": text,
        "add_special_tokens": special, "add_special": special, "with_pieces": True,
    }  # fmt: skip


def read_tokens(data: Any) -> list[tuple[int, bytes | None]]:
    """Ids, with their bytes where the server tells them.

    >>> read_tokens({"tokens": [{"id": 5, "piece": " a"}]}), read_tokens({"tokens": [5]}), read_tokens([{"id": 5}])
    ([(5, b' a')], [(5, None)], [(5, None)])
    """

    def raw(piece: Any) -> bytes | None:
        return piece.encode() if isinstance(piece, str) else None if piece is None else bytes(piece)

    try:
        entries = data["tokens"] if isinstance(data, dict) else data
        return [
            (entry, None) if isinstance(entry, int) else (int(entry["id"]), raw(entry.get("piece", entry.get("text"))))
            for entry in entries
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerError(f"the server's /tokenize answers in a form that is not known ({error!r})") from error


def _read_text(data: Any) -> str:
    try:
        return str(data["prompt"] if "prompt" in data else data["content"])
    except (KeyError, TypeError) as error:
        raise ServerError(f"the server's /detokenize answers in a form that is not known ({error!r})") from error


def load_tokenizer(name: str) -> LocalCodec:
    """A tokenizer without its network: an embedded model's, a folder's or a hub id's."""
    from reagent.models import _transformers, bundled
    from reagent.models.gguf import quiet_transformers

    where: str | Path = bundled.fetch(name) if name in bundled.MODELS else Path(name).expanduser()
    if isinstance(where, Path) and not where.is_dir():
        if _transformers.is_path(name) or where.exists():
            raise FileError(f"there is no folder {name!r} with a tokenizer: give a folder, a hub id or 'smollm2'")
        where = name
    import transformers

    try:
        with quiet_transformers():
            return LocalCodec(transformers.AutoTokenizer.from_pretrained(where, trust_remote_code=False))
    except Exception as error:  # transformers raises anything from OSError to KeyError
        raise InputError(
            f"cannot load the tokenizer {name!r}: {_transformers.short(error)}; give a folder or a hub id"
        ) from error
