"""The command line keeps its contract: what goes where, exit codes, one clear line for every bad input."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from reagent.schemas import read_schema

FAST = ["--preset", "paper", "--max-steps", "5", "--runs", "1", "--max-new-tokens", "2"]
PROMPT = "The river runs through the old town,"


def test_explain_shows_and_writes_everything(explain, run, tmp_path: Path) -> None:
    paths = [tmp_path / f"why.{kind}" for kind in ("json", "html", "png")]
    answer = explain(PROMPT, *FAST, "--json", paths[0], "--html", paths[1], "--png", paths[2])
    assert answer.code == 0, answer.err
    assert "forward passes" in answer.out
    assert answer.err == "", "progress only on a terminal"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["why.html", "why.json", "why.png"]
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_text(encoding="utf-8").startswith("<!")

    again = run("show", paths[0], "--html", tmp_path / "again.html")
    assert again.code == 0
    assert again.out == answer.out
    assert (tmp_path / "again.html").read_text() == paths[1].read_text()


def test_json_alone_goes_to_standard_output(explain) -> None:
    answer = explain(PROMPT, *FAST, "--json", "-")
    data = json.loads(answer.out)
    schema = read_schema("explanation")
    jsonschema.validate(data, schema)
    assert data["prompt"] == PROMPT
    assert [len(row) for row in data["scores"]] == [len(data["input"]), len(data["input"]) + 1]
    settings = {"ratio": 0.3, "keep": 0.3, "top_k": 3, "runs": 1, "max_steps": 5, "stop": True, "ahead": 32}
    settings["scores"] = "softmax of the published sum, mean over runs"
    assert data["method"] == {"id": "reagent", "preset": "paper"} | settings


def test_the_same_seed_gives_the_same_json_and_another_does_not(explain) -> None:
    def scores(seed: int) -> object:
        return json.loads(explain(PROMPT, *FAST, "--seed", seed, "--json", "-").out)["scores"]

    assert scores(1) == scores(1)
    assert scores(1) != scores(2)


def test_quiet_is_silent(explain, tmp_path: Path) -> None:
    answer = explain(PROMPT, *FAST, "--quiet", "--json", tmp_path / "a.json")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "a.json").exists()


def test_a_first_conversion_is_one_plain_line_and_none_if_quiet(run, tmp_path: Path, monkeypatch) -> None:
    from models.test_gguf import write_gguf

    path = write_gguf(tmp_path / "tiny.gguf")
    for words, expected in (
        ([], r"reagent: converting tiny\.gguf to \d+ kB, once; this can take a minute\n"),
        (["--quiet"], ""),
    ):
        monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / f"cache{len(words)}"))
        answer = run("explain", "abc", "--model", path, "--max-new-tokens", 1, "--probes", 8, *words)
        assert answer.code == 0
        assert re.fullmatch(expected, answer.err), answer.err


def test_prompts_from_a_file_and_from_standard_input(explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    (tmp_path / "prompt.txt").write_text(PROMPT + "\n", encoding="utf-8")
    assert json.loads(explain("--file", tmp_path / "prompt.txt", *FAST, "--json", "-").out)["prompt"] == PROMPT
    monkeypatch.setattr(sys, "stdin", io.StringIO(PROMPT + "\r\n"))
    assert json.loads(explain("-", *FAST, "--json", "-").out)["prompt"] == PROMPT


def test_a_target_of_several_tokens_is_explained_token_by_token(explain) -> None:
    data = json.loads(explain(PROMPT, "--target", " and the children", *FAST[:-2], "--json", "-").out)
    assert data["completion"] == " and the children"
    assert len(data["output"]) == len(data["scores"]) > 1


def test_every_option_reaches_the_method(explain) -> None:
    words = ["--ratio", "0.5", "--keep", "4", "--top-k", "2", "--ahead", "7", "--candidates", "3", "--replacer", "self"]
    data = json.loads(explain(PROMPT, *FAST, *words, "--json", "-").out)
    assert data["method"]["keep"] == 4
    assert isinstance(data["method"]["keep"], int)
    assert (data["method"]["ratio"], data["method"]["top_k"], data["method"]["ahead"]) == (0.5, 2, 7)
    assert data["replacer"] == {"id": "self", "candidates": 3, "weighted": False}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([""], "the prompt is empty"),
        (["   "], "the prompt is empty"),
        ([], "give one prompt"),
        (["x", "--file", "y"], "give one prompt"),
        (["--file", "/no/such/file"], "cannot read the prompt from '/no/such/file'"),
        ([PROMPT, "--target", ""], "--target is empty"),
        ([PROMPT, "--target", " x", "--max-new-tokens", "3"], "--target or --max-new-tokens"),
        ([PROMPT, "--max-new-tokens", "0"], "--max-new-tokens must be at least 1"),
        ([PROMPT, "--method", "reagant"], "unknown method 'reagant', did you mean 'reagent'?"),
        ([PROMPT, "--preset", "slow"], "unknown preset of method 'reagent' 'slow'"),
        ([PROMPT, "--replacer", "robert"], "unknown replacer 'robert'"),
        ([PROMPT, "--ratio", "7"], "--ratio of preset 'paper' must be between 1e-09 and 1, got 7.0"),
        ([PROMPT, "--runs", "many"], "Invalid value for '--runs'"),
        ([PROMPT, "--seed", "-1"], "--seed must be between 0 and 9223372036854775807, got -1"),
        ([PROMPT, "--device", "toaster"], "device 'toaster' is not available here"),
        ([PROMPT, "--dtype", "float8"], "unknown dtype 'float8'"),
        ([PROMPT, "--json", "/no/such/folder/a.json"], "there is no folder '/no/such/folder'"),
        ([PROMPT, "--html", "/proc/a.html"], "cannot write '/proc/a.html'"),
        ([PROMPT, "--png", "/"], "it is a folder"),
        ([PROMPT, "--token", "10"], "there is no output token 10"),
        ([PROMPT, "--revision", "main"], "only hub models have revisions"),
        ([PROMPT, "--json", "x" * 300], "cannot write"),
        ([PROMPT, "--runs", "0"], "--runs of preset 'paper' must be a whole number from 1 to 1000000, got 0"),
        ([PROMPT, "--no-such-option"], "--no-such-option"),
        (["river " * 300], "reads at most 128: shorten them"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(explain, words: list[str], message: str) -> None:
    preset = [] if "--preset" in words else ["--preset", "paper"]
    answer = explain(*words, *preset)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


@pytest.mark.parametrize(
    "words",
    [
        [""],
        [PROMPT, "--seed", "-1"],
        [PROMPT, "--target", ""],
        [PROMPT, "--max-new-tokens", "0"],
        [PROMPT, "--token", "-9"],
    ],
)
def test_wrong_words_are_found_before_a_model_is_loaded(run, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr("reagent.models.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    assert run("explain", *words).code == 2


def test_two_outputs_to_one_file_are_refused(explain, tmp_path: Path) -> None:
    answer = explain(PROMPT, *FAST, "--json", tmp_path / "a", "--html", tmp_path / "a")
    assert answer.code == 2
    assert "name the same file" in answer.err


def test_no_words_at_all_show_the_help(run) -> None:
    answer = run()
    assert answer.code == 0
    assert "explain" in answer.out
    assert answer.err == ""


def test_standard_input_that_is_not_text(tiny_folder: Path) -> None:
    words = [sys.executable, "-m", "reagent", "explain", "-", "--model", str(tiny_folder)]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    answer = subprocess.run(words, input=b"\xff\xfe", capture_output=True, env=strict, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"error: standard input is not text")


def test_a_prompt_with_nothing_to_replace(explain) -> None:
    answer = explain("a", "--target", "x", "--replacer", "random", "--candidates", "1", "--seed", "424")
    assert answer.code == 2
    assert "there is nothing to replace" in answer.err


def test_a_masked_lm_means_the_replacer_roberta(explain) -> None:
    answer = explain(PROMPT, *FAST, "--masked-lm", "./no-such-folder")
    assert answer.code == 2
    assert "there is no model folder './no-such-folder'" in answer.err


def test_an_unknown_model_is_exit_code_2(run) -> None:
    answer = run("explain", PROMPT, "--model", "./no-such-model")
    assert answer.code == 2
    assert "there is no model folder './no-such-model'" in answer.err


def test_a_prompt_of_one_token(explain) -> None:
    data = json.loads(explain("a", *FAST[:-1], "1", "--json", "-").out)
    assert data["scores"] == [[1.0]]


def test_debug_shows_the_traceback(tiny_folder: Path) -> None:
    words = [sys.executable, "-m", "reagent", "explain", "", "--model", str(tiny_folder), "--debug"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Traceback" in answer.stderr


def test_an_unexpected_failure_is_one_line_too(explain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reagent.request.make_replacer", lambda *_, **__: 1 / 0)
    answer = explain(PROMPT, *FAST)
    assert answer.code == 1
    assert answer.err == "error: unexpected ZeroDivisionError: division by zero (run again with --debug for details)\n"


def test_interrupted_in_the_middle_is_130_and_leaves_no_file(tiny_folder: Path, tmp_path: Path) -> None:
    words = ["explain", PROMPT, "--model", tiny_folder, "--preset", "paper", "--target", " x y z", "--top-k", "1"]
    words += ["--max-steps", "1000000", "--json", tmp_path / "a.json", "--html", tmp_path / "a.html"]
    command = [sys.executable, "-m", "reagent", *(str(word) for word in words)]
    terminal, end = pty.openpty()
    with subprocess.Popen(command, stdout=end, stderr=end, env=os.environ | {"COLUMNS": "120"}) as process:
        os.close(end)
        try:
            seen = _read_until(terminal, "left")
            assert re.search(r"explaining.* steps/s, at most \d+(:\d\d)+ left", seen), seen
            process.send_signal(signal.SIGINT)
            last = _read_until(terminal, "interrupted")
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()  # of no effect on one that has ended
    assert "Traceback" not in seen + last
    assert list(tmp_path.iterdir()) == []


def _read_until(terminal: int, word: str) -> str:
    """What appears on a pseudo terminal, up to `word` or its end."""
    seen, give_up = "", time.monotonic() + 120
    while word not in seen and time.monotonic() < give_up:
        try:
            seen += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the other side closed
            break
    assert word in seen, seen
    return seen


@pytest.mark.parametrize(
    "words", [["methods"], ["replacers"], ["models"], ["--version"], ["--help"], ["models", "--help"]]
)
def test_the_lists_answer(run, words: list[str]) -> None:
    answer = run(*words)
    assert answer.code == 0
    assert answer.out.strip()


def test_pulling_what_is_not_embedded_is_an_error(run) -> None:
    answer = run("models", "pull", "gpt5")
    assert answer.code == 2
    assert "unknown embedded model 'gpt5'" in answer.err


def test_show_refuses_what_is_not_an_explanation(run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"schema": "reagent.explanation/9"}')
    answer = run("show", tmp_path / "x.json")
    assert answer.code == 2
    assert "schema 'reagent.explanation/9' is not known" in answer.err
    assert run("show", tmp_path / "nowhere.json").code == 2
