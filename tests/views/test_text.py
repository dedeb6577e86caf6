import pytest

from reagent.explanation import Token
from reagent.views.text import CONTINUED, Kind, label, labels, running, visible
from views.samples import HOSTILE, byte_pieces, every_kind, make


def named(text: str) -> str:
    return label(Token((9,), text, 0, len(text)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Japan", "Japan"),
        (" Japan", "·Japan"),
        ("two words ", "two words·"),
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


def test_pieces_of_a_character_are_told_apart() -> None:
    assert labels(byte_pieces()) == [
        *["<s>", "a", "漢 (1/3)", "漢 (2/3)", "漢 (3/3)", "·👋 (1/3)", "👋 (2/3)", "👋 (3/3)", "!"],
        "·ok",
    ]


def test_running_text_shows_a_character_once() -> None:
    pieces = running(byte_pieces())
    assert "".join(piece.text for piece in pieces) == f"<s>a漢{CONTINUED * 2} 👋{CONTINUED * 2}! ok"
    assert [piece.position for piece in pieces] == list(range(10))
    assert pieces[0].kind is Kind.SPECIAL
    assert [piece.position for piece in pieces if piece.kind is Kind.CONTINUED] == [3, 4, 6, 7]


@pytest.mark.parametrize("name", every_kind())
def test_running_text_is_the_whole_text(name: str) -> None:
    why = every_kind()[name]
    shown = "".join(piece.text for piece in running(why) if piece.kind in (Kind.TOKEN, Kind.GAP))
    assert shown == visible(why.prompt + why.completion)


def test_text_between_tokens_belongs_to_no_token() -> None:
    words = [Token((1,), "big", 0, 3), Token((2,), "cat", 4, 7)]
    pieces = running(make("big cat ", "!", input=words))
    assert [(piece.text, piece.position) for piece in pieces] == [
        ("big", 0), (" ", None), ("cat", 1), (" ", None), ("!", 2),
    ]  # fmt: skip


def test_equal_spans_of_prompt_and_output_are_not_pieces_of_one_character() -> None:
    assert labels(make("a", "b")) == ["a", "b"]


def test_visible_text_can_be_written_and_steers_nothing() -> None:
    shown = visible(HOSTILE)
    shown.encode("utf-8")
    assert not set(shown) & set("\x1b\u202e\u2028")
