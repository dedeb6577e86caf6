"""The header of a GGUF file: its keys and its table of tensors, read without the weights.

The readers of `transformers` check little: they may loop without end on a truncated file. This one cannot leave the
file, and it recognises the files that have the format of a model and are none: parts, adapters, projectors.
"""

import math
import mmap
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reagent.errors import FileError, InputError

_SCALARS = dict(zip(range(13), "BbHhIif?__Qqd", strict=True))  # GGUF's value types as `struct` letters
_STRING, _ARRAY = 8, 9
_LARGEST_DIMENSIONS = 4  # of a tensor in ggml
_LONGEST_KEPT = 2**16  # numbers of an array; keys with one number for each layer are much shorter
# The pre-tokenizers of byte-pair encodings that begin a text with the token BOS, unless a key says otherwise.
_BEGINNING = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}
_BEGINNING |= {"tekken", "chameleon"}


@dataclass(frozen=True)
class Tensor:
    """An entry of the table; `shape` has the order of torch, `offset` counts from the start of the file."""

    shape: tuple[int, ...]
    type: str
    offset: int

    @property
    def weights(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """`values` has the keys without arrays of texts, of which it has the length."""

    path: Path
    values: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", "unnamed"))

    @cached_property
    def weights(self) -> int:
        return sum(tensor.weights for tensor in self.tensors.values())

    @property
    def first_token(self) -> int | None:
        """The token that every text must begin with; a file without the key has the default of llama.cpp."""
        model, pre = (self.values.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        default = model == "llama" or (model == "gpt2" and pre in _BEGINNING)
        adds = self.values.get("tokenizer.ggml.add_bos_token", default)
        return self.values.get("tokenizer.ggml.bos_token_id") if adds else None

    def floats(self, name: str) -> list[float]:
        """The numbers of a small float32 tensor."""
        tensor = self.tensors[name]
        if tensor.type != "F32":
            raise InputError(
                f"{str(self.path)!r} has {name!r} as {tensor.type}, it must be F32: convert the model again"
            )
        with self.path.open("rb") as file:
            file.seek(tensor.offset)
            return list(struct.unpack(f"<{tensor.weights}f", file.read(4 * tensor.weights)))


def read_header(path: Path) -> Header:
    """Read the header of a model, and check the length of the file against it."""
    if file_status(path).st_size < 24:
        raise damage_error(path, "it is empty or nearly so")
    with _one_line(path), path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise FileError(f"{str(path)!r} is not a GGUF file (these begin with GGUF): give another file")
        cursor = _Cursor(data)
        cursor.skip(4)
        version, tensors, fields = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
        if version not in (2, 3):
            raise ValueError(f"version {version} of the format is not 2 or 3")
        values = {cursor.text(): cursor.value(cursor.number("I")) for _ in range(fields)}
        _check_kind(path, values, tensors)
        return Header(path, values, _read_table(path, cursor, values, tensors))


def file_status(path: Path) -> os.stat_result:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {reason}; give the path of a .gguf file") from error
    if not path.is_file():
        raise FileError(f"{str(path)!r} is not a file: give the path of a .gguf file, or a folder without that ending")
    return status


def damage_error(path: Path, reason: str) -> FileError:
    return FileError(f"{str(path)!r} is damaged ({reason}): get the file again")


class _Cursor:
    """A reading position that cannot leave the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self.data):
            raise EOFError("it ends in the middle of its header")

    def numbers(self, letter: str, count: int) -> tuple[Any, ...]:
        start = self.at
        self.skip(count * struct.calcsize(f"<{letter}"))
        return struct.unpack_from(f"<{count}{letter}", self.data, start)

    def number(self, letter: str) -> Any:
        return self.numbers(letter, 1)[0]

    def text(self) -> str:
        length = self.number("Q")
        self.skip(length)
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A number, a text, a short tuple of numbers, or the length of any other array."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        inner, count = self.number("I"), self.number("Q")
        if inner not in (_STRING, _ARRAY):
            if count <= _LONGEST_KEPT:
                return self.numbers(_SCALARS[inner], count)
            self.skip(count * struct.calcsize(f"<{_SCALARS[inner]}"))
            return count
        for _ in range(count):
            self.value(inner)
        return count


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Report whatever is wrong with a header as one line."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except KeyError as error:
        raise damage_error(path, f"its header has the unknown value type {error}") from error
    except (EOFError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, struct.error) as error:
        raise damage_error(path, str(error)) from error


def _check_kind(path: Path, values: Mapping[str, Any], tensors: int) -> None:
    """Refuse the files that hold no whole language model."""
    kind, architecture = values.get("general.type", "model"), values.get("general.architecture")
    named = re.search(r"-(\d{5})-of-(\d{5})$", path.stem)
    part, parts = (int(number) for number in named.groups()) if named else (1, 1)
    if "split.count" in values:
        part, parts = values.get("split.no", 0) + 1, values["split.count"]
    if parts > 1:
        reason = f"part {part} of {parts}", "join the parts with `llama-gguf-split --merge` and give the whole file"
    elif kind == "adapter" or any(key.startswith("adapter.") for key in values):
        reason = "a LoRA adapter", "merge it into its model with `llama-export-lora` and give that file"
    elif kind in ("mmproj", "clip") or architecture == "clip":
        reason = "the vision or audio projector of a model", "give the file of the language model itself"
    elif kind == "vocab" or (tensors == 0 and "tokenizer.ggml.tokens" in values):
        reason = "a vocabulary without weights", "give the file of the model itself"
    elif kind != "model":
        reason = f"of the kind {kind!r}", "give the file of a language model"
    else:
        return
    raise FileError(f"{str(path)!r} is {reason[0]}, not a language model: {reason[1]}")


def _read_table(path: Path, cursor: _Cursor, values: Mapping[str, Any], count: int) -> dict[str, Tensor]:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    tensors, end = {}, 0
    for _ in range(count):
        name, dimensions = cursor.text(), cursor.number("I")
        if dimensions > _LARGEST_DIMENSIONS or name in tensors:
            raise ValueError(f"the entry of {name!r} in its table of tensors is wrong")
        shape = cursor.numbers("Q", dimensions)[::-1]
        if 0 in shape:
            raise ValueError(f"{name!r} has no weights")
        number, offset = cursor.number("I"), cursor.number("Q")
        try:
            kind = GGMLQuantizationType(number)
        except ValueError:
            raise FileError(
                f"{str(path)!r} has {name!r} in the quantisation type {number}, which the gguf package does not know: "
                "give the model in another type, such as Q8_0 or Q4_K_M, or get a newer gguf package"
            ) from None
        block, size = GGML_QUANT_SIZES[kind]
        tensors[name] = Tensor(shape, kind.name, offset)
        if shape and shape[-1] % block:
            raise ValueError(f"a row of {name!r} has {shape[-1]} weights, no multiple of {block}")
        end = max(end, offset + math.prod(shape) // block * size)
    if not end:
        raise ValueError("it holds no weights")
    alignment = values.get("general.alignment", 32)
    start = math.ceil(cursor.at / alignment) * alignment
    if start + end > len(cursor.data):
        raise EOFError(f"it has {len(cursor.data):,} of its {start + end:,} bytes")
    return {name: replace(tensor, offset=start + tensor.offset) for name, tensor in tensors.items()}
