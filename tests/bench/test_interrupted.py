"""kill -9, with a real process, in the middle of a job: nothing is lost, nothing is there twice."""

import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

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
explain = worker.explain
def slowly(*given, **more):  # so that there is a middle to be killed in
    print(more["method"], flush=True)
    time.sleep(0.3)
    return explain(*given, **more)
worker.explain = slowly
runner.run(load_suite(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_where_it_was(how: signal.Signals, small: Suite, results: Path, tmp_path: Path) -> None:
    suite, out = tmp_path / "small.toml", tmp_path / "killed.sqlite"
    suite.write_text(small.text)
    process = subprocess.Popen([sys.executable, "-c", CODE, suite, out], stdout=PIPE, stderr=PIPE, text=True)
    assert process.stdout is not None
    for _ in range(len(small.methods) + 2):  # one job is done, and the next is under way
        assert process.stdout.readline()
    process.send_signal(how)
    process.communicate()
    with Store.open(out) as store:
        assert len(store.states()) == len(small.methods)
    assert run(small, out).done == 2 * len(small.methods)
    assert table(out) == table(results)
