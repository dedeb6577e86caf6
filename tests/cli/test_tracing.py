"""`--answer-span`, `--check-traced`, and chats of agents on the command line."""

import json
from pathlib import Path

import pytest

from reagent.explanation import Explanation

PROMPT = "My aunt moved to Japan. She rents a flat."
TARGET = " She is in Japan. In Tokyo."


def test_an_answer_is_traced_shown_and_shown_again(explain, run, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("why.json", "why.html", "again.html")]
    question = (PROMPT, "--target", TARGET, "--method", "occlusion", "--removal", "delete")
    answer = explain(*question, "--answer-span", "Tokyo", "--check-traced", 1, "--json", files[0], "--html", files[1])
    assert answer.code == 0, answer.err
    assert "of the answer passes through the reasoning" in answer.out
    assert "Without P" in answer.out
    why = Explanation.load(files[0])
    assert len(why.output) > 1  # the rows of all tokens are kept, so that another part can be traced
    assert why.trace is not None
    assert len(why.trace.checks) == 1
    assert "reagent-trace" in files[1].read_text()
    assert run("show", files[0]).out == answer.out
    again = run("show", files[0], "--answer-span", "She", "--html", files[2])
    assert again.code == 0, again.err
    assert again.out.startswith("Why She?")
    assert "There is no text before the answer" in again.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--answer-span", "Kyoto"], "--answer-span 'Kyoto' is not in the output"),
        (["--answer-span", "Tokyo", "--contrast", "Kyoto"], "give --contrast or --answer-span, not both"),
        (["--check-traced", "2"], "--check-traced needs --answer-span"),
        (["--unit", "message"], "the unit 'message' is for a chat"),
    ],
)
def test_a_bad_question_is_one_line(explain, words: list[str], complaint: str) -> None:
    answer = explain(PROMPT, "--target", TARGET, *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert complaint in answer.err


def test_a_file_without_these_rows_names_the_flag(explain, run, tmp_path: Path) -> None:
    path = tmp_path / "why.json"
    assert explain(PROMPT, "--target", TARGET, "--probes", 8, "--json", path).code == 0
    answer = run("show", path, "--answer-span", "Tokyo")
    assert answer.code == 2
    assert "explain again with --attribute-target" in answer.err


def test_messages_and_tools_come_from_a_file(explain, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}], "tools": 3}))
    answer = explain("--messages", path)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "tools in the file of --messages must be a list of definitions" in answer.err
