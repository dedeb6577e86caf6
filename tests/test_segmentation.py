"""Units tile the text, cut where people would, and never inside a character."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import regex

from reagent.errors import FileError, InputError
from reagent.segmentation import (
    UNITS,
    Span,
    assign,
    check_spans,
    parse_marks,
    read_spans,
    split_paragraphs,
    split_sentences,
    split_words,
)


def pieces(text: str, spans: list[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]


# --- what holds for every text ---------------------------------------------------------------------------

NASTY = [
    "",
    " ",
    "\n",
    " \t\r\n\u3000\u2029 \n",
    "\ufeff",
    "\ufeff\u200b x \u200b",
    "\ud800 lone \udfff.",
    "a\x00b\x1c c",
    "\r\r\n\n\rA.\r\n\r\n\tB.\r",
    "\u0301 begins with an accent. \u0301\u0301 And again.\u0301 Yes。\u0301よ",
    "e\u0301te\u0301.\u0301\u0301\u0302 Z\u0351\u036b\u0343a\u0322lgo",
    "👩‍👩‍👧‍👦👍🏽👍🏿🏴󠁧󠁢󠁳󠁣󠁴󠁿🇫🇷🇩🇪🇯 1️⃣2️⃣#️⃣*️⃣ 🏳️‍🌈.❤️‍🔥!‼️⁉️。👨‍⚕️",
    "👍\u200d 👩\u200d\u200d🚀 \u200d\u200d",
    "नमस्ते दुनिया। क्षत्रिय॥ त्र्यम्बकं",
    "น้ำใจ เก็บ ปู่ ที่นี่\nສະບາຍດີ ខ្ញុំ។ မြန်မာ။",
    "각힣ᄀ\u1161\u11a8 ᄀ\u1161. 안녕!",
    "か\u3099き\u309a「は？」ﾊﾟ｡漢\U000e0100字。カ゚",
    "مَرْحَبًا؟ \u0600 1. \u200fשָׁלוֹם\u200e. ۔",
    "Mr. 日本 said: ‘كيف؟’ (ठीक।) 「好！」 и ушёл... 👋🏽",
    "```\ncode. Here\r\n\n   more\n~~~\n  # x",
    "1.\n2.\n\n- \n* a\n(i) b\n> c\n| d |\n***\n",
    ". . . ?! .) .” …」 。』\n.\n.",
    "⟦a⟧⟦⟧",
]


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("text", NASTY)
def test_units_tile_the_text_and_cut_no_character(name: str, text: str) -> None:
    spans = UNITS[name](text)
    assert "".join(pieces(text, spans)) == text
    assert all(start < end for start, end in spans)
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    whole = {cluster.end() for cluster in regex.finditer(r"\X", text)}
    assert {end for _, end in spans} <= whole


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("text", NASTY)
def test_no_unit_is_blank_unless_the_text_is(name: str, text: str) -> None:
    if text.strip("\ufeff\u200b \t\r\n\u3000\u2029"):
        assert all(piece.strip() for piece in pieces(text, UNITS[name](text)))
    else:
        assert len(UNITS[name](text)) == bool(text)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("text", ["a. " * 9000, "\n" * 20000, " " * 20000, "." * 20000, "a\n\n" * 9000, ". ' " * 9000])
def test_long_texts_take_no_time(name: str, text: str) -> None:
    assert UNITS[name](text)[-1][1] == len(text)  # hangs if anything is quadratic


def test_the_names_of_units() -> None:
    assert list(UNITS) == ["word", "sentence", "paragraph"]


# --- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [
        ["We", " don't", " know", ",", " you’d", " ask", "."],
        ["About", " 3.14", " of", " 1,000,000", " or", " 12", "%"],
        ["snake_case", " and", " __init__", " in", " file.py"],
        ["well", "-", "known", " (", "so", ")", '"', "quoted", '"'],
        ["Oh", "...", " yes", "!!", " a", "==", "b", " //", "c", "?", "!"],
        ["f", "(", "(", "x", ")", ")", " =", " '", "'"],
        ["key", ":", "value", " std", "::", "vector", " 12", ":", "30"],
        ["  two", "  spaces", "\ttab", "\r\nline", "\n\n blank  "],
        ["👩‍👩‍👧‍👦", "👍🏽", " 🇫🇷", "🇩🇪", " 1️⃣", "2️⃣", " #️⃣", " hi", "👋🏿", "!"],
        ["e\u0301te\u0301", " nai\u0308ve"],
        ["안녕하세요", " 세계"],
        ["漢", "字", "と", "カタカナ", "。"],
        ["นี้", " น้ำ"],
        ["مَرْحَبًا", "،", " بالعالم", "؟"],
        ["नमस्ते", " क्षत्रिय", "।"],
        ["\ufeffone", "\u200btwo"],
    ],
    ids="".join,
)
def test_words(expected: list[str]) -> None:
    text = "".join(expected)
    assert pieces(text, split_words(text)) == expected


# --- sentences -------------------------------------------------------------------------------------------

SENTENCES = {
    "stops": ["It rained.", " Did it?", " It did!", " Really?!", " Yes"],
    "titles": ["Dr. Wu and Mrs. Ode met Prof. Lim.", " They spoke."],
    "initials": ["J. R. R. Tolkien and C.S. Lewis met.", " А. С. Пушкин did not."],
    "an initial before a starter": ["I take vitamin C.", " It helps."],
    "Latin": ["Eat fruit, e.g. Apples, i.e. Pears, vs. nuts.", " Roe v. Wade it is."],
    "etc. before a capital": ["Pens, ink, etc.", " Shops sell them, etc. and so on."],
    "numbered": ["See No. 5, Fig. 2, Eq. (3) and p. 7 of Jan. 9.", " No.", " I will not, not in Jan.", " Ask Ann."],
    "acronyms": ["He left the U.S.", " The U.S. Senate stayed until 5 p.m. on Monday."],
    "companies": ["Acme Inc. Chairman Bo left Acme Inc.", " He was old."],
    "et al.": ["Shown by Roy et al. (2020) and Kim et al.", " The rest is new."],
    "numbers": ["Version 2.0.1 costs 3.50 at shop.example.com/a?b=c.", " In 2024.", " 7 came."],
    "ellipses": ["Well... maybe… not.", " Well...", " Perhaps…", " No . . .", " Fine."],
    "quotes": ['He said "Go."', " Then ‘Stop!’ she said.", " “Why?” he asked.", " „Geh.“", " Dann."],
    "guillemets": ["« Allez. »", " Il partit.", " Quoi ?", " Rien."],
    "brackets": ["(Her old piano is still standing in our garage).", " So what (why?).", " (It is old.)", " The end."],
    "a bracket inside": ["The man (what a fool!) left, (etc.) and so on."],
    "references": ["It is known.[1]", " And more.[2][3]", " **Note.**", " Done."],
    "an exclamation before lower case": ["Yahoo!", " yes."],
    "no capitals": ["i saw dr. who.", " it was good, e.g. funny.", " bye"],
    "spaced out": ["A fine film .", " it works .", " Go"],
    "Chinese": ["他说：“走吧。”", "她笑了！", "真的吗？！", "好!", "走吧……行。", "圆周率是３．１４。"],
    "Japanese": ["「行こう。」と彼は言った。", "とても遠い。", "「はい！」", "走った｡", "そう．", "次"],
    "Arabic": ["هل أنت بخير؟", " نعم.", " شكرا"],
    "Urdu": ["یہ ہے۔", " وہ ہے"],
    "Hindi": ["राम घर गया।", " सीता भी॥", "अंत"],
    "Thai": ["สวัสดีครับ ผมชื่อนิด", "\nวันนี้อากาศดี"],
    "emoji": ["Great‼️", " Really⁉️", " Fine 👍🏽.", " Yes"],
    "list": [
        "Buy:",
        "\n1. milk",
        "\n2. Bread from\n   the baker",
        "\n10) eggs",
        "\n- ham",
        "\n  * Dr. Oetker",
        "\n• tea",
    ],
    "an item of two sentences": ["1. Stir it.", " Then wait.", "\n2. Eat"],
    "choices": ["A. Oslo", "\nB. Rome", "\n(c) Paris", "\niv. Kyiv", "\nAnswer: B"],
    "Chinese list": ["1．苹果。", "\n2、梨"],
    "headings": ["# On St. Ives. Notes", "\nIt is\nsmall.", "\n\n## Two", "\nfine"],
    "Python": ["def f(x):", "\n    y = x. Foo", "\n    return y", "\n\nprint(f(3))", "\nx += 5", "\ny = 'A. B'"],
    "C": ["#include <a.h>", "\nint main() {", "\n\treturn 0;", "\n}"],
    "shell": ["import os", "\nfrom a import b", "\n>>> b. C", "\n$ ls. D", "\n@cache", '\n"a": 1,'],
    "a fence": ["Run:", "\n```sh", "\nls here. Now", "\ngo", "\n```", "\nDone.", " Good."],
    "a table": ["| a | b. C |", "\n|---|---|", "\n| 1 | 2 |"],
    "wrapped": ["The cat sat on\nthe mat and\r\n(so it seems) slept.", " It\nwoke.", "\n\nthen left"],
    "wrapped before a name": ["A line that has been broken because it became longer than allowed by\nMary.", " Yes."],
    "a label": ["Review: this film was so long that I fell asleep before the first act", "\nVerdict: bad"],
    "short lines": ["Dear Ann,", "\nI am well", "\nQ: Who?", "\nA: Me"],
    "a line that ends with a stop": ["She left.", "\nthen he did, at approx.\nfive"],
    "Windows": ["One.", "\r\nTwo", "\r\n\r\nThree", "\r\n\tfour\r\n"],
    "white space": ["  One.", "  Two.", "\t\n \nThree.  \n"],
}


@pytest.mark.parametrize("expected", SENTENCES.values(), ids=SENTENCES)
def test_sentences(expected: list[str]) -> None:
    text = "".join(expected)
    assert pieces(text, split_sentences(text)) == expected


# --- paragraphs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [
        ["One.\nStill one."],
        ["One", "\n\nTwo", "\n \t\n\n  Three\n\n"],
        ["One\r\nstill", "\r\n\r\nTwo\r\n"],
        ["\n\n\nOne", " \n\nTwo"],
    ],
)
def test_paragraphs(expected: list[str]) -> None:
    text = "".join(expected)
    assert pieces(text, split_paragraphs(text)) == expected


# --- units given by the user -------------------------------------------------------------------------------


def test_marked() -> None:
    assert parse_marks("⟦A⟧⟦b c⟧ d ⟦é\n⟧") == ("Ab c d é\n", [(0, 1), (1, 4), (7, 9)])
    assert parse_marks("x <b>y</b>", "<b>", "</b>") == ("x y", [(2, 3)])
    assert parse_marks("x <y</ z", "<", "</") == ("x y z", [(2, 3)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no marks", "nothing is marked: put '⟦' and '⟧' around"),
        ("", "nothing is marked"),
        ("a ⟦b", "'⟦' at character 2 is never closed"),
        ("⟦a⟧ b⟧", "'⟧' at character 5 closes nothing"),
        ("⟦a ⟦b⟧⟧", "'⟦' at character 3 is inside the mark opened at character 0"),
        ("⟦a⟧ ⟦⟧", "the mark at character 4 is empty"),
    ],
)
def test_marks_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_marks(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("opening", "closing"), [("*", "*"), ("", "x"), ("x", "")])
def test_marks_must_differ(opening: str, closing: str) -> None:
    with pytest.raises(InputError, match="two different strings"):
        parse_marks("*a*", opening, closing)


def test_check_spans_sorts() -> None:
    assert check_spans([[4, 6], {"start": 6, "end": 9}, (0, 3)], 9) == [(0, 3), (4, 6), (6, 9)]
    assert check_spans([], 0) == []


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 4), (3, 6)], r"span \(3, 6\) overlaps \(0, 4\)"),
        ([(0, 4), (0, 4)], r"span \(0, 4\) overlaps \(0, 4\)"),
        ([(5, 11)], r"span \(5, 11\) leaves the text: spans must lie within 0…10"),
        ([(-1, 2)], r"span \(-1, 2\) leaves"),
        ([(3, 3)], r"span \(3, 3\) is empty"),
        ([(4, 3)], r"span \(4, 3\) is empty or reversed"),
        ([(0.0, 3)], r"\(0\.0, 3\) is not a span"),
        ([(False, True)], "is not a span"),
        ([(1, 2, 3)], "is not a span: give a pair of whole numbers"),
        (["ab"], "'ab' is not a span"),
        ([7], "7 is not a span"),
    ],
)
def test_check_spans_names_what_is_wrong(spans: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_spans(spans, 10)


def test_read_spans(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    path.write_text(json.dumps([[4, 6], {"start": 0, "end": 3, "text": "The"}]))
    assert read_spans(path) == [(4, 6), (0, 3)]
    path.write_text("\ufeff[]", encoding="utf-8")
    assert read_spans(str(path)) == []


@pytest.mark.parametrize("content", [b"[[0, 1]", b"\xff\xfe", b"{}", b"3", b"[[0]]", b'[{"start": 0}]', b"[[0, null]]"])
def test_read_spans_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "spans.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"spans\.json"):
        read_spans(path)


def test_read_spans_of_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(FileError, match="cannot read"):
            read_spans(path)


# --- from units to tokens --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens", "units", "expected"),
    [
        ("The Japan", [(0, 3), (3, 9)], [(0, 4), (4, 9)], [0, 1]),  # the space lies in the first unit
        ("The      x", [(0, 3), (3, 10)], [(0, 9), (9, 10)], [0, 1]),  # and is not counted
        ("a  b", [(0, 1), (1, 3), (3, 4)], [(0, 1), (1, 4)], [0, 1, 1]),  # unless there is nothing else
        ("abcd", [(0, 4)], [(0, 2), (2, 4)], [0]),  # a tie
        ("abcde", [(0, 5)], [(0, 2), (2, 5)], [1]),
        ("ab", [(0, 0), (0, 2), (2, 2)], [(0, 2)], [None, 0, None]),  # special tokens
        ("ab cd ef", [(0, 2), (2, 5), (5, 8)], [(3, 5)], [None, 0, None]),  # units with gaps
        ("ab cd", [(0, 2), (2, 5)], [(0, 3)], [0, None]),  # only the space of a token is in a unit
        ("a👍🏽b", [(0, 1), (1, 3), (1, 3), (1, 3), (3, 4)], [(0, 1), (1, 3), (3, 4)], [0, 1, 1, 1, 2]),
        ("a 👍", [(0, 1), (1, 3), (2, 3), (2, 3)], [(0, 2), (2, 3)], [0, 1, 1, 1]),
        ("ab", [(0, 1), (1, 2)], [], [None, None]),
        ("", [], [], []),
    ],
)
def test_assign(text: str, tokens: list[Span], units: list[Span], expected: list[int | None]) -> None:
    assert assign(tokens, units, text) == expected


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_assigned_units_are_in_the_order_of_the_text(text: str, size: int) -> None:
    tokens = [(i, min(i + size, len(text))) for i in range(0, len(text), size)]
    for cut in UNITS.values():
        assigned = assign(tokens, cut(text), text)
        assert None not in assigned
        assert assigned == sorted(assigned, key=lambda unit: unit or 0)


def test_assign_many_tokens() -> None:
    text = "ab " * 20000
    tokens = [(i, i + 1) for i in range(len(text))]
    assert assign(tokens, split_words(text), text)[-1] == 19999  # hangs if it is quadratic
