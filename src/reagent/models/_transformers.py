"""Networks and tokenizers from a folder, from the hub's local cache or from the hub.

Weights are safetensors, or a pickle that torch reads with `weights_only`; code never comes with them.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from reagent.errors import FileError, InputError

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
)


def is_path(name: str) -> bool:
    """Whether a name can only mean a folder or a file, not a hub id."""
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1


def is_local(name: str, revision: str | None = None) -> bool:
    """Whether a model can be loaded without the network: a folder, or a hub id in the local cache."""
    folder = Path(name).expanduser()
    needed = (("config.json",), _WEIGHTS, _TOKENIZERS)
    if folder.is_dir():
        return all(any((folder / file).is_file() for file in files) for files in needed)
    return all(any(_in_hub_cache(name, file, revision) for file in files) for files in needed)


def local_revision(name: str) -> str | None:
    """The commit of a hub id that is in the local cache."""
    config = None if Path(name).expanduser().is_dir() else _in_hub_cache(name, "config.json")
    return Path(config).parent.name if config else None


def read(
    kind: str, name: str, what: str, *, dtype: Any = None, revision: str | None = None, spread: bool = False
) -> tuple[Any, Any]:
    """The network and the tokenizer of `name`; `kind` is an auto class of transformers, `what` its name for people.

    With `spread`, its layers go to all GPUs there are, and to the processor's memory where those are full.
    """
    folder = Path(name).expanduser()
    if is_path(name) and not folder.exists():
        raise FileError(f"there is no model folder {name!r}: give the folder or the hub id of a {what}")
    try:
        network, tokenizer, missing = _read(kind, name, folder, dtype, revision, spread)
    except Exception as error:  # transformers raises anything from OSError to UnpicklingError
        if folder.is_dir():
            raise FileError(f"cannot load a {what} from {name!r}: {short(error)}") from error
        raise InputError(
            f"cannot load the {what} {name!r}: it is not on this machine, and the hub said: {short(error)}; "
            "check the name and the connection, or give a folder"
        ) from error
    if missing:  # transformers would fill them with random numbers
        raise FileError(
            f"{name!r} lacks {len(missing)} of the weights of a {what}, first {missing[0]!r}: get the model again"
        )
    return network, tokenizer


def short(error: Exception, limit: int = 200) -> str:
    """The message of a foreign error, in one line of bounded length."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return reason if len(reason) <= limit else reason[: limit - 1] + "…"


def _read(
    kind: str, name: str, folder: Path, dtype: Any, revision: str | None, spread: bool
) -> tuple[Any, Any, list[str]]:
    import transformers
    from huggingface_hub import model_info

    from reagent.models.gguf import quiet_transformers

    def load(where: str | Path, local: bool) -> tuple[Any, Any, list[str]]:
        options: dict[str, Any] = {
            "trust_remote_code": False,
            "local_files_only": local,
            "revision": revision or "main",
        }
        with quiet_transformers():
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            automatic = getattr(transformers, kind)
            placed = {"device_map": "auto"} if spread else {}
            network, info = automatic.from_pretrained(where, dtype=dtype, output_loading_info=True, **placed, **options)
        return network, tokenizer, sorted(info["missing_keys"])

    if folder.is_dir():
        return load(folder, True)
    if is_local(name, revision):
        with suppress(OSError):  # a download that was interrupted goes on below
            return load(name, True)
    model_info(name, revision=revision, timeout=10)  # says at once that there is no network or no such model
    return load(name, False)


def _in_hub_cache(name: str, file: str, revision: str | None = None) -> str | None:
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, file, cache_dir=constants.HF_HUB_CACHE, revision=revision)
    except HFValidationError:  # not the shape of a hub id
        return None
    return found if isinstance(found, str) else None
