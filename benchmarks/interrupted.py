"""Kill a benchmark at random moments, resume it each time, and compare the results with an uninterrupted run.

python benchmarks/interrupted.py            # prints JSON; some minutes on two cores
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from reagent.bench.store import Store

SUITE = """
models = ["{model}"]
methods = ["random", "attention", {{ method = "occlusion", preset = "deletion" }}]
[[datasets]]
id = "longra"
size = 14
[[datasets]]
id = "tellmewhy"
size = 2
max_new_tokens = 6
[metrics]
names = ["soft_nc", "lds", "ante", "no_d"]
draws = 2
probes = 8
"""
JOBS = 16
# Prints a line when the first job begins, so that no kill happens while libraries are loaded.
CHILD = """
import sys
from reagent.bench import runner
from reagent.bench import worker
from reagent.bench.suite import load_suite
do = worker.Worker.do
def announce(self, job):
    print("working", flush=True)
    return do(self, job)
worker.Worker.do = announce
runner.run(load_suite(sys.argv[1]), sys.argv[2])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = folder / "interrupted.toml"
        suite.write_text(SUITE.format(model=arguments.model))
        seconds = finish(suite, folder / "whole.sqlite")
        whole = table(folder / "whole.sqlite")
        rng = random.Random(arguments.seed)
        kills: list[int] = []  # the number of finished cells at each kill
        equal: list[bool] = []
        while len(kills) < arguments.kills:
            out = folder / f"{len(equal)}.sqlite"
            kills += run_and_kill(suite, out, arguments.kills - len(kills), 5 * seconds / JOBS, rng)
            finish(suite, out)
            equal.append(table(out) == whole)
    print(
        json.dumps(
            {
                "kills": len(kills),
                "cells_at_each_kill": kills,
                "runs": len(equal),
                "cells": len(whole),
                "equal_to_an_undisturbed_run": equal,
                "seconds_undisturbed": round(seconds, 1),
            },
            indent=1,
        )
    )


def run_and_kill(suite: Path, out: Path, most: int, longest: float, rng: random.Random) -> list[int]:
    """Start and kill the run until it is complete or was killed `most` times; the number of cells at each kill."""
    cells = []
    while len(cells) < most:
        process = start(suite, out)
        if not process.stdout or not process.stdout.readline():
            process.wait()
            break
        time.sleep(rng.uniform(0, longest))
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        cells.append(len(table(out)))
    return cells


def finish(suite: Path, out: Path) -> float:
    """Run to the end; the seconds from the first job on."""
    process = start(suite, out)
    assert process.stdout is not None
    process.stdout.readline()
    begin = time.perf_counter()
    process.stdout.read()
    if process.wait() != 0:
        raise SystemExit("the run failed")
    return time.perf_counter() - begin


def start(suite: Path, out: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", CHILD, suite, out], stdout=subprocess.PIPE, text=True)


def table(path: Path) -> dict[Any, Any]:
    """All results of a run, without dates and times."""
    cells = {}
    with Store.open(path) as store:
        for cell in store.cells(None):
            assert cell.explanation is not None, cell.error
            assert cell.evaluation is not None, cell.error
            why, numbers = cell.explanation.to_dict(), cell.evaluation.to_dict()["results"]
            cells[cell.place] = cell.key, why["scores"], why["effects"], why["stderr"], numbers
    return cells


if __name__ == "__main__":
    main()
