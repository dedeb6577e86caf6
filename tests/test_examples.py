"""The gallery in examples/: every script is listed, starts with its question, and answers it."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import reagent
from reagent.models.base import Model

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
# A text that each script prints: its answer, not only its heading.
ANSWERS = {
    "black_box": "requests: refund\n",
    "cite_documents": "(Document(id='clocks', text='The museum of clocks opens at nine in the morning.",
    "compare_methods": "reagent fast Japan ",
    "contrast": "Japan      score ",
    "faithful": "sufficiency: ",
    "hindi": " राम, 4 tokens",
    "long_text": "Guided tours start at noon.",
    "many_prompts": "France",
    "one_word": "why Tokyo?\nJapan ",
    "own_replacer": "Japan",
    "prompt_injection": "tool      0.9",
    "python_code": "⟦height⟧",
    "save_and_load": "loaded:  Paris because of  France equal: True",
    "stated_twice": "redundant: Japan and Japan:",
    "sufficient": "\nsufficient (",
    "system_message": "nats: You are a pirate.",
    "text_only": "similarity\nbroken",
    "traced": " 1   A farmer has 3 red boxes. ",
    "two_presets": "fast    33 passes: Japan ",
    "what_if": " instead of Japan:",
    "why_this_answer": "⟦Japan⟧",
}


def test_the_table_lists_every_script_with_its_question() -> None:
    rows = re.findall(r"^\| (.+?) \| \[(\w+)\.py\]\((\w+)\.py\) \| .+ \|$", (EXAMPLES / "README.md").read_text(), re.M)
    assert all(name == link for _, name, link in rows)
    questions = {script.stem: ast.get_docstring(ast.parse(script.read_text())) for script in SCRIPTS}
    assert {name: question for question, name, _ in rows} == questions


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_answers_its_question(
    script: Path, smollm2: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, because loading the embedded model takes longer than most of the scripts."""
    load = reagent.load_model
    monkeypatch.setattr(reagent, "load_model", lambda source: smollm2 if source == "smollm2" else load(source))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert ANSWERS[script.stem] in capsys.readouterr().out


def test_a_script_runs_alone(tmp_path: Path) -> None:
    script = EXAMPLES / "black_box.py"
    answer = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert ANSWERS["black_box"] in answer.stdout
