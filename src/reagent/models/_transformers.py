"""Loading with `transformers`: networks and tokenizers from a folder, from the hub's local cache or from the hub.

Weights are safetensors, or a pickle that torch reads with `weights_only`. Code from the hub is never run.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from reagent.errors import FileError, InputError
from reagent.progress_bars import step

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "source.spm",
    "prophetnet.tokenizer",
    "tokenizer_config.json",  # all that ByT5 has
)


def looks_like_path(name: str) -> bool:
    """Whether a name can only be a folder or a file, not a hub id."""
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1


def is_available_offline(name: str, revision: str | None = None) -> bool:
    """Whether a model can be loaded without the network: a folder, or a hub id in the local cache."""
    folder = Path(name).expanduser()
    needed = (("config.json",), _WEIGHTS, _TOKENIZERS)
    if folder.is_dir():
        return all(any((folder / file).is_file() for file in files) for files in needed)
    return all(any(_in_hub_cache(name, file, revision) for file in files) for files in needed)


def cached_revision(name: str) -> str | None:
    """The commit of a hub id that is in the local cache."""
    config = None if Path(name).expanduser().is_dir() else _in_hub_cache(name, "config.json")
    return Path(config).parent.name if config else None


def load_pretrained(
    kind: str, name: str, what: str, *, dtype: Any = None, revision: str | None = None, spread: bool = False
) -> tuple[Any, Any]:
    """The network and the tokenizer of `name`; `kind` is an auto class of transformers, `what` its name in messages.

    Where a causal LM is asked for, an encoder–decoder is loaded as what it is.

    With `spread`, the layers go to all GPUs, and to main memory when the GPUs are full.
    """
    folder = Path(name).expanduser()
    if looks_like_path(name) and not folder.exists():
        raise FileError(f"there is no model folder {name!r}: give the folder or the hub id of a {what}")
    try:
        network, tokenizer, missing = _load(kind, name, folder, dtype, revision, spread)
    except Exception as error:  # transformers raises anything from OSError to UnpicklingError
        if isinstance(error, ImportError):  # quantized weights and some families need more packages
            raise FileError(
                f"cannot load the {what} {name!r}: {shorten_message(error)}; install the missing package, "
                f"or use weights that do not need it"
            ) from error
        if folder.is_dir():
            raise FileError(f"cannot load a {what} from {name!r}: {shorten_message(error)}") from error
        raise InputError(
            f"cannot load the {what} {name!r}: it is not on this machine, and the hub answered: "
            f"{shorten_message(error)}; check the name and the connection, or give a folder"
        ) from error
    if missing:  # transformers would fill them with random numbers
        raise FileError(
            f"{name!r} lacks {len(missing)} of the weights of a {what}, first {missing[0]!r}: get the model again"
        )
    return network, tokenizer


def move(network: Any, device: Any) -> Any:
    """The network on the device; quantized weights, and layers on several devices, stay where they were loaded."""
    is_placed = getattr(network, "hf_quantizer", None) is not None or len(getattr(network, "hf_device_map", ())) > 1
    return network if is_placed else network.to(device)


def is_encoder_decoder(config: Any) -> bool:
    """Whether this is the config of a text-to-text encoder–decoder; its decoder alone is a causal LM."""
    from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING

    is_pair = bool(getattr(config, "is_encoder_decoder", False))
    return is_pair and type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING


def shorten_message(error: Exception, limit: int = 200) -> str:
    """The message of an error of another library, in one line of bounded length."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return reason if len(reason) <= limit else reason[: limit - 1] + "…"


class PercentReader(StringIO):
    """A stream for the progress bars of other libraries, which remembers the last percentage and shows nothing.

    >>> output = PercentReader()
    >>> print("Loading weights:  45%|████▌     | 123/272", file=output)
    >>> output.percent
    45
    """

    percent = 0

    def write(self, text: str) -> int:
        if found := re.search(r"(\d+)%\|", text):
            self.percent = int(found[1])
        return len(text)


@contextmanager
def quiet_transformers(output: PercentReader | None = None) -> Iterator[None]:
    """Hide the progress bars and warnings of `transformers`; its settings are restored afterwards.

    With `output`, the bars are drawn into it.
    """
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        # The progress bar of the GGUF reader cannot be switched off, so standard error is discarded meanwhile.
        with redirect_stderr(output or PercentReader()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.set_verbosity_error()
            _show_bars(logging, output is not None)
            yield
    finally:
        logging.set_verbosity(level)
        _show_bars(logging, bars)


def _show_bars(logging: Any, shown: bool) -> None:
    if shown:
        logging.enable_progress_bar()
    else:
        logging.disable_progress_bar()


def _load(
    kind: str, name: str, folder: Path, dtype: Any, revision: str | None, spread: bool
) -> tuple[Any, Any, list[str]]:
    import transformers
    from huggingface_hub import model_info

    def load_from(where: str | Path, local: bool) -> tuple[Any, Any, list[str]]:
        options: dict[str, Any] = {
            "trust_remote_code": False,
            "local_files_only": local,
            "revision": revision or "main",
        }
        output = PercentReader()
        size = _weight_bytes(name, folder, revision) if local else 0
        what = f"reading the weights of {folder.name if folder.is_dir() else name}"
        shown = step(what, size or None, lambda: size * output.percent // 100) if local else nullcontext()
        with shown, quiet_transformers(output if local else None):
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            config = transformers.AutoConfig.from_pretrained(where, **options)
            automatic = getattr(transformers, _auto_class(kind, config))
            placed = {"device_map": "auto"} if spread else {}
            network, info = automatic.from_pretrained(where, dtype=dtype, output_loading_info=True, **placed, **options)
        return network, tokenizer, sorted(info["missing_keys"])

    if folder.is_dir():
        return load_from(folder, True)
    if is_available_offline(name, revision):
        with suppress(OSError):  # an interrupted download is resumed below
            return load_from(name, True)
    # Fails fast without a network or without such a model.
    info = model_info(name, revision=revision, timeout=10, files_metadata=True)
    before = _downloaded_bytes(name)
    with step(f"fetching {name}", _download_bytes(info), lambda: _downloaded_bytes(name) - before):
        return load_from(name, False)


def _weight_bytes(name: str, folder: Path, revision: str | None) -> int:
    """The size of the weights on this machine: safetensors if there are any, which transformers prefers."""
    config = None if folder.is_dir() else _in_hub_cache(name, "config.json", revision)
    where = folder if config is None else Path(config).parent
    for ending in (".safetensors", ".bin"):
        if sizes := [file.stat().st_size for file in where.glob(f"*{ending}")]:
            return sum(sizes)
    return 0


def _download_bytes(info: Any) -> int | None:
    """The size of the files of a model on the hub that transformers needs."""
    files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    weights = ".safetensors" if any(name.endswith(".safetensors") for name in files) else ".bin"
    wanted = (weights, ".json", ".txt", ".model", ".spm")
    return sum(size for name, size in files.items() if "/" not in name and name.endswith(wanted)) or None


def _downloaded_bytes(name: str) -> int:
    """The size of the files of a model in the local cache of the hub, also of incomplete ones."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    blobs = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"), "blobs")
    total = 0
    with suppress(OSError):  # files are renamed meanwhile
        total = sum(file.stat().st_size for file in blobs.iterdir())
    return total


def _auto_class(kind: str, config: Any) -> str:
    """The auto class for a configuration, where a causal LM is asked for.

    An encoder–decoder is loaded as what it is. Models of images and text that are no causal LMs are read as text only.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    if kind != "AutoModelForCausalLM":
        return kind
    if is_encoder_decoder(config):
        return "AutoModelForSeq2SeqLM"
    is_causal = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    return (
        kind if is_causal or type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING else "AutoModelForImageTextToText"
    )


def _in_hub_cache(name: str, file: str, revision: str | None = None) -> str | None:
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, file, cache_dir=constants.HF_HUB_CACHE, revision=revision)
    except HFValidationError:  # not a valid hub id
        return None
    return path if isinstance(path, str) else None
