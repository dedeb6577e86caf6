"""GGUF files as folders that `transformers` loads.

`transformers` reads GGUF as ordinary float weights, slowly: half a minute for 135 million of them. A file is therefore
converted once, to safetensors in the cache. As float32 it grows up to eightfold: a file that is too large for the cache
(`fits_cache`) is read again on each use, with `load_gguf`.
"""

import hashlib
import logging
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FetchError, InputError
from reagent.models import cache
from reagent.models._transformers import PercentReader, quiet_transformers, shorten_message
from reagent.models.cache import CacheEntry
from reagent.models.gguf.config import build_config
from reagent.models.gguf.header import Header, damage_error, file_status, read_header
from reagent.models.gguf.keys import ALTERNATIVE
from reagent.progress_bars import format_bytes, step

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

LARGEST_CACHED = 2**30  # bytes
FORMAT_VERSION = "4"  # part of every stamp: raise it when `convert` writes something else


def fits_cache(path: Path) -> bool:
    """Whether `convert_cached` takes this file; otherwise use `load_gguf` each time."""
    return file_status(path).st_size <= LARGEST_CACHED


def convert_cached(path: Path) -> Path:
    """A folder with the model and tokenizer of a `.gguf` file, converted when the file is used for the first time."""
    status, resolved = file_status(path), str(path.resolve())
    if not fits_cache(path):
        raise InputError(f"{str(path)!r} is too large to keep a converted copy of (over 1 GiB): use load_gguf")
    # One entry per path: the conversion of a changed file replaces the old one.
    stem = re.sub(r"[^\w.-]", "_", path.stem)[:40]
    name = f"{stem}-{hashlib.sha256(resolved.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    entry = CacheEntry(name, stamp=f"{FORMAT_VERSION}:{status.st_size}:{status.st_mtime_ns}")
    return cache.ensure_entry(entry, lambda part: convert(path, part))


def convert(path: Path, into: Path) -> None:
    """Write the model (float32) and the tokenizer of a GGUF file into a folder."""
    size = 4 * read_header(path).weights
    cache.check_space(into, size)
    logger.info("converting %s to %s, once; this can take a minute", path.name, format_bytes(size))
    model, tokenizer = load_gguf(path)
    # The weights are plain floats now. With the old config they would be unpacked again.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    try:
        with step(f"writing {path.name}", size, lambda: _size(into)), quiet_transformers():
            model.save_pretrained(into)
            tokenizer.save_pretrained(into)
    except Exception as error:  # safetensors has its own error for a disk that is full
        raise FetchError(
            f"cannot write the converted {path.name} into {str(into.parent)!r}: {shorten_message(error)}"
        ) from error


def load_gguf(path: Path, dtype: "torch.dtype | None" = None) -> tuple[Any, Any]:
    """The `transformers` model and tokenizer of a GGUF file, read from the file itself; float32 by default."""
    header = read_header(path)
    _check_types(header)
    model_type, options = build_config(header)
    size, output = 4 * header.weights, PercentReader()
    reading = step(f"converting {path.name}", size, lambda: size * output.percent // 100)
    with reading, quiet_transformers(output), _isolated_folder(path) as folder:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        load: Any = AutoModelForCausalLM.from_pretrained  # its declared type ignores `output_loading_info`
        try:
            source = {"gguf_file": "model.gguf", "config": AutoConfig.for_model(model_type, **options)}
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
            model, info = load(folder, **source, dtype=dtype or torch.float32, output_loading_info=True)
        except Exception as error:  # the readers raise anything from IndexError to NotImplementedError
            raise InputError(
                f"cannot read {str(path)!r} (architecture {header.architecture!r}): {shorten_message(error)}; "
                f"{ALTERNATIVE}"
            ) from error
    if header.first_token is not None:
        if type(header.first_token) is not int or not 0 <= header.first_token < len(tokenizer):
            raise damage_error(path, f"its first token {header.first_token} is not in the vocabulary")
        _add_first_token(tokenizer, header.first_token)
    _flatten_shared_gates(model)
    _check_weights(header, model, info)
    return model, tokenizer


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _check_types(header: Header) -> None:
    """Refuse weights in a type that the gguf package can name but not unpack."""
    import numpy as np
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize

    for name, tensor in header.tensors.items():
        kind = GGMLQuantizationType[tensor.type]
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
        except NotImplementedError as error:
            raise InputError(
                f"{str(header.path)!r} has {name!r} in the type {tensor.type}, which cannot be unpacked: "
                "give the model in another type, such as Q8_0 or Q4_K_M"
            ) from error


def _check_weights(header: Header, model: Any, info: Mapping[str, Any]) -> None:
    """Make sure that the network has all weights of the file, and no other ones."""
    if missing := sorted(info["missing_keys"]):  # transformers would fill them with random numbers
        raise InputError(
            f"{str(header.path)!r} lacks {len(missing)} of the weights that transformers needs for the architecture "
            f"{header.architecture!r}, first {missing[0]!r}: {ALTERNATIVE}"
        )
    positions = sum(tensor.weights for name, tensor in header.tensors.items() if name.startswith("rope_"))
    read, written = sum(weight.numel() for weight in model.parameters()), header.weights - positions
    if read != written:
        raise InputError(
            f"transformers reads {read:,} of the {written:,} weights of {str(header.path)!r} (architecture "
            f"{header.architecture!r}): {ALTERNATIVE}"
        )
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise damage_error(header.path, "some weights are not finite numbers")


def _flatten_shared_gates(model: Any) -> None:
    """Give the gates of shared experts one row. transformers adds this axis also where the file has it already."""
    for name, weight in model.named_parameters():
        if name.endswith("shared_expert_gate.weight"):
            weight.data = weight.data.reshape(1, -1)


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
