"""An answer that ends inside a character, because its last bytes were not generated."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from transformers import PreTrainedTokenizerFast

import tiny
from reagent.comparison import Comparison
from reagent.explanation import Explanation
from reagent.models.tokenization import TokenizerCodec, added_text, locate_continuation
from reagent.views import citations_page, comparison
from reagent.views.citations import render_markdown
from reagent.views.display import displayed
from reagent.views.html import page_title, summarize, to_view_data
from reagent.views.terminal import show
from reagent.views.text import CUT
from reagent.web.results import answer_of
from views.citation_samples import make_citations
from views.samples import by_methods, make

BYTES = [tiny.byte_level_tokenizer(), tiny.metaspace_tokenizer()]  # the second: a replacement character for each byte
PROMPT = "She lives in"


def cut_answer(tokenizer: PreTrainedTokenizerFast, answer: str, missing: int = 1) -> Explanation:
    """The explanation of an answer without its last tokens, as `max_new_tokens` leaves it."""
    ids, new = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (PROMPT, answer))
    completion, output = locate_continuation(TokenizerCodec(tokenizer), ids, new[:-missing])
    return make(PROMPT, completion, output=output, important=" lives", stderr=True, display_unit="word")


def terminal(why: Explanation, **options: object) -> str:
    console = Console(file=StringIO(), width=120)
    show(why, console=console, **options)  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("tokenizer", BYTES, ids=["byte level", "byte fallback"])
@pytest.mark.parametrize(("answer", "whole"), [(" दिल्ली", " दिल्ल"), (" 東京都", " 東京"), (" ok👋", " ok")])
def test_every_view_marks_the_end_instead_of_a_replacement_character(
    tokenizer: PreTrainedTokenizerFast, answer: str, whole: str
) -> None:
    why = cut_answer(tokenizer, answer)
    assert "�" in why.completion
    assert displayed(why).completion == whole + CUT
    views = [
        terminal(why),
        terminal(why, target=-1),
        terminal(why, unit="token"),
        str(to_view_data(why)),
        str(to_view_data(why, "token")),
        summarize(why),
        str(comparison.to_view_data(Comparison(tuple(by_methods(why))))),
    ]
    assert [CUT in view for view in views] == [True] * len(views)
    assert "�" not in "".join(views)
    assert page_title(why) == f"Why “{whole.strip()}{CUT}”?"
    assert answer_of(why) == whole + CUT


@pytest.mark.parametrize("missing", [1, 2])
def test_the_tokens_of_the_incomplete_character_keep_their_numbers(missing: int) -> None:
    why = cut_answer(tiny.byte_level_tokenizer(), " 東京都", missing)
    shown = displayed(why, "token")
    assert [token.ids for token in shown.output] == [token.ids for token in why.output]
    assert (shown.scores, shown.effects, shown.stderr) == (why.scores, why.effects, why.stderr)
    assert [token.logprob for token in shown.output] == [token.logprob for token in why.output]
    assert shown.output[-1].text == CUT
    assert why.completion.endswith("京�")  # the data are as they were


def test_only_the_end_of_the_answer_is_marked() -> None:
    why = make("a � b", " c � d")
    assert displayed(why) is why
    assert CUT not in terminal(why)


def test_the_answer_with_citations_is_marked() -> None:
    cited = make_citations()
    last = cited.parts[-1]
    text = cited.answer[: last.end - 1] + "�"
    cut = replace(cited, answer=text, parts=(*cited.parts[:-1], replace(last, text=text[last.start : last.end])))
    assert CUT in render_markdown(cut)
    assert citations_page.to_view_data(cut)["answer"][-1][0].endswith(CUT)


def test_a_token_may_end_with_the_first_bytes_of_the_next_character() -> None:
    """Byte-level vocabularies have tokens such as a space and the first byte of an emoji."""
    pieces = {0: b"She", 1: " м".encode(), 2: "о".encode() + b"\xd1", 3: b" \xf0"}

    def decode(ids: Sequence[int]) -> str:
        return b"".join(pieces[i] for i in ids).decode("utf-8", "replace")

    assert added_text(decode, [0], [1, 2]) == " мо\ufffd"
    assert added_text(decode, [0], [1, 3]) == " м \ufffd"
