"""Kill a benchmark at random moments, go on each time, and compare the table with that of an undisturbed run.

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
# Says when the work begins, so that no kill is wasted on the loading of libraries.
CHILD = """
import sys
from reagent.bench import runner
from reagent.bench import worker
from reagent.bench.suite import load_suite
do = worker.Worker.do
def streaming(self, job):
    print("working", flush=True)
    return do(self, job)
worker.Worker.do = streaming
runner.run(load_suite(sys.argv[1]), sys.argv[2])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = folder / "interrupted.toml"
        suite.write_text(SUITE.format(model=given.model))
        seconds = finish(suite, folder / "whole.sqlite")
        whole = table(folder / "whole.sqlite")
        rng = random.Random(given.seed)
        kills: list[int] = []  # how many cells there were each time
        equal: list[bool] = []
        while len(kills) < given.kills:
            out = folder / f"{len(equal)}.sqlite"
            kills += killed(suite, out, given.kills - len(kills), 5 * seconds / JOBS, rng)
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


def killed(suite: Path, out: Path, most: int, longest: float, rng: random.Random) -> list[int]:
    """Start and kill, again and again, until nothing is left to do or there were enough."""
    found = []
    while len(found) < most:
        process = start(suite, out)
        if not process.stdout or not process.stdout.readline():
            process.wait()
            break
        time.sleep(rng.uniform(0, longest))
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        found.append(len(table(out)))
    return found


def finish(suite: Path, out: Path) -> float:
    """Run to the end; how long the work itself took."""
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
    """Everything but when it was made and how long it took."""
    found = {}
    with Store.open(path) as store:
        for cell in store.cells(None):
            assert cell.explanation is not None, cell.error
            assert cell.evaluation is not None, cell.error
            why, numbers = cell.explanation.to_dict(), cell.evaluation.to_dict()["results"]
            found[cell.place] = cell.key, why["scores"], why["effects"], why["stderr"], numbers
    return found


if __name__ == "__main__":
    main()
