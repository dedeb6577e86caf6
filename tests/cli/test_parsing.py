"""Units, parts, chats and contrasts on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

PROMPT = "My aunt moved to Japan. She rents a small flat in the old town,"
QUICK = ["--probes", "16", "--max-new-tokens", "2"]


@pytest.fixture
def explained(explain):
    def call(*words: object) -> dict[str, Any]:
        answer = explain(*words, "--json", "-")
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    return call


def test_units(explained) -> None:
    words = explained(PROMPT, *QUICK, "--unit", "word")
    assert [unit["text"] for unit in words["input"]][:6] == ["My", " aunt", " moved", " to", " Japan", "."]
    sentences = explained(PROMPT, *QUICK, "--unit", "sentence")
    assert [unit["text"] for unit in sentences["input"]] == [PROMPT[:23], PROMPT[23:]]
    tokens = explained(PROMPT, *QUICK)
    assert all(len(unit["ids"]) == 1 for unit in tokens["input"])
    assert {len(unit["ids"]) for unit in sentences["input"]} != {1}
    for data in (words, sentences, tokens):
        assert [len(row) for row in data["scores"]] == [len(data["input"]), len(data["input"]) + 1]


def test_parts_given_by_a_file_or_by_marks_are_the_same(explained, tmp_path: Path) -> None:
    (tmp_path / "spans.json").write_text("[[0, 7], [17, 22]]")
    by_file = explained(PROMPT, *QUICK, "--spans", tmp_path / "spans.json")
    marked = "⟦My aunt⟧ moved to ⟦Japan⟧. She rents a small flat in the old town,"
    by_marks = explained(marked, *QUICK, "--marked")
    assert by_file["scores"] == by_marks["scores"]
    assert by_marks["prompt"] == PROMPT
    assert [unit["text"] for unit in by_file["input"] if not unit["protected"]] == ["My aunt", " Japan"]


def test_questions_about_the_output(explain, explained) -> None:
    contrast = explained(PROMPT, "--target", " to Japan", "--contrast", " the town", "--probes", "16")
    assert contrast["target"]["kind"] == "contrast"
    span = explained(PROMPT, "--target", " and the old town", "--span", "old town", "--probes", "16")
    assert span["target"] == {"kind": "span", "index": span["target"]["index"], "text": "old town"}
    assert span["output"][-1]["text"] == " old town"
    imagined = explained(PROMPT, *QUICK, "--what-if")
    assert {one["target"] for one in imagined["what_if"]} == {0, 1}
    shown = explain(PROMPT, *QUICK, "--unit", "word", "--what-if")
    assert "instead of" in shown.out


@pytest.mark.parametrize(
    ("contrast", "note"),
    [
        ("the town", "reagent: contrast 'the town': the token ' the' is compared with ' to'\n"),
        (" the", ""),
        (" to a town", "reagent: contrast ' to a town': the token ' a' is compared with ' Japan' after ' to'\n"),
    ],
)
def test_the_token_of_a_contrast_is_noted_if_it_is_not_the_given_text(explain, contrast: str, note: str) -> None:
    words = [PROMPT, "--target", " to Japan", "--contrast", contrast, "--probes", "8", "--json", "-"]
    assert explain(*words).err == note
    assert explain(*words, "--quiet").err == ""


def test_levels(explained) -> None:
    data = explained(PROMPT, *QUICK, "--levels", "sentence,word")
    assert [level["unit"] for level in data["levels"]] == ["sentence"]
    assert data["unit"] == "word"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unit", "verse"], "unknown unit 'verse'"),
        (["--spans", "/no/such.json"], "cannot read '/no/such.json'"),
        (["--marked"], "nothing is marked"),
        (["--marked", "--spans", "x.json"], "--spans or --marked"),
        (["--contrast", ""], "--contrast is empty"),
        (["--target", " x", "--contrast", " x"], "--contrast is the target itself"),
        (["--span", "elephant"], "--span 'elephant' is not in the output"),
        (
            ["--span", "My aunt"],
            "it is in the prompt; give a phrase of the output, or for a part of the prompt use --s",
        ),
        (
            ["and", "another"],
            "(and another): put quotation marks around a prompt of several words; for several ",
        ),
        (["another"], "reagent bench explain FILE, or reagent.explain(model, [prompt, …]) in Python"),
        (["--levels", "word,sentence"], "from coarse to fine"),
        (["--chat"], "has no chat template"),
        (["--system", " "], "message 0 (system) is empty"),
        (["--messages", "/no/such.json"], "cannot read '/no/such.json'"),
        (["--chat", "--marked"], "leave them out in a chat"),
        (["--set", "probes"], "--set takes NAME=VALUE"),
        (["--set", "colour=red"], "has no option 'colour'"),
        (["--method", "lime", "--removal", "erase"], "unknown removal 'erase'"),
        (["--method", "random", "--removal", "delete"], "has no option 'removal'"),
        (["--method", "exact"], "at most 12 units"),
        (["--set", "probes=many"], "--probes of preset 'fast' must be a whole number"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(explain, words: list[str], message: str) -> None:
    answer = explain(PROMPT, *words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_overlapping_spans_are_refused(explain, tmp_path: Path) -> None:
    (tmp_path / "spans.json").write_text("[[0, 7], [5, 9]]")
    assert "overlaps" in explain(PROMPT, "--spans", tmp_path / "spans.json").err
    (tmp_path / "spans.json").write_text('{"start": 1}')
    assert "holds no list" in explain(PROMPT, "--spans", tmp_path / "spans.json").err


def test_units_can_be_deleted_masked_or_replaced(explained) -> None:
    one = ["--max-new-tokens", "1", "--unit", "word"]
    for removal in ("delete", "mask", "replace"):
        data = explained(PROMPT, "--method", "occlusion", "--removal", removal, *one)
        assert data["method"]["removal"] == removal
        assert (data["replacer"] is None) == (removal != "replace")


def test_every_subset_of_a_few_sentences(explained) -> None:
    data = explained(PROMPT, "--method", "exact", "--unit", "sentence", "--max-new-tokens", "1")
    assert data["cost"]["probes"] == 3
    assert sum(data["scores"][0]) == pytest.approx(1)


def test_any_option_of_the_method_can_be_set(explained) -> None:
    assert explained(PROMPT, "--set", "probes=16", "--max-new-tokens", "1")["method"]["probes"] == 16
