"""GGUF files as folders that `transformers` loads.

`transformers` reads GGUF as ordinary float weights, slowly: half a minute for 135 million of them. So a file is
converted once, to safetensors in the cache. As float32 it grows up to eightfold: a file that `fits_cache` refuses
is better read on each use, with `read`.
"""

import hashlib
import math
import mmap
import os
import re
import struct
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FetchError, FileError, InputError
from reagent.models import cache
from reagent.models.cache import CacheEntry, Notify, say

if TYPE_CHECKING:
    import torch

LARGEST_CACHED = 2**30
RECIPE = "2"  # part of every stamp: raise it when `convert` writes something else

_SCALARS = dict(zip(range(13), "BbHhIif?__Qqd", strict=True))  # GGUF's value types as `struct` letters
_STRING, _ARRAY = 8, 9


def fits_cache(path: Path) -> bool:
    """Whether `folder_of` takes this file; if not, `read` it on each use."""
    return _stat(path).st_size <= LARGEST_CACHED


def folder_of(path: Path, notify: Notify = say) -> Path:
    """A folder with the model and tokenizer of a `.gguf` file, converted on the first use of that file."""
    found, resolved = _stat(path), str(path.resolve())
    if not fits_cache(path):
        raise InputError(f"{str(path)!r} is too large to keep a converted copy of (over 1 GiB): load it with gguf.read")
    # One entry per path, so that a file that is written again replaces its old conversion.
    stem = re.sub(r"[^\w.-]", "_", path.stem)[:40]
    name = f"{stem}-{hashlib.sha256(resolved.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    entry = CacheEntry(name, stamp=f"{RECIPE}:{found.st_size}:{found.st_mtime_ns}")
    return cache.ready(entry, lambda part: convert(path, part, notify), notify)


def convert(path: Path, into: Path, notify: Notify = say) -> None:
    """Write a GGUF file's model (float32) and tokenizer into a folder."""
    weights = _header(path).weights
    cache.check_space(into, 4 * weights)
    notify(f"converting {path.name} ({weights / 1e6:,.0f} million weights), once; this can take a minute")
    model, tokenizer = read(path)
    # The weights are plain floats by now, and a config that says otherwise would have them unpacked again.
    model.hf_quantizer = None
    del model.config.quantization_config
    try:
        with quiet_transformers():
            model.save_pretrained(into)
            tokenizer.save_pretrained(into)
    except Exception as error:  # safetensors has its own error for a disk that is full
        raise FetchError(
            f"cannot write the converted {path.name} into {str(into.parent)!r}: {_short(error)}"
        ) from error


def read(path: Path, dtype: "torch.dtype | None" = None) -> tuple[Any, Any]:
    """The `transformers` model and tokenizer of a GGUF file, straight from the file; float32 by default."""
    header = _header(path)
    with quiet_transformers(), _alone(path) as folder:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        load: Any = AutoModelForCausalLM.from_pretrained  # its declared result forgets `output_loading_info`
        try:
            model, info = load(folder, gguf_file="model.gguf", dtype=dtype or torch.float32, output_loading_info=True)
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
        except Exception as error:  # the readers raise anything from IndexError to NotImplementedError
            raise InputError(
                f"cannot read {str(path)!r} (architecture {header.architecture!r}): {_short(error)}; give a GGUF file "
                "of a causal language model that transformers knows, or the model's own folder"
            ) from error
    if header.begins_with is not None:
        if not 0 <= header.begins_with < len(tokenizer):
            raise _damaged(path, f"texts are to begin with token {header.begins_with}, which there is not")
        _begin_with(tokenizer, header.begins_with)
    if missing := sorted(info["missing_keys"]):  # transformers would fill them with random numbers
        raise InputError(
            f"{str(path)!r} lacks {len(missing)} of the weights of a {header.architecture!r} model, first "
            f"{missing[0]!r}; get the file again, or join its parts if it is one of several"
        )
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise _damaged(path, "some weights are not finite numbers")
    return model, tokenizer


def _begin_with(tokenizer: Any, token: int) -> None:
    """Have every text begin with a token. A file says that its model needs this; not every reader listens."""
    from tokenizers.processors import Sequence, TemplateProcessing

    if tokenizer("a")["input_ids"][:1] == [token]:
        return
    name, backend = tokenizer.convert_ids_to_tokens(token), tokenizer.backend_tokenizer
    begin = TemplateProcessing(
        single=[name, "$A"], pair=[name, "$A", f"{name}:1", "$B:1"], special_tokens=[(name, token)]
    )
    backend.post_processor = Sequence([backend.post_processor, begin]) if backend.post_processor else begin


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no warnings from `transformers` within; its settings come back afterwards."""
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The GGUF reader's own bar obeys no switch, so standard error goes nowhere for a while.
        with redirect_stderr(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _alone(path: Path) -> Iterator[str]:
    """A folder with nothing but the file: transformers would prefer a `tokenizer.json` that lies beside it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.gguf").symlink_to(path.resolve())
        yield folder


@dataclass(frozen=True)
class _Header:
    architecture: str
    weights: int
    begins_with: int | None  # the token that every text must begin with


class _Cursor:
    """A place in the file that cannot leave it."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self.data):
            raise EOFError("it ends in the middle of its header")

    def number(self, letter: str) -> Any:
        self.skip(struct.calcsize(f"<{letter}"))
        return struct.unpack_from(f"<{letter}", self.data, self.at - struct.calcsize(f"<{letter}"))[0]

    def text(self) -> str:
        length = self.number("Q")
        self.skip(length)
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A number or a text; an array is stepped over."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        inner, count = self.number("I"), self.number("Q")
        if inner in (_STRING, _ARRAY):
            for _ in range(count):
                self.value(inner)
        else:
            self.skip(count * struct.calcsize(f"<{_SCALARS[inner]}"))
        return None


def _header(path: Path) -> _Header:
    """Read the header and see that the file is as long as it says.

    The readers behind `transformers` trust a file: on one that is cut short they may loop without end.
    """
    if _stat(path).st_size < 24:
        raise _damaged(path, "it is empty or nearly so")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"GGUF":
                raise FileError(f"{str(path)!r} is not a GGUF file (its first letters would be GGUF): get another")
            return _parse(_Cursor(data))
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (EOFError, ValueError, ArithmeticError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    except KeyError as error:
        raise _damaged(path, f"its header has no meaning at {error}") from error


def _parse(cursor: _Cursor) -> _Header:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    cursor.skip(4)
    version, tensors, fields = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
    if version not in (2, 3):
        raise ValueError(f"version {version} of the format is not 2 or 3")
    values = {cursor.text(): cursor.value(cursor.number("I")) for _ in range(fields)}
    weights = end = 0
    for _ in range(tensors):
        cursor.text()
        count = math.prod(cursor.number("Q") for _ in range(cursor.number("I")))
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(cursor.number("I"))]
        weights += count
        end = max(end, cursor.number("Q") + count // block * size)
    if not weights:
        raise ValueError("it holds no weights")
    alignment = values.get("general.alignment", 32)
    end += math.ceil(cursor.at / alignment) * alignment
    if end > len(cursor.data):
        raise EOFError(f"it has {len(cursor.data):,} of its {end:,} bytes")
    words = {name: values.get(f"tokenizer.ggml.{name}") for name in ("model", "add_bos_token", "bos_token_id")}
    begins = words["model"] == "llama" if words["add_bos_token"] is None else words["add_bos_token"]
    return _Header(
        architecture=str(values.get("general.architecture", "unnamed")),
        weights=weights,
        begins_with=words["bos_token_id"] if begins else None,
    )


def _stat(path: Path) -> os.stat_result:
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {reason}; give the path of a .gguf file") from error
    if not path.is_file():
        raise FileError(f"{str(path)!r} is not a file: give the path of a .gguf file, or a folder without that ending")
    return found


def _damaged(path: Path, reason: str) -> FileError:
    return FileError(f"{str(path)!r} is damaged ({reason}): get the file again")


def _short(error: Exception, limit: int = 160) -> str:
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
