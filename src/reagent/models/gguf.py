"""GGUF files as folders that `transformers` loads.

`transformers` reads GGUF as ordinary float weights, slowly: half a minute for 135 million of them. A file is therefore
converted once, to safetensors in the cache. As float32 it grows up to eightfold: a file that is too large for the cache
(`fits_cache`) is read again on each use, with `load_gguf`.
"""

import hashlib
import logging
import math
import mmap
import os
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FetchError, FileError, InputError
from reagent.models import cache
from reagent.models._transformers import quiet_transformers, shorten_message
from reagent.models.cache import CacheEntry

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

LARGEST_CACHED = 2**30  # bytes
FORMAT_VERSION = "2"  # part of every stamp: raise it when `convert` writes something else

_SCALARS = dict(zip(range(13), "BbHhIif?__Qqd", strict=True))  # GGUF's value types as `struct` letters
_STRING, _ARRAY = 8, 9


def fits_cache(path: Path) -> bool:
    """Whether `convert_cached` takes this file; otherwise use `load_gguf` each time."""
    return _stat(path).st_size <= LARGEST_CACHED


def convert_cached(path: Path) -> Path:
    """A folder with the model and tokenizer of a `.gguf` file, converted when the file is used for the first time."""
    status, resolved = _stat(path), str(path.resolve())
    if not fits_cache(path):
        raise InputError(f"{str(path)!r} is too large to keep a converted copy of (over 1 GiB): use load_gguf")
    # One entry per path: the conversion of a changed file replaces the old one.
    stem = re.sub(r"[^\w.-]", "_", path.stem)[:40]
    name = f"{stem}-{hashlib.sha256(resolved.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    entry = CacheEntry(name, stamp=f"{FORMAT_VERSION}:{status.st_size}:{status.st_mtime_ns}")
    return cache.ensure_entry(entry, lambda part: convert(path, part))


def convert(path: Path, into: Path) -> None:
    """Write the model (float32) and the tokenizer of a GGUF file into a folder."""
    weights = _header(path).weights
    cache.check_space(into, 4 * weights)
    logger.info("converting %s (%s million weights), once; this can take a minute", path.name, f"{weights / 1e6:,.0f}")
    model, tokenizer = load_gguf(path)
    # The weights are plain floats now. With the old config they would be unpacked again.
    model.hf_quantizer = None
    del model.config.quantization_config
    try:
        with quiet_transformers():
            model.save_pretrained(into)
            tokenizer.save_pretrained(into)
    except Exception as error:  # safetensors has its own error for a disk that is full
        raise FetchError(
            f"cannot write the converted {path.name} into {str(into.parent)!r}: {shorten_message(error)}"
        ) from error


def load_gguf(path: Path, dtype: "torch.dtype | None" = None) -> tuple[Any, Any]:
    """The `transformers` model and tokenizer of a GGUF file, read from the file itself; float32 by default."""
    header = _header(path)
    with quiet_transformers(), _isolated_folder(path) as folder:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        load: Any = AutoModelForCausalLM.from_pretrained  # its declared type ignores `output_loading_info`
        try:
            model, info = load(folder, gguf_file="model.gguf", dtype=dtype or torch.float32, output_loading_info=True)
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
        except Exception as error:  # the readers raise anything from IndexError to NotImplementedError
            raise InputError(
                f"cannot read {str(path)!r} (architecture {header.architecture!r}): {shorten_message(error)}; "
                "give a GGUF file of a causal language model that transformers knows, or the model's own folder"
            ) from error
    if header.first_token is not None:
        if not 0 <= header.first_token < len(tokenizer):
            raise _damage_error(path, f"its first token {header.first_token} is not in the vocabulary")
        _add_first_token(tokenizer, header.first_token)
    if missing := sorted(info["missing_keys"]):  # transformers would fill them with random numbers
        raise InputError(
            f"{str(path)!r} lacks {len(missing)} of the weights of a {header.architecture!r} model, first "
            f"{missing[0]!r}; get the file again, or join its parts if it is one of several"
        )
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise _damage_error(path, "some weights are not finite numbers")
    return model, tokenizer


def _add_first_token(tokenizer: Any, token: int) -> None:
    """Make every text begin with `token`. The header of the file requires this; some readers ignore it."""
    from tokenizers.processors import Sequence, TemplateProcessing

    if tokenizer("a")["input_ids"][:1] == [token]:
        return
    name, backend = tokenizer.convert_ids_to_tokens(token), tokenizer.backend_tokenizer
    begin = TemplateProcessing(
        single=[name, "$A"], pair=[name, "$A", f"{name}:1", "$B:1"], special_tokens=[(name, token)]
    )
    backend.post_processor = Sequence([backend.post_processor, begin]) if backend.post_processor else begin


@contextmanager
def _isolated_folder(path: Path) -> Iterator[str]:
    """A folder with only this file: transformers would prefer a `tokenizer.json` next to it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.gguf").symlink_to(path.resolve())
        yield folder


@dataclass(frozen=True)
class _Header:
    architecture: str
    weights: int
    first_token: int | None  # every text must begin with it


class _Cursor:
    """A reading position that cannot leave the file."""

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
        """A number or a text; arrays are skipped."""
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
    """Read the header and check the length of the file against it.

    The readers of `transformers` do not check: they may loop without end on a truncated file.
    """
    if _stat(path).st_size < 24:
        raise _damage_error(path, "it is empty or nearly so")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"GGUF":
                raise FileError(f"{str(path)!r} is not a GGUF file (these begin with GGUF): give another file")
            return _parse(_Cursor(data))
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (EOFError, ValueError, ArithmeticError, RecursionError) as error:
        raise _damage_error(path, str(error)) from error
    except KeyError as error:
        raise _damage_error(path, f"its header has the unknown value type {error}") from error


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
    settings = {name: values.get(f"tokenizer.ggml.{name}") for name in ("model", "add_bos_token", "bos_token_id")}
    adds_first = settings["model"] == "llama" if settings["add_bos_token"] is None else settings["add_bos_token"]
    return _Header(
        architecture=str(values.get("general.architecture", "unnamed")),
        weights=weights,
        first_token=settings["bos_token_id"] if adds_first else None,
    )


def _stat(path: Path) -> os.stat_result:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {reason}; give the path of a .gguf file") from error
    if not path.is_file():
        raise FileError(f"{str(path)!r} is not a file: give the path of a .gguf file, or a folder without that ending")
    return status


def _damage_error(path: Path, reason: str) -> FileError:
    return FileError(f"{str(path)!r} is damaged ({reason}): get the file again")
