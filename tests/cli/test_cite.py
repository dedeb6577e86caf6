"""`reagent cite`: documents from files, outputs, and one clear line for every bad input."""

import json
import os
from pathlib import Path

import pytest

from reagent.citations import Citations
from reagent.documents import load_documents

TEMPLATE = "{documents}\n{question}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    (documents / "more").mkdir(parents=True)
    (documents / "a.txt").write_text("Ann left. It rained.\n", encoding="utf-8")
    (documents / "more" / "b.md").write_text("\ufeffBob slept.", encoding="utf-8")
    (documents / "c.jsonl").write_text('{"id": "c1", "text": "Eve ate."}\n\n{"page_content": "Ida ran."}\n')
    (documents / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "template.txt").write_text(TEMPLATE)
    return documents


@pytest.fixture
def cite(run, tiny_folder: Path, folder: Path):
    def call(*words: object, question: str = "Who?"):
        template = ("--template", folder.parent / "template.txt")
        return run("cite", "--question", question, *words, *template, "--model", tiny_folder)

    return call


def test_cite_shows_and_writes_everything(cite, folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("c.json", "c.md")]
    answer = cite("--documents", folder, "--answer", "Ann", "--json", paths[0], "--markdown", paths[1])
    assert answer.code == 0, answer.err
    assert "Who?" in answer.out
    assert "forward passes" in answer.out
    citations = Citations.load(paths[0])
    assert [document.id for document in citations.documents] == ["a.txt", "c1", "3", "b.md"]
    assert citations.answer == "Ann"
    assert paths[1].read_text(encoding="utf-8") == citations.to_markdown()


def test_several_documents_and_json_alone(cite, folder: Path) -> None:
    answer = cite("--documents", folder / "a.txt", folder / "more" / "b.md", "--answer", "Ann", "--json", "-")
    data = json.loads(answer.out)
    assert [document["id"] for document in data["documents"]] == ["a.txt", "b.md"]


def test_the_model_writes_the_answer(cite, folder: Path) -> None:
    answer = cite("--documents", folder / "a.txt", "--max-new-tokens", "3", "--probes", "6")
    assert answer.code == 0, answer.err


def test_a_dry_run_prints_an_upper_bound(cite, folder: Path) -> None:
    answer = cite("--documents", folder / "a.txt", "--answer", "Ann", "--dry-run")
    assert answer.out.startswith("at most ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--documents", "no.txt"), "cannot read the document"),
        (("--documents", "picture.png"), "give .txt, .md, .jsonl files, or a folder"),
        (("--documents", "empty"), "has no documents"),
        (("--documents", "blank.txt"), "is empty: leave it out"),
        (("--documents", "latin.txt"), "is not text in UTF-8: convert it, or leave it out"),
        (("--documents", "broken.jsonl"), "line 2 of"),
        (("--documents", "number.jsonl"), "is not a document"),
        (("--documents", "textless.jsonl"), "has no text: give a text, or an object with 'page_content', 'text' or"),
        (("--documents", "a.txt", "--template", "no.txt"), "cannot read the template"),
        (("--documents", "a.txt", "--removal", "burn"), "burn"),
        (("--documents", "a.txt", "--template", "a.txt"), "--template must contain {documents} exactly once"),
        (("--documents", "a.txt", "--json", "a.txt/x.json"), "x.json"),
    ],
)
def test_bad_input_is_one_line(run, folder: Path, words: tuple[str, ...], message: str) -> None:
    (folder / "empty").mkdir()
    (folder / "blank.txt").write_text(" \n")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "broken.jsonl").write_text('{"text": "x"}\n{')
    (folder / "number.jsonl").write_text("3\n")
    (folder / "textless.jsonl").write_text('{"id": "x"}\n')
    paths = [str(folder / word) if (folder / word.split("/")[0]).exists() or "." in word else word for word in words]
    answer = run("cite", "--question", "Who?", *paths, "--model", "nothing-is-loaded")
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_a_question_is_needed(run, folder: Path) -> None:
    answer = run("cite", "--documents", folder)
    assert answer.code == 2
    assert "--question" in answer.err


def test_saved_citations_are_shown_again(cite, run, folder: Path, tmp_path: Path) -> None:
    saved, page = tmp_path / "c.json", tmp_path / "c.html"
    assert cite("--documents", folder / "a.txt", "--answer", "Ann", "--json", saved, "--quiet").code == 0
    answer = run("show", saved, "--html", page)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Who?")
    assert page.read_text(encoding="utf-8") == Citations.load(saved).to_html()
    assert "--png is for explanations" in run("show", saved, "--png", tmp_path / "c.png").err
    assert "--answer-span is for explanations" in run("show", saved, "--answer-span", "Ann").err


@pytest.mark.parametrize(("field", "message"), [("parts", "at least one document"), ("sentences", "at least one")])
def test_a_file_without_parts_is_one_line(cite, run, folder: Path, tmp_path: Path, field: str, message: str) -> None:
    saved = tmp_path / "c.json"
    assert cite("--documents", folder / "a.txt", "--answer", "Ann", "--json", saved, "--quiet").code == 0
    saved.write_text(json.dumps(json.loads(saved.read_text(encoding="utf-8")) | {field: []}), encoding="utf-8")
    answer = run("show", saved)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert message in answer.err


def test_names_of_files_may_have_any_bytes(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("Ann left.")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    (document,) = load_documents([tmp_path])
    assert document.id == "caf\ufffd.txt"
