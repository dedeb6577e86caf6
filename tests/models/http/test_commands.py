"""Servers on the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from models.http.conftest import Truth
from models.http.servers import Proxy, a_port_where_nobody_listens, proxied, stalled
from reagent.cli import main
from reagent.schemas import read_schema

PROMPT = "My aunt moved to Japan to teach music."
QUICK = ["--max-new-tokens", "2", "--replacer", "self"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


def test_explaining_evaluating_and_comparing(
    server: Callable[..., Any], run: Callable[..., Any], truth: Truth, tmp_path: Path
) -> None:
    url, app = server(reports_ids_on_request=True)
    options = ["--tokenizer", truth.folder, "--cache", tmp_path / "replies.sqlite", "--concurrency", "2"]
    file = tmp_path / "why.json"
    explain = ["explain", PROMPT, "--model", f"{url}/v1#tiny", *options, *QUICK, "--probes", "16", "--json", file]
    code, out, err = run(*explain)
    assert (code, err) == (0, "")
    assert " requests, " in out
    assert "tokens of the tokenizer" in " ".join(out.split())
    data = json.loads(file.read_text())
    schema = read_schema("explanation")
    jsonschema.validate(data, schema)
    assert data["model"]["id"] == f"{url}#tiny"
    assert data["cost"]["requests"] >= 18

    asked = len(app.seen)
    code, _, err = run(*explain)
    assert code == 0
    assert re.fullmatch(r"reagent: \d+ responses are from the cache; 0 requests to the server\n", err)
    assert len(app.seen) - asked <= 5, "all but finding out comes from the cache"
    assert run(*explain, "--quiet") == (0, "", "")
    assert json.loads(file.read_text())["cost"]["requests"] == 0

    code, out, _ = run("evaluate", file, *options, "--metrics", "lds,sufficiency", "--draws", "2", "--probes", "8")
    assert code == 0
    assert "sufficiency" in out
    code, _, err = run("evaluate", file, *options, "--metrics", "soft_nc")
    assert (code, "reads embeddings" in err) == (2, True)
    compare = ["compare", PROMPT, "--methods", "random,occlusion:deletion", "--model", url, *options]
    assert run(*compare, "--max-new-tokens", "1")[0] == 0


def test_a_dry_run_tells_what_it_would_take_and_pays_nothing(
    server: Callable[..., Any], run: Callable[..., Any], truth: Truth
) -> None:
    for echo in (True, False):
        url, app = server(echo=echo)
        words = ["explain", PROMPT, "--model", url, "--tokenizer", truth.folder, *QUICK, "--probes", "16"]
        code, out, _ = run(*words, "--dry-run")
        assert code == 0
        told = {line.split("  ")[0]: line for line in out.splitlines()}
        echoed, next_token = (told[f"with {name} log-probabilities"] for name in ("echoed prompt", "next-token"))
        assert ("this server" in echoed, "this server" in next_token) == (echo, not echo)
        assert len(app.seen) <= 5, "finding out what the server can do is all"
        most = int((echoed if echo else next_token).split()[4 if echo else 3].replace(",", ""))
        code, out, _ = run(*words, "--json", "-")
        assert code == 0
        assert 0.6 * most <= json.loads(out)["cost"]["requests"] <= most


def test_a_dry_run_of_a_local_model(run: Callable[..., Any], tiny_folder: Path) -> None:
    code, out, _ = run("explain", PROMPT, "--model", tiny_folder, *QUICK, "--preset", "paper", "--dry-run")
    assert code == 0
    assert out.startswith("at most 12,002 forward passes")


def test_a_long_run_is_announced(
    server: Callable[..., Any],
    run: Callable[..., Any],
    truth: Truth,
    messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["explain", PROMPT, "--model", server()[0], "--tokenizer", truth.folder, "--target", " the"]
    words += ["--replacer", "self", "--probes", "16"]
    monkeypatch.setattr("reagent.cli.dry_run.LONG_RUN", 23)
    code, _, _ = run(*words)
    assert code == 0
    assert messages[-1].startswith("at most 23 requests with ")
    messages.clear()
    monkeypatch.setattr("reagent.cli.dry_run.LONG_RUN", 24)
    assert run(*words)[0] == 0
    assert messages == []


def test_what_a_server_can_do_as_a_table(server: Callable[..., Any], run: Callable[..., Any]) -> None:
    code, out, _ = run("models", "inspect", server(bias="biased", reports_ids_on_request=True, chat=True)[0])
    assert code == 0
    table = {line[: out.index("http://")].strip(): line[out.index("http://") :] for line in out.splitlines()}
    assert table["model"] == "tiny"
    assert table["prompt log-probabilities"] == "yes (echo): one request for each probe"
    assert table["prompts as token ids"] == "yes"
    assert table["top log-probabilities"] == "20"
    assert table["tokens (/tokenize)"] == "yes"
    assert table["token ids in responses"] == "on request"
    assert table["chat"] == "yes, top 20; continues an unfinished answer"
    code, out, _ = run("models", "inspect", server(completions=False, chat=True, continues=False, tokenize=None)[0])
    assert code == 0
    assert "scores an answer up to the first token that changes" in out
    assert "words are explained" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--concurrency", "0"], 2, "--concurrency of a server must be a whole number"),
        (["--server", "top"], 2, "--server takes NAME=VALUE"),
        (["--server", "colour=red"], 2, "has no option 'colour'"),
        (["--device", "cpu"], 2, "a server has its own device"),
        ([], 1, "cannot be reached"),
    ],
)
def test_errors_are_one_line(run: Callable[..., Any], words: list[str], code: int, message: str) -> None:
    answer = run("explain", PROMPT, "--model", f"http://127.0.0.1:{a_port_where_nobody_listens()}", *words)
    assert answer[0] == code
    assert answer[1] == ""
    assert answer[2].startswith("error: ")
    assert answer[2].count("\n") == 1
    assert message in answer[2]


def test_an_interrupt_does_not_wait_for_the_server(server: Callable[..., Any]) -> None:
    stop, begun = threading.Event(), threading.Event()
    fault = stalled(stop)
    silent = fault.act

    def act(*given: Any) -> None:
        begun.set()
        silent(*given)

    fault.act = act
    with ExitStack() as running:
        running.callback(stop.set)
        url = running.enter_context(proxied(Proxy(server()[0], {8: fault, 9: fault, 10: fault})))
        words = [sys.executable, "-m", "reagent", "explain", PROMPT, "--model", url, *QUICK, "--server", "timeout=900"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_PROXY": "*"}) as process:
            assert begun.wait(120)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=25) == 130  # the server stalls for longer
            assert process.stderr is not None
            assert process.stderr.read().strip().endswith("interrupted")
