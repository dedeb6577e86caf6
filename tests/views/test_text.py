from dataclasses import replace

import pytest
import regex

from reagent.explanation import Message, Token
from reagent.views.text import (
    CONTINUED,
    Kind,
    all_labels,
    label,
    sanitize,
    shorten,
    split_into_pieces,
    template_positions,
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


def test_running_text_shows_a_character_once() -> None:
    pieces = split_into_pieces(byte_pieces())
    assert "".join(piece.text for piece in pieces) == f"<s>a漢{CONTINUED * 2} 👋{CONTINUED * 2}! ok"
    assert [piece.position for piece in pieces] == list(range(10))
    assert pieces[0].kind is Kind.SPECIAL
    assert [piece.position for piece in pieces if piece.kind is Kind.CONTINUED] == [3, 4, 6, 7]


@pytest.mark.parametrize("name", [name for name in every_kind() if name != "chat"])
def test_running_text_is_the_whole_text(name: str) -> None:
    why = every_kind()[name]
    shown = "".join(piece.text for piece in split_into_pieces(why) if piece.kind in (Kind.TOKEN, Kind.GAP))
    assert shown == sanitize(why.prompt + why.completion)


def test_text_between_tokens_belongs_to_no_token() -> None:
    words = [Token((1,), "big", 0, 3), Token((2,), "cat", 4, 7)]
    pieces = split_into_pieces(make("big cat ", "!", input=words))
    assert [(piece.text, piece.position) for piece in pieces] == [
        ("big", 0), (" ", None), ("cat", 1), (" ", None), ("!", 2),
    ]  # fmt: skip


def test_equal_spans_of_prompt_and_output_are_not_pieces_of_one_character() -> None:
    assert all_labels(make("a", "b")) == ["a", "b"]


def test_sanitized_text_can_be_encoded_and_has_no_control_characters() -> None:
    shown = sanitize(HOSTILE)
    shown.encode("utf-8")
    assert not set(shown) & set("\x1b\u202e\u2028")


def test_a_chat_shows_roles_and_messages_and_hides_its_template() -> None:
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
    shown = {piece.position: piece.text for piece in split_into_pieces(why) if piece.position is not None}
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
