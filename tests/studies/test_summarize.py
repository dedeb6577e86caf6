"""The global view: words over many explanations, their examples, and what is refused."""

from pathlib import Path

import pytest
from rich.console import Console

import reagent
from reagent.data_summary import Summary
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.testing import mentions
from reagent.views.data_summary import headline, render_page, show
from views.samples import HOSTILE

PROMPTS = ["w1 w5 w2", "w5 w3", "w1 w3 w4"]


@pytest.fixture(scope="module")
def explanations() -> list[Explanation]:
    return [reagent.explain(mentions("w5"), one, target=" w0", method="exact") for one in PROMPTS]


@pytest.fixture(scope="module")
def summary(explanations: list[Explanation]) -> Summary:
    return reagent.summarize(explanations)


def test_the_word_that_matters_comes_first(summary: Summary, explanations: list[Explanation]) -> None:
    assert [word.text for word in summary.words] == ["w5", "w1", "w3"]
    word = summary.words[0]
    assert (word.prompts, summary.prompts) == (2, 3)
    assert word.score == pytest.approx(1.0)
    assert word.importance == pytest.approx(2 / sum(sum(why.scores[0]) for why in explanations))
    effects = [why.effects[0][i] for why, i in zip(explanations, (1, 0), strict=False)]
    assert word.effect.mean == pytest.approx(sum(effects) / 2)
    assert [(one.prompt, one.before, one.word.strip(), one.answer) for one in word.examples] == [
        (0, "w1", "w5", " w0"),
        (1, "", "w5", " w0"),
    ]
    assert reagent.summarize(explanations, least=1).words[-1].prompts == 1


def test_the_same_word_is_one_word() -> None:
    summary = reagent.summarize([reagent.explain(mentions("w5"), "w5 w1 w5 w2", target=" w0", method="exact")], least=1)
    assert summary.words[0].text == "w5"
    assert len(summary.words) == 3
    assert summary.words[0].score == pytest.approx(1.0)


def test_files_are_read(summary: Summary, explanations: list[Explanation], tmp_path: Path) -> None:
    lines = tmp_path / "why.jsonl"
    lines.write_text("".join(why.to_json() + "\n" for why in explanations))
    singles = [why.save(tmp_path / f"{i}.json") for i, why in enumerate(explanations)]
    assert reagent.summarize(lines).words == reagent.summarize(singles).words == summary.words
    assert Summary.load(summary.save(tmp_path / "summary.json")) == summary


def test_the_views_show_words_and_examples(summary: Summary) -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(summary, console=console)
    assert headline(summary).startswith("Most important over 3 prompts: “w5”")
    assert "w1 w5 w2 ▸ w0" in console.export_text()
    assert list(summary.to_frame()["word"]) == ["w5", "w1", "w3"]


def test_hostile_text_stays_text(summary: Summary) -> None:
    from dataclasses import replace

    example = replace(summary.words[0].examples[0], before=HOSTILE, word=HOSTILE, answer=HOSTILE)
    words = (replace(summary.words[0], text=HOSTILE, examples=(example,)),)
    text = render_page(replace(summary, words=words, unit=HOSTILE, models=(HOSTILE,)))
    assert "<script>alert" not in text
    assert "<img" not in text


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ([], {}, "nothing to summarize"),
        (3, {}, "got a int"),
        ([3], {}, "got a int"),
        ("no.json", {}, "no.json"),
        ("no.sqlite", {}, "there is no file"),
        ([], {"unit": "letter"}, "unknown unit"),
        ([], {"least": 0}, "`least` must be"),
    ],
)
def test_each_bad_argument_is_one_clear_line(source: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reagent.summarize(source, **options)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(FileError, match=r"a\.jsonl, line 1"):
        reagent.summarize(tmp_path / "a.jsonl")
