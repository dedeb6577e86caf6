"""A benchmark as a TOML file: models × datasets × methods × seeds, and the metrics.

A suite is validated when it is read, before anything is loaded or computed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from annotated_types import Ge, Gt

from reagent.errors import FileError, InputError, UnknownNameError
from reagent.methods import uses_replacer
from reagent.metrics.config import EvaluationConfig
from reagent.models.load import DTYPES
from reagent.replacers import make_replacer
from reagent.request import choose_replacer, configure_method
from reagent.validation import check_integer, with_options

KINDS = ("study", "replacers", "hyperparameters", "convergence", "prompts")
_TOML_NAMES: Mapping[type, str] = {
    dict: "a table",
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
}
# The settings of the metrics, and their types in TOML: of one value, or of the items of a list.
_METRIC_OPTIONS: Mapping[str, tuple[type, ...]] = {
    "draws": (int,),
    "pi": (float, int, list),
    "probes": (int,),
    "ratio": (float, int, list),
    "removal": (str, list),
    "rationale": (int,),
    "replacer": (str,),
    "replacer_options": (dict,),
}
T = TypeVar("T")


@dataclass(frozen=True)
class ModelConfig:
    """The arguments of `load_model`; `parameters` (billions) are for estimates only."""

    id: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    batch_size: Annotated[int, Ge(1)] | None = None  # tokens computed at once
    parameters: Annotated[float, Gt(0)] | None = None


@dataclass(frozen=True)
class DatasetConfig:
    """A dataset or a file of prompts, and the number of its examples."""

    id: str
    source: str | None = None
    size: int | None = None  # all
    max_new_tokens: int | None = None  # the dataset's own
    stride: int | None = None


@dataclass(frozen=True)
class MethodConfig:
    """A method with its options. `every` = n makes one config for every n steps up to the maximum."""

    method: str
    label: str = ""
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    replacer: str = "auto"
    replacer_options: Mapping[str, Any] = field(default_factory=dict)
    datasets: Sequence[str] = ()  # the datasets to run on; by default all
    sizes: Mapping[str, int] = field(
        default_factory=dict
    )  # by dataset: the number of examples, the first in random order
    every: int | None = None

    @cached_property
    def info(self) -> dict[str, Any]:
        """Provenance: all options of the method and of its replacer."""
        method, info = configure_method(self.method, self.preset, self.options, self.replacer)
        if uses_replacer(method):
            info["replacer"] = dict(make_replacer(self.replacer, **self.replacer_options).info)
        return info

    def arguments(self) -> dict[str, Any]:
        """The arguments of ExplainRequest.build that choose the method and its replacer."""
        return {
            "method": self.method,
            "preset": self.preset,
            "options": dict(self.options),
            "replacer": self.replacer,
            "replacer_options": dict(self.replacer_options),
        }


@dataclass(frozen=True)
class Suite:
    """A validated benchmark."""

    name: str
    kind: str
    summary: str
    models: tuple[ModelConfig, ...]
    datasets: tuple[DatasetConfig, ...]
    methods: tuple[MethodConfig, ...]
    metrics: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the metrics, as in EvaluationConfig
    seeds: tuple[int, ...] = (0,)
    sample_seed: int = 0
    needs: str = ""  # requirements, shown before a run
    text: str = ""  # its TOML source

    def methods_for(self, dataset: str) -> list[MethodConfig]:
        return [config for config in self.methods if not config.datasets or dataset in config.datasets]


def suites() -> dict[str, str]:
    """The suites in the package, by name, as TOML."""
    folder = resources.files("reagent.bench") / "suites"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    texts = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in files}
    order = ("quick", "standard", "paper")
    return dict(sorted(texts.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order)))


def load_suite(name_or_file: str) -> Suite:
    """A suite of the package by its name, or a TOML file.

    >>> load_suite("quick").kind
    'study'
    """
    bundled = suites()
    if name_or_file in bundled:
        return parse(bundled[name_or_file], name_or_file)
    path = Path(name_or_file).expanduser()
    if not path.exists() and path.suffix != ".toml":
        raise UnknownNameError("suite", name_or_file, bundled, hint=", or a .toml file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read the suite {name_or_file!r}: {error}") from error
    return parse(text, path.stem)


def parse(text: str, name: str) -> Suite:
    """A validated suite from TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"suite {name!r} is not TOML: {error}") from error
    owner = f"suite {name!r}"
    models = [
        _part(ModelConfig, f"a model of {owner}", {"id": m} if isinstance(m, str) else m) for m in _list(data, "models")
    ]
    datasets = [
        _part(DatasetConfig, f"a dataset of {owner}", {"id": d} if isinstance(d, str) else d)
        for d in _list(data, "datasets")
    ]
    configs = [
        _part(MethodConfig, f"a method of {owner}", {"method": m} if isinstance(m, str) else m)
        for m in _list(data, "methods")
    ]
    metrics = data.pop("metrics", {})
    if not isinstance(metrics, Mapping) or not _is_list_of(metrics.get("names", []), str):
        raise InputError(f"metrics of {owner} must be a table with names = […], a list of texts, and settings")
    allowed = {f.name for f in fields(Suite)} - {"models", "datasets", "methods", "metrics", "settings", "text"}
    for key in data:
        if key not in allowed:
            raise UnknownNameError(
                f"entry of {owner}", key, [*sorted(allowed), "models", "datasets", "methods", "metrics"]
            )
    for key in ("name", "kind", "summary", "needs"):
        if not isinstance(data.get(key, ""), str):
            raise InputError(f"{key} of {owner} must be a text, got {data[key]!r}")
    if not _is_list_of(data.get("seeds", [0]), int):
        raise InputError(f"seeds of {owner} must be a list of whole numbers, got {data['seeds']!r}")
    suite = Suite(
        name=data.get("name", name),
        kind=data.get("kind", "study"),
        summary=data.get("summary", ""),
        models=tuple(models),
        datasets=tuple(datasets),
        methods=tuple(one for config in configs for one in _expand(_with_label(config))),
        metrics=tuple(metrics.get("names", ())),
        settings={key: value for key, value in metrics.items() if key != "names"},
        seeds=tuple(data.get("seeds", (0,))),
        sample_seed=data.get("sample_seed", 0),
        needs=data.get("needs", ""),
        text=text,
    )
    check(suite)
    return suite


def check(suite: Suite) -> None:
    """Raise InputError if a suite is not valid."""
    owner = f"suite {suite.name!r}"
    if suite.kind not in KINDS:
        raise UnknownNameError(f"kind of {owner}", suite.kind, KINDS)
    for what in ("models", "datasets", "methods", "seeds"):
        if not getattr(suite, what):
            raise InputError(f"{owner} has no {what}: give at least one")
    for seed in (*suite.seeds, suite.sample_seed):
        check_integer(owner, "seed", seed, 0, 2**31)
    for data in suite.datasets:
        for name in ("size", "max_new_tokens", "stride"):
            if getattr(data, name) is not None:
                check_integer(f"{data.id!r} of {owner}", name, getattr(data, name), 1, 10**9)
    for name, values in (
        ("label", [config.label for config in suite.methods]),
        ("model", [model.id for model in suite.models]),
        ("dataset", [data.id for data in suite.datasets]),
    ):
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise InputError(f"{owner} names the {name} {twice!r} twice: give each its own name")
    for config in suite.methods:
        _check_method(config, suite, owner)
    for key, value in suite.settings.items():
        if key not in _METRIC_OPTIONS:
            raise UnknownNameError(f"setting of the metrics of {owner}", key, ["names", *_METRIC_OPTIONS])
        allowed = _METRIC_OPTIONS[key]
        if type(value) not in allowed or (
            type(value) is list and any(type(item) not in allowed[:-1] for item in value)
        ):
            names = " or ".join(_TOML_NAMES.get(kind, kind.__name__) for kind in allowed)
            raise InputError(f"{key} of the metrics of {owner} must be {names}, got {value!r}")
    for model in suite.models:
        if model.dtype.removeprefix("torch.") not in DTYPES:
            raise UnknownNameError(f"dtype of {model.id!r} of {owner}", model.dtype, DTYPES)
    make_replacer(suite.settings.get("replacer", "auto"), **suite.settings.get("replacer_options", {}))
    if suite.metrics:
        EvaluationConfig(metrics=suite.metrics, **suite.settings)


def _check_method(config: MethodConfig, suite: Suite, owner: str) -> None:
    try:
        method, info = configure_method(config.method, config.preset, config.options, config.replacer)
        choose_replacer(method, info, config.replacer, config.replacer_options, what_if=False)
    except InputError as error:
        raise InputError(f"{config.label!r} of {owner}: {error}") from error
    if not isinstance(config.sizes, Mapping):
        raise InputError(f"sizes of {config.label!r} of {owner} must be a table, as {{ longra = 30 }}")
    for dataset, size in config.sizes.items():
        check_integer(f"{config.label!r} of {owner}", f"sizes.{dataset}", size, 1)
    known = [data.id for data in suite.datasets]
    for dataset in (*config.datasets, *config.sizes):
        if dataset not in known:
            raise UnknownNameError(f"dataset of {config.label!r} of {owner}", dataset, known)


def _with_label(config: MethodConfig) -> MethodConfig:
    """With a label; by default the method and its preset."""
    usual = f"{config.method} ({config.preset})" if config.preset else config.method
    return config if config.label else replace(config, label=usual)


def _expand(config: MethodConfig) -> list[MethodConfig]:
    """One config for every `every` steps, each with the draws of the longest."""
    if config.every is None:
        return [config]
    check_integer(f"{config.label!r}", "every", config.every, 1)
    most = config.options.get("max_steps", 1000)
    check_integer(f"{config.label!r}", "max_steps", most, 1)
    return [
        replace(
            config,
            label=f"{config.label} {steps}",
            options={**config.options, "max_steps": steps, "runs": 1, "stop": False, "ahead": config.every},
            every=None,
        )
        for steps in range(config.every, most + 1, config.every)
    ]


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.pop(name, [])
    if not isinstance(value, list):
        raise InputError(f"{name} of a suite must be a list, got {value!r}")
    return value


def _part(kind: type[T], owner: str, given: Any) -> T:
    """One of the dataclasses above from a table."""
    if not isinstance(given, Mapping):
        raise InputError(f"{owner} must be a name or a table, got {given!r}")
    (first, *_) = fields(kind)  # type: ignore[arg-type]
    if not given.get(first.name):
        raise InputError(f"{owner} needs {first.name!r}")
    if not isinstance(given[first.name], str):
        raise InputError(f"{first.name!r} of {owner} must be a text, got {given[first.name]!r}")
    part = with_options(kind(given[first.name]), given, owner)  # type: ignore[call-arg]
    _check_types(part, owner)
    return part


def _check_types(part: Any, owner: str) -> None:
    """Compare the values of a dataclass with the declared types of its fields."""
    from pydantic import TypeAdapter, ValidationError

    for name, kind in get_type_hints(type(part), include_extras=True).items():
        value = getattr(part, name)
        try:
            TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"].replace("Input should be", "must be")
            raise InputError(f"{name!r} of {owner} {message}, got {value!r}") from error


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)
