"""Pieces of other tools, found in a text."""

import pytest

from reagent.errors import InputError
from reagent.exchange.alignment import find_pieces
from tiny import byte_level_tokenizer, dummy_space_tokenizer, metaspace_tokenizer

TEXT = "My aunt 😀 moved to the capital:\n\nTōkyō, 東京!"


@pytest.mark.parametrize("make", [byte_level_tokenizer, metaspace_tokenizer, dummy_space_tokenizer])
def test_the_pieces_of_a_tokenizer_are_where_it_says(make) -> None:  # type: ignore[no-untyped-def]
    text = "My aunt rents a flat in the capital, Tokyo." if make is dummy_space_tokenizer else TEXT
    encoded = make()(text, return_offsets_mapping=True)
    places = find_pieces(text, make().convert_ids_to_tokens(encoded["input_ids"]))
    for place, (start, end) in zip(places, encoded["offset_mapping"], strict=True):
        assert (text[slice(*place)] if place else "").strip() == text[start:end].strip()


@pytest.mark.parametrize(
    "pieces",
    [
        ["My ", "aunt ", "😀", "😀", " moved to the capital:", "\\n", "\\n", "Tōkyō", ",", "東京!"],
        ["[CLS]", "My", "aunt", "😀", "😀 [OVERLAP]", "moved to", "the", "capital", ":", "Tōkyō", ",", "東", "京!", ""],
    ],
)
def test_spaces_and_repeated_characters_may_be_written_in_several_ways(pieces: list[str]) -> None:
    places = find_pieces(TEXT, pieces)
    assert [places[i] for i, piece in enumerate(pieces) if piece in ("[CLS]", "")] == [None] * (
        2 if pieces[-1] == "" else 0
    )
    for piece, place in zip(pieces, places, strict=True):
        if place is not None:
            assert TEXT[slice(*place)].strip() == piece.removesuffix(" [OVERLAP]").replace("\\n", "").strip()


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["My", " uncle"], r"piece 1 of the text, ' uncle', is not where it is expected, at ' aunt 😀 moved"),
        (["My", " aunt"], r"no piece covers the end of the text, ' 😀 moved"),
        ([], "no piece covers the end"),
    ],
)
def test_pieces_of_another_text_are_refused(pieces: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_pieces(TEXT, pieces)


def test_gaps_are_allowed_where_a_tool_skips_text() -> None:
    assert find_pieces("Dear Ann, see you in Rome.", ["Ann", "Rome"], gaps=True) == [(5, 8), (21, 25)]
    with pytest.raises(InputError, match="'Oslo'"):
        find_pieces("Dear Ann, see you in Rome.", ["Ann", "Oslo"], gaps=True)
