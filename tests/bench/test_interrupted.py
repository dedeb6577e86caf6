"""Ctrl-C and kill -9, with a real process, in the middle of a job: nothing is lost, nothing is there twice."""

import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

from bench.small import table
from reagent.bench.runner import run
from reagent.bench.store import Store
from reagent.bench.suite import Suite

CODE = """
import sys, time
from reagent.bench import runner
from reagent.bench import worker
from reagent.bench.suite import load_suite
import torch; torch.set_num_threads(1)
run = worker.run
def run_slowly(model, request, on_progress):  # so that the process can be killed during a job
    print(request.method_info["id"], flush=True)
    time.sleep(0.3)
    return run(model, request, on_progress)
worker.run = run_slowly
runner.run(load_suite(sys.argv[1]), sys.argv[2])
"""


def test_an_interrupted_and_a_killed_run_go_on_where_they_were(small: Suite, results: Path, tmp_path: Path) -> None:
    suite, out = tmp_path / "small.toml", tmp_path / "killed.sqlite"
    suite.write_text(small.text)
    for jobs, how in enumerate([signal.SIGINT, signal.SIGKILL], start=1):
        process = subprocess.Popen([sys.executable, "-c", CODE, suite, out], stdout=PIPE, stderr=PIPE, text=True)
        assert process.stdout is not None
        for _ in range(len(small.methods) + 2):  # one job is done, and the next is under way
            assert process.stdout.readline()
        process.send_signal(how)
        process.communicate()
        with Store.open(out) as store:
            assert len(store.states()) == jobs * len(small.methods)
    assert run(small, out).done == len(small.methods)
    assert table(out) == table(results)
