"""`load_model`: from a name, path, URL or pair of objects to a model."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.errors import FileError, InputError, ReagentError, UnknownNameError
from reagent.models import _transformers, bundled, gguf
from reagent.models.base import Model
from reagent.plugins import load_plugin, plugin_names
from reagent.validation import with_options

if TYPE_CHECKING:
    import torch

    from reagent.models.http import HttpModel
    from reagent.models.huggingface import HuggingFaceModel
    from reagent.models.seq2seq import Seq2SeqModel

MIXED = "mixed"  # float32, with products of scores in bfloat16
DTYPES = ("auto", "float32", "bfloat16", "float16", MIXED)
DEFAULT_MODEL = "smollm2"
TEXT_OPTIONS = ("score", "answers", "temperature", "parts", "max_requests")
_ALLOWED = "give a folder, a .gguf file, a hub id or 'smollm2'"


def load_model(
    source: Any = DEFAULT_MODEL,
    *,
    device: "str | int | torch.device" = "auto",
    dtype: "str | torch.dtype" = "auto",
    revision: str | None = None,
    languages: tuple[str, str] | None = None,
    **server: Any,
) -> Model:
    """Load a model by name, hub id, folder or `.gguf` file, use one at a URL, or wrap a `(model, tokenizer)` pair.

    `device="all"` spreads a model from the hub or a folder over all GPUs. `dtype="auto"` is float32 on a CPU and the
    checkpoint's own type elsewhere. With `dtype="mixed"` weights are float32, and scores multiply in bfloat16: faster
    on processors that have it. A pair keeps its device and type unless they are given. An object that has `score`
    and `case` is returned unchanged. `languages` are the codes of source and target language, for a model that
    translates between several. Other packages add names as entry points of the group `reagent.models`. `server` are the
    options of a model at an http(s) URL: tokenizer, cache, concurrency, rate, timeout, deadline, megabytes, retries,
    backoff, top, recover.

    A function from a prompt to an answer is a text-only model: its answers are compared with the original one. So is
    any other source if one of the options `score`, `answers`, `temperature`, `parts` and `max_requests` is given;
    `score` says how answers are compared: text, exact, label, regex:PATTERN, embedding:MODEL, proxy:MODEL,
    text+proxy:MODEL or a function.
    """
    text = {name: server.pop(name) for name in TEXT_OPTIONS if name in server}
    if text or _only_answers(source):
        return _load_text_model(
            source, text, server, device=device, dtype=dtype, revision=revision, languages=languages
        )
    device = "auto" if device is None else device
    is_number = isinstance(device, Integral) and not isinstance(device, bool)
    device = f"cuda:{device}" if is_number else str(device)
    dtype = "auto" if dtype is None else str(dtype).removeprefix("torch.")
    codes = _check_languages(languages)
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        _check_unused("a server", device, dtype, revision, codes)
        return _connect(source, server)
    _check_names(server)
    if server:
        given = repr(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
        raise InputError(f"only a server has the option {next(iter(server))!r}, not {given}: leave it out")
    if _is_model(source):
        _check_unused("a model object", device, dtype, revision, codes)
        return source  # type: ignore[no-any-return]
    if not isinstance(source, str | os.PathLike):
        return _checked(_wrap_pair(source, device, dtype, codes))
    return _checked(_load_named(os.fspath(source), device, dtype, revision, codes))


def _only_answers(source: Any) -> bool:
    """Whether a source is a Python function, or answers as `models.text.AnswerSource`."""
    answers = callable(getattr(source, "answer", None)) or (callable(source) and not hasattr(source, "forward"))
    return answers and not isinstance(source, type) and not _is_model(source)


def _load_text_model(source: Any, text: Mapping[str, Any], server: Mapping[str, Any], **placement: Any) -> Model:
    from reagent.models.http.config import ServerOptions
    from reagent.models.text.model import TextModel, TextOptions
    from reagent.models.text.sources import (
        NO_CONTINUATION,
        AnswerSource,
        FunctionSource,
        ModelSource,
        ServerSource,
    )

    given = {name: value for name, value in text.items() if value is not None}
    options = with_options(TextOptions(), given, "a text-only model")
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        connection = with_options(ServerOptions(), server, "a model at a URL")
        return TextModel(ServerSource(source, connection, options.temperature), options)
    if options.temperature > 0:
        raise InputError("only a server has the option 'temperature': leave it out; a function may sample by itself")
    if isinstance(source, AnswerSource):
        return TextModel(source, options)
    if _only_answers(source):
        if options.parts > 1:
            raise InputError(NO_CONTINUATION)
        return TextModel(FunctionSource(source), options)
    if options.answers is not None and options.answers > 1:
        raise InputError("a model on this machine answers greedily: leave out `answers`")
    return TextModel(ModelSource(load_model(source, **placement, **server)), options)


def _checked(model: Model) -> Model:
    """The model, after it has checked itself if it can."""
    self_check = getattr(model, "self_check", None)
    if callable(self_check):
        self_check()
    return model


def _load_named(name: str, device: str, dtype: str, revision: str | None, languages: tuple[str, str] | None) -> Model:
    if not name.strip():
        raise InputError(f"the model's name is empty: {_ALLOWED}")
    if len(name) > 1000:
        raise InputError(f"the model's name is too long: {_ALLOWED}")
    path = Path(name).expanduser()
    if revision is not None and (name in bundled.MODELS or _transformers.looks_like_path(name) or path.exists()):
        raise InputError(f"only hub models have revisions, and {name!r} is not one: leave the revision out")
    if languages is not None and (name in bundled.MODELS or path.suffix.lower() == ".gguf"):
        raise _no_languages(name)
    if name in bundled.MODELS:
        return _load_bundled(name, _check_placement(device, dtype))
    if path.suffix.lower() == ".gguf":
        return _load_gguf(path, _check_placement(device, dtype))
    if path.is_dir():
        return _load_pretrained(name, path, _check_placement(device, dtype), languages=languages)
    if path.exists():
        raise FileError(f"{name!r} is a file, but not a .gguf file: give a model folder, a .gguf file or a hub id")
    plugin = load_plugin("models", name.partition(":")[0])
    if plugin is not None:
        _check_unused(f"the model {name!r}", device, dtype, revision, languages)
        return _load_plugin_model(plugin, name)
    known = [*bundled.MODELS, *plugin_names("models")]
    is_offline = _transformers.is_available_offline(name, revision)
    if "/" not in name and not is_offline and get_close_matches(name, known):
        raise UnknownNameError("model", name, known, hint=", a folder, a .gguf file, or a hub id")
    return _load_pretrained(name, name, _check_placement(device, dtype), revision=revision, languages=languages)


def _check_names(options: Mapping[str, Any]) -> None:
    """Report an unknown keyword as a typo of an argument or of an option of a server."""
    from reagent.models.http.config import ServerOptions

    names = [field.name for field in fields(ServerOptions)]
    for name in options:
        if name not in names:
            close = get_close_matches(name, ["device", "dtype", "revision", "languages", *TEXT_OPTIONS, *names], n=1)
            guess = f", did you mean {close[0]!r}?" if close else "."
            raise InputError(
                f"load_model has no argument {name!r}{guess} It has: device, dtype, revision, languages; for a "
                f"text-only model: {', '.join(TEXT_OPTIONS)}; for a server: {', '.join(names)}"
            )


# --- one function for each kind of source ---


def _connect(url: str, options: Mapping[str, Any]) -> "HttpModel":
    from reagent.models.http import ServerOptions, connect

    # Numbers of numpy become Python's, which can be sent as JSON.
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in options.items()}
    return connect(url, with_options(ServerOptions(), plain, "a model at a URL"))


def _wrap_pair(
    pair: Any, device: str, dtype: str, languages: tuple[str, str] | None
) -> "HuggingFaceModel | Seq2SeqModel":
    try:
        network, tokenizer = pair
        tokenizer.convert_ids_to_tokens, network.forward  # noqa: B018
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"cannot explain a {type(pair).__name__}: give a name, a folder or a (model, tokenizer) pair"
        ) from error
    placement = _check_placement(device, dtype)
    if device != "auto":
        network = _transformers.move(network, placement.device)
    if placement.dtype is not None:
        network = network.to(placement.dtype)
    return _make_model(network, tokenizer, languages, mixed=placement.mixed)


def _load_bundled(name: str, placement: "_Placement") -> Model:
    return _load_pretrained(
        name, bundled.fetch(name), placement, backend="transformers (gguf)", recorded=bundled.revision(name)
    )


def _load_gguf(path: Path, placement: "_Placement") -> Model:
    """Small files are converted once and kept. Large ones are read again each time, to save disk space."""
    if gguf.fits_cache(path):
        return _load_pretrained(str(path), gguf.convert_cached(path), placement, backend="transformers (gguf)")
    from reagent.models.huggingface import HuggingFaceModel

    network, tokenizer = gguf.load_gguf(path, placement.dtype)
    network = network.to(placement.device)
    return HuggingFaceModel(network, tokenizer, name=str(path), backend="transformers (gguf)", mixed=placement.mixed)


def _load_pretrained(
    name: str,
    location: str | Path,
    placement: "_Placement",
    *,
    revision: str | None = None,
    backend: str = "transformers",
    recorded: str | None = None,
    languages: tuple[str, str] | None = None,
) -> "HuggingFaceModel | Seq2SeqModel":
    """`revision` is requested from the hub; `recorded` is the revision of a model that is not from the hub."""
    automatic: Any = "float32" if placement.device.type == "cpu" else "auto"
    network, tokenizer = _transformers.load_pretrained(
        "AutoModelForCausalLM",
        str(location),
        "causal language model",
        dtype=placement.dtype or automatic,
        revision=revision,
        spread=placement.spread,
    )
    if not placement.spread:
        network = _transformers.move(network, placement.device)
    commit = recorded or getattr(network.config, "_commit_hash", None) or revision
    return _make_model(
        network, tokenizer, languages, name=name, revision=commit, backend=backend, mixed=placement.mixed
    )


def _make_model(
    network: Any,
    tokenizer: Any,
    languages: tuple[str, str] | None,
    *,
    name: str = "",
    revision: str | None = None,
    backend: str = "transformers",
    mixed: bool = False,
) -> "HuggingFaceModel | Seq2SeqModel":
    """An encoder–decoder, or a causal language model."""
    if _transformers.is_encoder_decoder(getattr(network, "config", None)):
        from reagent.models.seq2seq import Seq2SeqModel

        if mixed:
            raise InputError(
                f"dtype 'mixed' is for causal models, not for {name or type(network).__name__!r}: leave it out"
            )
        return Seq2SeqModel(network, tokenizer, name=name, revision=revision, backend=backend, languages=languages)
    if languages is not None:
        raise _no_languages(name or type(network).__name__)
    from reagent.models.huggingface import HuggingFaceModel

    return HuggingFaceModel(network, tokenizer, name=name, revision=revision, backend=backend, mixed=mixed)


def _no_languages(name: str) -> InputError:
    return InputError(f"{name!r} does not translate between languages: leave `languages` out")


def _check_languages(languages: Any) -> tuple[str, str] | None:
    if languages is None:
        return None
    codes = tuple(languages) if isinstance(languages, list | tuple) else ()
    if len(codes) != 2 or not all(isinstance(code, str) and code for code in codes):
        raise InputError(f"`languages` must be two codes, of the source and of the target, got {languages!r}")
    return codes[0], codes[1]


def _load_plugin_model(plugin: Any, name: str) -> Model:
    """Call a plugin with the text after the first colon of the name."""
    try:
        model = plugin(name.partition(":")[2])
    except ReagentError:
        raise
    except Exception as error:  # the code of another package
        raise InputError(f"the model plugin cannot load {name!r}: {_transformers.shorten_message(error)}") from error
    if not _is_model(model):
        raise InputError(
            f"the model plugin for {name!r} returned a {type(model).__name__}, which is not a model: "
            "it must have the methods score and case"
        )
    return model  # type: ignore[no-any-return]


def _is_model(source: Any) -> bool:
    return callable(getattr(source, "score", None)) and callable(getattr(source, "case", None))


# --- device and number type, checked before anything is downloaded ---


@dataclass(frozen=True)
class _Placement:
    device: "torch.device"
    dtype: "torch.dtype | None"  # None: chosen by the device and the checkpoint
    spread: bool  # over all GPUs
    mixed: bool  # scores multiply in bfloat16


def _check_unused(owner: str, device: str, dtype: str, revision: str | None, languages: tuple[str, str] | None) -> None:
    given = {"device": device, "dtype": dtype, "revision": revision, "languages": languages}
    for name, value in given.items():
        default = "auto" if name in ("device", "dtype") else None
        if value != default:
            raise InputError(f"{owner} has its own {name}: leave out {name} {value!r}")


def _check_placement(device: str, dtype: str) -> _Placement:
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    import torch

    name = "float32" if dtype == MIXED else dtype
    number_type: torch.dtype | None = None if dtype == "auto" else getattr(torch, name)
    place = _check_device("auto" if device == "all" else device)
    return _Placement(place, number_type, device == "all", dtype == MIXED)


def _check_device(name: str) -> "torch.device":
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return torch.device(available[-1])
    choices = f"Available: auto, {', '.join(available)}"
    if name.split(":")[0] not in available:
        raise InputError(f"device {name!r} is not available here. {choices}")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"unknown device {name!r}. {choices}") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r} is not available here. {choices}, with {torch.cuda.device_count()} GPUs")
    return device
