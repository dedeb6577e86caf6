"""From what a person writes to a model: `load_model`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FileError, InputError, ReagentError, UnknownNameError
from reagent.models import embedded, gguf
from reagent.models.protocol import Model

if TYPE_CHECKING:
    import torch

    from reagent.models.local import LocalModel

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEFAULT_MODEL = "smollm2"


def load_model(
    source: Any = DEFAULT_MODEL, *, device: str = "auto", dtype: str = "auto", revision: str | None = None
) -> Model:
    """Load a model by name, hub id, folder or `.gguf` file, or wrap a `(model, tokenizer)` pair.

    `dtype="auto"` is float32 on a CPU and the checkpoint's own type elsewhere. A pair stays on the
    device and in the type that it has unless they are given.
    """
    if not isinstance(source, str | Path):
        return _from_objects(source, device, dtype)
    name = str(source)
    if not name.strip():
        raise InputError("the model's name is empty: give a folder, a .gguf file, a hub id or 'smollm2'")
    if name.startswith(("http://", "https://")):
        raise InputError(f"{name!r}: this version explains local models only; give a hub id, a folder or a .gguf file")
    if name in embedded.MODELS:
        folder, backend = embedded.fetch(name), "transformers (gguf)"
        return _from_folder(name, folder, device, dtype, revision=embedded.revision(name), backend=backend)
    path = Path(name).expanduser()
    if path.suffix.lower() == ".gguf":
        return _from_gguf(path, device, dtype)
    if path.is_dir():
        return _from_folder(name, path, device, dtype, revision=revision)
    if path.exists():
        raise FileError(f"{name!r} is a file, but not a .gguf file: give a model folder, a .gguf file or a hub id")
    if name.startswith((".", "/", "~", "\\")) or name.count("/") > 1:
        raise FileError(f"there is no model folder {name!r}: give a folder, a .gguf file, a hub id or 'smollm2'")
    return _from_folder(name, name, device, dtype, revision=revision)


def _from_objects(pair: Any, device: str, dtype: str) -> "LocalModel":
    from reagent.models.local import LocalModel

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
    return LocalModel(network, tokenizer)


def _from_gguf(path: Path, device: str, dtype: str) -> "LocalModel":
    """Small files are converted once and kept; large ones are read anew each time, to spare the disk."""
    if gguf.fits_cache(path):
        return _from_folder(str(path), gguf.folder_of(path), device, dtype, backend="transformers (gguf)")
    from reagent.models.local import LocalModel

    place = _device(device)
    network, tokenizer = gguf.read(path, _dtype(dtype))
    return LocalModel(network.to(place), tokenizer, name=str(path), backend="transformers (gguf)")


def _from_folder(
    name: str,
    where: str | Path,
    device: str,
    dtype: str,
    *,
    revision: str | None = None,
    backend: str = "transformers",
) -> "LocalModel":
    """Weights come from safetensors, or from a pickle that torch reads with `weights_only`; code never does."""
    place, number_type = _device(device), _dtype(dtype)
    with gguf.quiet_transformers():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from reagent.models.local import LocalModel

        on_hub = not isinstance(where, Path)
        chosen = {"revision": revision} if on_hub and revision else {}
        automatic: Any = "float32" if place.type == "cpu" else "auto"
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **chosen)
            load: Any = AutoModelForCausalLM.from_pretrained  # its declared result forgets `output_loading_info`
            network, loaded = load(
                where, trust_remote_code=False, dtype=number_type or automatic, output_loading_info=True, **chosen
            )
        except Exception as error:  # transformers raises anything from OSError to UnpicklingError
            raise _cannot_load(name, error, on_hub) from error
    if missing := sorted(loaded["missing_keys"]):  # transformers would fill them with random numbers
        raise FileError(f"{name!r} lacks {len(missing)} of its weights, first {missing[0]!r}: get the model again")
    found = revision or getattr(network.config, "_commit_hash", None)
    return LocalModel(network.to(place), tokenizer, name=name, revision=found, backend=backend)


def _cannot_load(name: str, error: Exception, on_hub: bool) -> ReagentError:
    reason = " ".join(str(error).split()) or type(error).__name__
    if on_hub:
        return UnknownNameError(
            "model",
            name,
            embedded.MODELS,
            hint=f", a folder, a .gguf file, or a hub id (the hub said: {_short(reason)})",
        )
    return FileError(f"cannot load a causal language model from {name!r}: {_short(reason)}")


def _short(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


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
