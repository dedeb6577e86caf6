"""TellMeWhy and WikiBio: what is bundled, the same fields in files, and the hub."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reagent.data import DATASETS, load_dataset, sample
from reagent.data.readers import bundled_path
from reagent.errors import FetchError, FileError, InputError
from reagent.segmentation import split_sentences

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "wikibio_238.jsonl"


def lines(path: Path, *rows: object) -> str:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def story(i: int) -> dict[str, str]:
    return {"narrative": f"Ann had {i} cats. ", "question": " Why?", "answer": "She likes them."}


def test_the_bundled_stories_end_in_a_question_about_them() -> None:
    found = load_dataset("tellmewhy")
    assert len(found) >= 24
    assert (found.level, found.stride, found.source) == ("sequence", 5, "bundled")
    for example in found.examples:
        last = split_sentences(example.prompt)[-1]
        question = example.prompt[slice(*last)].strip()
        assert question.startswith("Why did ")
        assert question.endswith("?")
        assert 5 <= len(split_sentences(example.prompt)) <= 7, example.prompt
        assert example.target is None


def test_the_bundled_biographies_are_two_sentences_each() -> None:
    found = load_dataset("wikibio")
    assert len(found) >= 24
    for example in found.examples:
        assert len(split_sentences(example.prompt)) == 2, example.prompt
    rows = [json.loads(line) for line in bundled_path("wikibio.jsonl").read_text("utf-8").splitlines()]
    assert [e.prompt for e in found.examples] == [row["text"] for row in rows], "nothing was cut off"


def test_no_text_is_bundled_twice() -> None:
    for name in ("tellmewhy", "wikibio"):
        prompts = [example.prompt for example in load_dataset(name).examples]
        assert len(set(prompts)) == len(prompts)


def test_a_story_and_its_question_are_one_prompt(tmp_path: Path) -> None:
    found = load_dataset("tellmewhy", lines(tmp_path / "a.jsonl", story(2), story(2), story(3)))
    assert [e.prompt for e in found.examples] == ["Ann had 2 cats. Why?", "Ann had 3 cats. Why?"]
    assert found.licence != load_dataset("tellmewhy").licence


def test_two_hundred_of_them_as_in_the_paper(tmp_path: Path) -> None:
    found = load_dataset("tellmewhy", lines(tmp_path / "a.jsonl", *map(story, range(300))))
    assert len(found) == 300
    assert len(sample(found, None, seed=0)) == 200
    assert len(sample(found, 250, seed=0)) == 250


def test_the_first_two_sentences_of_a_biography(tmp_path: Path) -> None:
    whole = "Dr. Ann Lee (born 1950) is a doctor. She lives in St. Ives. She sings."
    rows = [
        {"wiki_bio_test_idx": 9, "gpt3_sentences": ["One.", " Two. ", "Three."], "wiki_bio_text": "Other."},
        {"wiki_bio_test_idx": 10, "wiki_bio_text": whole},
        {"gpt3_text": whole, "wiki_bio_text": "Other."},
    ]
    found = load_dataset("wikibio", lines(tmp_path / "a.jsonl", *rows))
    two = "Dr. Ann Lee (born 1950) is a doctor. She lives in St. Ives."
    assert [(e.id, e.prompt) for e in found.examples] == [("9", "One. Two."), ("10", two), ("3", two)]


def test_a_list_in_a_csv_file_is_json(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('gpt3_sentences\n"[""One."", ""Two."", ""Three.""]"\n', encoding="utf-8")
    assert load_dataset("wikibio", str(tmp_path / "a.csv")).examples[0].prompt == "One. Two."


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("tellmewhy", {"narrative": "A b."}, "a.jsonl, line 1 has no field 'question'; it has: narrative"),
        ("tellmewhy", {"narrative": "A b.", "question": ""}, "holds no example"),
        ("wikibio", {"name": "Ann"}, "a.jsonl, line 1 has no field 'gpt3_sentences', nor one of gpt3_text"),
        ("wikibio", {"gpt3_sentences": "One. Two."}, "line 1: 'gpt3_sentences' must be a list of texts, got 'One"),
        ("wikibio", {"gpt3_sentences": [1, 2]}, r"line 1: 'gpt3_sentences' must be a list of texts, got \[1, 2\]"),
        ("wikibio", {"gpt3_sentences": []}, "holds no example"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, name: str, row: object, message: str) -> None:
    with pytest.raises(FileError, match=message):
        load_dataset(name, lines(tmp_path / "a.jsonl", row))


@pytest.mark.skipif(not SHARED.is_file(), reason="the 238 passages are not available")
def test_all_238_biographies() -> None:
    found = load_dataset("wikibio", str(SHARED))
    assert len(found) == 238
    assert found.licence == "CC BY-SA 3.0"
    # The example that the paper prints, by its two sentences.
    assert sum(e.prompt.startswith("Rudy Fernandez (1941–2008)") for e in found.examples) == 1
    assert all(20 < len(e.prompt) < 1000 for e in found.examples)


# --- through the library `datasets` ---


def test_the_library_reads_a_folder_as_it_reads_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "hub"
    folder.mkdir()
    lines(folder / "test.jsonl", story(2), story(2), story(5))
    lines(folder / "train.jsonl", story(7))
    found = load_dataset("tellmewhy", str(folder))
    assert [e.prompt for e in found.examples] == ["Ann had 2 cats. Why?", "Ann had 5 cats. Why?"]
    assert found.source == str(folder)


def test_a_hub_that_cannot_be_reached_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: True, raising=False)
    with pytest.raises(FetchError, match=r"cannot load 'StonyBrookNLP/tellmewhy' \(split test\) from the hub"):
        load_dataset("tellmewhy", "hub")


@pytest.mark.parametrize("source", ["nothing", "a/b/c"])
def test_a_source_that_is_none(source: str) -> None:
    with pytest.raises(InputError, match=f"unknown source '{source}': give 'bundled', 'hub', a hub id"):
        load_dataset("wikibio", source)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileError, match=r"there is no file 'none.parquet': give a file with the fields narrative"):
        load_dataset("tellmewhy", "none.parquet")


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['datasets'] = None; sys.modules['pyarrow'] = None\n"
        "from reagent.data import load_dataset\n"
        "from reagent.errors import InputError\n"
        "for name, source in (('wikibio', 'hub'), ('wikibio', sys.argv[1])):\n"
        "    try: load_dataset(name, source)\n"
        "    except InputError as error: assert \"pip install 'reagent-lm[hub]'\" in str(error), error\n"
        "    else: raise SystemExit('no error')\n"
        "load_dataset('wikibio'); load_dataset('longra')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.parquet")], check=True)


def test_the_list_holds_every_data_set() -> None:
    assert list(DATASETS) == ["longra", "longra_repeated", "tellmewhy", "wikibio"]
    for name, entry in DATASETS.items():
        found = entry.load()
        assert (found.id, found.licence) == (name, entry.licence)


def test_the_page_about_them_has_the_numbers_of_today() -> None:
    page = Path(__file__).parents[2] / "docs" / "datasets.md"
    if not page.is_file():
        pytest.skip("the docs are not available")
    text = page.read_text(encoding="utf-8")
    nouns = {"longra": "examples", "longra_repeated": "examples", "tellmewhy": "stories", "wikibio": "people"}
    for name, noun in nouns.items():
        assert f"{len(load_dataset(name)):,} {noun}" in text
