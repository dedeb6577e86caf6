from dataclasses import replace

import pytest
import regex

from reagent.explanation import Message, Token
from reagent.views.shading import split_margins
from reagent.views.text import (
    Kind,
    Piece,
    all_labels,
    label,
    labels,
    pieces_before,
    sanitize,
    shorten,
    split_into_pieces,
    sum_weights,
    template_positions,
    template_text,
)
from views.samples import HOSTILE, byte_pieces, chat, every_kind, make, tokens


def named(text: str) -> str:
    return label(Token((9,), text, 0, len(text)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Japan", "Japan"),
        (" Japan", "·Japan"),
        ("\n  two words ", "two words"),
        ("\n", "⏎"),
        ("\r\n", "␍⏎"),
        ("\tif", "⇥if"),
        (" ", "·"),
        (" " * 20, "·×20"),
        ("\u0301", "◌\u0301"),
        ("\u200d", "U+200D"),
        ("\x1b[31m", "␛[31m"),
        ("\x85", "⟨U+0085⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\ud83d", "�"),
        ("", "#9"),
        ("\u06dd", "\u06dd"),
    ],
)
def test_a_label_shows_what_a_token_holds(text: str, shown: str) -> None:
    assert named(text) == shown


def test_tokens_of_one_character_are_numbered() -> None:
    assert all_labels(byte_pieces()) == [
        *["<s>", "a", "漢 (1/3)", "漢 (2/3)", "漢 (3/3)", "·👋 (1/3)", "👋 (2/3)", "👋 (3/3)", "!"],
        "·ok",
    ]


def test_tokens_of_one_character_are_one_piece() -> None:
    pieces = split_into_pieces(byte_pieces())
    assert [(piece.text, piece.positions) for piece in pieces] == [
        ("<s>", (0,)), ("a", (1,)), ("漢", (2, 3, 4)), (" 👋", (5, 6, 7)), ("!", (8,)), (" ok", (9,)),
    ]  # fmt: skip
    assert pieces[0].kind is Kind.SPECIAL


ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
FAMILY = "👨\u200d👩\u200d👧"


def characters(text: str) -> list[Token]:
    """Make a token of each code point."""
    return [Token((i,), character, i, i + 1) for i, character in enumerate(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("कि बात", ["कि", " ", "बा", "त"]),  # vowel signs
        ("क्षर", ["क्ष", "र"]),  # a conjunct
        ("क्\u200cष", ["क्\u200c", "ष"]),  # a conjunct that a non-joiner prevents
        ("عاصمة من", ["عا", "صمة", " ", "من"]),  # letters join, except after an alef
        ("عَمَل", ["عَمَل"]),  # vowel marks do not end the join
        ("می\u200cخ", ["می\u200c", "خ"]),  # a non-joiner ends it
        (f"a{FAMILY}b", ["a", FAMILY, "b"]),
        (f"a{ENGLAND}b", ["a", ENGLAND, "b"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("❤\ufe0f👋🏽", ["❤\ufe0f", "👋🏽"]),
        ("กำ", ["กำ"]),
        ("각", ["각"]),
        ("e\u0301a \u0301", ["e\u0301", "a", " \u0301"]),
        ("東京", ["東", "京"]),
        ("ffi", ["f", "f", "i"]),
    ],
)
def test_running_text_is_never_broken_inside_a_character(text: str, pieces: list[str]) -> None:
    shown = split_into_pieces(make(text, text, input=characters(text), output=characters(text)))
    assert [piece.text for piece in shown] == pieces * 2
    assert [i for piece in shown for i in piece.positions] == list(range(2 * len(text)))


def test_text_of_no_token_inside_a_character_belongs_to_it() -> None:
    units = [Token((1,), "👨", 0, 1), Token((2,), "👩", 2, 3)]
    pieces = split_into_pieces(make("👨\u200d👩\u200d!", "!", input=units))
    assert [(piece.text, piece.kind, piece.positions) for piece in pieces][:2] == [
        ("👨\u200d👩\u200d", Kind.TOKEN, (0, 1)),
        ("!", Kind.GAP, ()),
    ]


def test_a_long_unit_that_begins_inside_a_character_stays_its_own_piece() -> None:
    prompt = "عمتي تسكن باليابان منذ عامين"  # the preposition "ba" is part of the word
    start = prompt.index("اليابان")
    end = start + len("اليابان")
    spans = [(0, start), (start, end), (end, len(prompt))]
    cut = [Token((i,), prompt[a:b], a, b, protected=i != 1) for i, (a, b) in enumerate(spans)]
    pieces = split_into_pieces(make(prompt, "!", input=cut))
    assert [(piece.text, piece.positions) for piece in pieces][:3] == [
        ("عمتي تسكن با", (0,)), ("ليابان", (1,)), (" منذ عامين", (2,)),
    ]  # fmt: skip


def test_the_weight_of_a_piece_is_the_sum_of_its_tokens() -> None:
    pieces = [Piece("漢", Kind.TOKEN, (0, 1)), Piece(" ", Kind.GAP, ()), Piece("a", Kind.TOKEN, (2,))]
    assert sum_weights(pieces, [0.25, 0.5, 0.25]) == {(0, 1): 0.75, (2,): 0.25}


def test_the_pieces_before_a_token_end_at_its_character() -> None:
    pieces = split_into_pieces(make("a", "漢!", output=[Token((1,), "漢", 0, 1)] * 3 + [Token((2,), "!", 1, 2)]))
    for position in (1, 2, 3):
        assert [piece.text for piece in pieces_before(position, pieces)] == ["a"]
    assert [piece.text for piece in pieces_before(4, pieces)] == ["a", "漢"]


def test_flags_of_regions_are_not_hidden_text() -> None:
    assert sanitize(f"a{ENGLAND}b") == f"a{ENGLAND}b"
    assert sanitize(FAMILY + "❤\ufe0f") == FAMILY + "❤\ufe0f"
    assert sanitize("a\U000e0067\U000e007f") == "a⟨U+E0067⟩⟨U+E007F⟩"
    assert "⟨U+E0068⟩" in sanitize("🏴" + "\U000e0068" * 40 + "\U000e007f")  # too long for a region


def test_the_parts_of_an_emoji_are_named_by_the_whole() -> None:
    text = f" {FAMILY}{ENGLAND}👋"
    names = labels(characters(text), text)
    assert names[:2] == ["·", f"{FAMILY} (1/5)"]
    assert names[5:7] == [f"{FAMILY} (5/5)", f"{ENGLAND} (1/7)"]
    assert names[-1] == "👋"
    assert labels([Token((1,), " 👨", 0, 2), Token((2,), text[2:6], 2, 6)], text) == [
        f"·{FAMILY} (1/2)",
        f"{FAMILY} (2/2)",
    ]


def test_a_combining_mark_never_stands_alone_in_a_label() -> None:
    assert labels(characters("कि"), "कि") == ["क", "◌ि"]
    assert named(" \u0301") == "·◌\u0301"


@pytest.mark.parametrize("name", [name for name in every_kind() if name != "chat"])
def test_running_text_is_the_whole_text(name: str) -> None:
    why = every_kind()[name]
    shown = "".join(piece.text for piece in split_into_pieces(why) if piece.kind in (Kind.TOKEN, Kind.GAP))
    assert shown == sanitize(why.prompt + why.completion)


def test_text_between_tokens_belongs_to_no_token() -> None:
    words = [Token((1,), "big", 0, 3), Token((2,), "cat", 4, 7)]
    pieces = split_into_pieces(make("big cat ", "!", input=words))
    assert [(piece.text, piece.positions) for piece in pieces] == [
        ("big", (0,)), (" ", ()), ("cat", (1,)), (" ", ()), ("!", (2,)),
    ]  # fmt: skip


def test_equal_spans_of_prompt_and_output_are_not_pieces_of_one_character() -> None:
    assert all_labels(make("a", "b")) == ["a", "b"]


def test_sanitized_text_can_be_encoded_and_has_no_control_characters() -> None:
    shown = sanitize(HOSTILE)
    shown.encode("utf-8")
    assert not set(shown) & set("\x1b\u202e\u2028")


def test_the_text_of_a_template_is_that_around_the_messages() -> None:
    default = "<s>You are kind.</s>"
    prompt = default + "Where?<a>"
    why = make(prompt, "!", messages=(Message("user", len(default), len(default) + 6),))
    assert template_text(why) == "<s>You are kind.</s>…<a>"
    assert template_text(chat()).startswith("<|im_start|>system\n…<|im_end|>\n<|im_start|>user\n…<|im_end|>")
    assert template_text(make()) == ""
    assert template_text(make("Where? ", "!", messages=(Message("user", 0, 6),))) == ""


def test_a_chat_shows_roles_and_messages_without_its_template() -> None:
    why = chat()
    pieces = split_into_pieces(why)
    roles = [piece.text for piece in pieces if piece.kind is Kind.ROLE]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    text = "".join(f"\n{piece.text}: " if piece.kind is Kind.ROLE else piece.text for piece in pieces)
    assert "\nassistant: In the countryside?\nuser: No, in the capital:\nassistant:  Tokyo, dear" in text
    assert "im_start" not in text
    assert "<s>" not in text


def test_positions_in_a_chat_are_the_true_ones() -> None:
    why = chat()
    context = why.input + why.output
    shown = {position: piece.text for piece in split_into_pieces(why) for position in piece.positions}
    assert all(context[position].text == text for position, text in shown.items())
    assert template_positions(why) == set(range(len(context))) - set(shown)
    assert all(context[position].protected for position in template_positions(why))
    assert template_positions(make()) == set()


def test_an_answer_that_begins_in_the_prompt_continues() -> None:
    prompt = "Where?In the capital,"
    messages = (Message("user", 0, 6), Message("assistant", 6, len(prompt)))
    pieces = split_into_pieces(make(prompt, " Tokyo", messages=messages))
    assert [piece.text for piece in pieces if piece.kind is Kind.ROLE] == ["user", "assistant"]


def test_template_characters_inside_a_token_are_left_out() -> None:
    cut = tokens("[Hi there ]")
    assert cut[-1].text == " ]"
    pieces = split_into_pieces(replace(make("[Hi there ]", "!", input=cut), messages=(Message("user", 1, 10),)))
    assert [piece.text for piece in pieces] == ["user", "Hi", " there", " ", "assistant", "!"]


@pytest.mark.parametrize("length", range(1, 30))
@pytest.mark.parametrize(
    "text", ["She rents a small flat in the capital.", "x" * 50, "👩‍🚀é" * 20, "東京に住んでいます" * 4]
)
def test_a_shortened_text_keeps_its_beginning_and_its_end(text: str, length: int) -> None:
    short = shorten(text, length)
    characters = regex.findall(r"\X", short)
    assert len(characters) <= length
    before, after = short.split("…")
    assert text.startswith(before)
    assert text.endswith(after)
    assert (
        regex.findall(r"\X", before + after)
        == characters[: characters.index("…")] + characters[characters.index("…") + 1 :]
    )


def test_a_short_text_stays() -> None:
    assert shorten("Tokyo", 5) == "Tokyo"


def test_margins_of_a_text_that_begins_with_a_combining_mark() -> None:
    assert split_margins("\u0301a ") == ("", "\u0301a", " ")
    assert split_margins("  \u0301a") == (" ", " \u0301a", "")
