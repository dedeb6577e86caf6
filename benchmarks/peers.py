"""Other packages that estimate importance, each in an environment of its own under the cache folder.

A peer runs `peer_side.py` as a process. Both sides send one JSON object per line. The benchmark sends a job. A peer
that needs values of the deletion game sends `{"kept": [[0, 1, …], …]}` and gets `{"values": […]}`. At the end it sends
`{"scores": […]}` or `{"error": …}`. ContextCite scores texts itself, with the same weights.

The environments see the packages of the running one (torch, transformers, numpy), and hold only what these lack.
"""

import json
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reagent.models.cache import cache_folder

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Value = Callable[[Mask], Floats]  # [subsets, units], whether each unit is kept → [subsets]

REQUIREMENTS = {
    "scikit-learn": ("scikit-learn>=1.5",),
    "shapiq": ("shapiq==1.4.1", "lightgbm"),
    "context-cite": ("context-cite==0.0.4",),
    "inseq": ("inseq==0.7.1",),
    "shap": ("shap==0.51.0",),
    "lime": ("lime==0.2.0.1",),
    "interpreto": ("interpreto==0.5.2",),
}
SIDE = Path(__file__).with_name("peer_side.py")
SITE = Path(np.__file__).resolve().parents[1]  # the packages of the running environment


class PeerError(Exception):
    """A peer that cannot be installed, or that failed."""


class Peers:
    """Starts a process for each environment when it is first needed, and keeps it."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._broken: dict[str, str] = {}
        self.start_seconds = 0.0  # spent on installing and importing

    def ask(self, environment: str, job: dict[str, Any], value: Value | None = None) -> dict[str, Any]:
        """The answer of a peer to a job; `value` answers its questions about the game."""
        process = self._process(environment)
        self._send(process, job)
        while True:
            answer = self._receive(process, environment)
            if "kept" in answer:
                assert value is not None
                self._send(process, {"values": value(np.array(answer["kept"], dtype=np.bool_)).tolist()})
            elif "error" in answer:
                raise PeerError(answer["error"])
            else:
                return answer

    def close(self) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _process(self, environment: str) -> subprocess.Popen[str]:
        if environment in self._broken:
            raise PeerError(self._broken[environment])
        if environment not in self._processes:
            begin = time.perf_counter()
            try:
                self._start(environment)
            except PeerError as error:
                self._broken[environment] = str(error)
                raise
            finally:
                self.start_seconds += time.perf_counter() - begin
        return self._processes[environment]

    def _start(self, environment: str) -> None:
        pipe, command = subprocess.PIPE, [install(environment), SIDE]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self._processes[environment] = process
        self._send(process, {"method": "start", "environment": environment})
        answer = self._receive(process, environment)
        if "error" in answer:
            raise PeerError(answer["error"])

    def _send(self, process: subprocess.Popen[str], message: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()

    def _receive(self, process: subprocess.Popen[str], environment: str) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            del self._processes[environment]
            raise PeerError(f"the process of {environment} ended with code {process.wait()}")
        return dict(json.loads(line))


def install(environment: str) -> Path:
    """The Python of an environment; the first call on a machine creates it."""
    folder = cache_folder() / "benchmarks" / "environments" / environment
    python, complete = folder / "bin" / "python", folder / "complete.txt"
    requirements = REQUIREMENTS[environment]
    if complete.is_file() and complete.read_text() == "\n".join(requirements):
        return python
    print(f"installing {environment} in {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    (own,) = (folder / "lib").glob("python*/site-packages")
    (own / "running_environment.pth").write_text(f"{SITE}\n")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR")]
        raise PeerError(f"pip cannot install {environment}: {' '.join(errors)}"[:300])
    complete.write_text("\n".join(requirements))
    return python
