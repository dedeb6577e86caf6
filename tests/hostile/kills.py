"""Kills of real processes: people on the page while the service is killed, and a benchmark killed at random moments."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from web.service import ENDED, PROMPT

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"
WAIT = 120.0  # seconds until a client gives up
# Prints a line when the first job begins, so that no kill happens while libraries are loaded.
BENCH = """
import sys
from reagent.bench import worker
from reagent.cli import main
do = worker.Worker.do
def announce(self, job):
    print("working", flush=True)
    return do(self, job)
worker.Worker.do = announce
main(["bench", "run", sys.argv[1], "--out", sys.argv[2]])
"""
SUITE = """
models = ["{model}"]
methods = ["random", {{ method = "occlusion", preset = "deletion" }}]
[[datasets]]
id = "{prompts}"
max_new_tokens = 3
stride = 2
[metrics]
names = ["lds"]
probes = 8
replacer = "random"
"""


def environment() -> dict[str, str]:
    paths = [str(SOURCE), str(TESTS), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}


class Person:
    """Somebody who asks once, and waits for the answer whatever happens to the service."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self.seed = address, seed
        self.name = ""  # of the accepted job
        self.state = "not accepted"

    def run(self) -> None:
        end = time.monotonic() + WAIT
        body = {"prompt": PROMPT, "max_new_tokens": 1, "seed": self.seed, "probes": 32, "replacer": "random"}
        with httpx.Client(base_url=self.address, timeout=10) as client:
            while time.monotonic() < end and self.state not in (*ENDED, "lost"):
                try:
                    self._step(client, body)
                except httpx.HTTPError:  # the service is down
                    time.sleep(0.1)

    def _step(self, client: Any, body: dict[str, Any]) -> None:
        if not self.name:
            response = client.post("/api/jobs", json=body)
            if response.status_code == 201:
                self.name, self.state = response.json()["id"], "accepted"
            else:
                time.sleep(0.2)
            return
        response = client.get(f"/api/jobs/{self.name}")
        self.state = response.json()["state"] if response.status_code == 200 else "lost"
        time.sleep(0.1)


def kill_service(people: int = 50, kills: int = 2) -> dict[str, Any]:
    """People ask at once; the service is killed `kills` times and started again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        crowd = [Person(f"http://127.0.0.1:{port}", seed) for seed in range(people)]
        threads = [threading.Thread(target=person.run) for person in crowd]
        finished_at_kills = []
        with _service(name, port) as process:
            for thread in threads:
                thread.start()
            for number in range(1, kills + 1):
                _wait_until_finished(crowd, number * people // (kills + 2))
                finished_at_kills.append(sum(person.state in ENDED for person in crowd))
                process.kill()
                process.wait()
                process = _start(name, port)
            for thread in threads:
                thread.join()
            process.kill()
            process.wait()
    states = Counter(person.state for person in crowd)
    return {"people": people, "kills": kills, "finished_at_kills": finished_at_kills, "states": dict(states)} | {
        "lost": people - states["done"]
    }


def _wait_until_finished(crowd: list[Person], count: int) -> None:
    end = time.monotonic() + WAIT
    while sum(person.state in ENDED for person in crowd) < count and time.monotonic() < end:
        time.sleep(0.01)


@contextmanager
def _service(folder: str, port: int) -> Iterator["subprocess.Popen[str]"]:
    process = _start(folder, port)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _start(folder: str, port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "hostile.scripted_service", folder, str(port)]
    process = subprocess.Popen(command, env=environment(), cwd=TESTS, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def kill_benchmark(kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill `bench run` at random moments and run it again; its results are those of a run without kills."""
    import tiny
    from bench.small import table

    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny.network_of("gpt2").save_pretrained(folder / "model")
        tiny.tokenizer_of("gpt2").save_pretrained(folder / "model")
        prompts = [text[: int(rng.integers(20, 60))] for text in tiny.TEXT * 2]
        (folder / "prompts.txt").write_text("\n".join(prompts))
        suite = folder / "suite.toml"
        suite.write_text(SUITE.format(model=folder / "model", prompts=folder / "prompts.txt"))
        seconds = _bench(suite, folder / "whole.sqlite")
        cells = []
        for _ in range(kills):
            _bench(suite, folder / "killed.sqlite", after=float(rng.uniform(0.2, 0.9)) * seconds)
            cells.append(len(table(folder / "killed.sqlite")))
        _bench(suite, folder / "killed.sqlite")
        whole = table(folder / "whole.sqlite")
        same = table(folder / "killed.sqlite") == whole
    return {"kills": kills, "cells_at_kills": cells, "cells": len(whole), "equal_to_a_run_without_kills": same}


def _bench(suite: Path, out: Path, after: float | None = None) -> float:
    """Run a benchmark, or kill it some seconds after its first job began; return the seconds of its jobs."""
    command = [sys.executable, "-c", BENCH, str(suite), str(out)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    begin = time.monotonic()
    try:
        _, log = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    else:
        assert process.returncode == 0, log
    return time.monotonic() - begin


def long_prompt_memory(tokens: int = 3000, model: str = "smollm2", probes: int = 16) -> dict[str, Any]:
    """The peak memory of `reagent explain` with a long prompt; it does not grow with the number of probes."""
    code = (
        "import resource, sys, reagent\n"
        "model = reagent.load_model(sys.argv[1])\n"
        "loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "text = ' The river runs through the old town.' * (int(sys.argv[2]) // 8)\n"
        "why = reagent.explain(model, text, max_new_tokens=1, units='sentence', probes=int(sys.argv[3]))\n"
        "ids = sum(len(unit.ids) for unit in why.input)\n"
        "print(ids, loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    command = [sys.executable, "-c", code, model, str(tokens), str(probes)]
    begin = time.monotonic()
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if result.returncode:
        return {"error": result.stderr.strip().splitlines()[-1]}
    count, loaded, peak = map(int, result.stdout.split()[-3:])
    return {
        "model": model, "tokens": count, "probes": probes, "seconds": round(time.monotonic() - begin),
        "megabytes_after_loading": loaded // 1024, "peak_megabytes": peak // 1024,
    }  # fmt: skip
