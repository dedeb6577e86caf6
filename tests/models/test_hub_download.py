"""A model that comes from a hub: the size of the download is shown while it arrives. The hub is an imitation."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

LOAD = """
import logging, sys
from reagent import progress_bars
from reagent.models.load import load_model

progress_bars.LINE_INTERVAL = 0.5
logging.basicConfig(stream=sys.stderr, format="%(message)s")
logging.getLogger("reagent").setLevel("INFO")
print(load_model("org/tiny").info["id"])
"""


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does for one model; its weights take a second and a half to arrive."""

    folder: Path

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        file = self.folder / path.rpartition("/")[2]
        if path.startswith("/api/models/org/tiny/tree"):
            self.reply(b"[]", body)
        elif path.startswith("/api/models/org/tiny"):
            files = [{"rfilename": one.name, "size": one.stat().st_size} for one in self.folder.iterdir()]
            self.reply(json.dumps({"id": "org/tiny", "sha": "0" * 40, "siblings": files}).encode(), body)
        elif path.startswith("/org/tiny/resolve/") and file.is_file():
            self.reply(file.read_bytes(), body, slow=file.suffix == ".safetensors")
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def reply(self, content: bytes, body: bool, slow: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:08x}"')
        self.end_headers()
        part = max(1, len(content) // 30)
        for start in range(0, len(content) if body else 0, part):
            self.wfile.write(content[start : start + part])
            time.sleep(0.05 if slow else 0)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tiny_folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("TinyHub", (Hub,), {"folder": tiny_folder}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_size_of_a_download_is_shown(hub: str, tmp_path: Path) -> None:
    settings = {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", LOAD], env=os.environ | settings, capture_output=True, text=True, timeout=120
    )
    assert answer.stdout == "org/tiny\n", answer.stderr
    lines = [line for line in answer.stderr.splitlines() if line.startswith("fetching org/tiny: ")]
    assert any(" kB of " in line for line in lines), answer.stderr
