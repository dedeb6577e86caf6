"""Where tokens are in a text."""

from reagent.models.tokenization import fill_gaps, spans_by_decoding


def test_tiling_leaves_no_gap_and_keeps_shared_characters() -> None:
    assert fill_gaps([(0, 0), (0, 2), (3, 5), (3, 5), (6, 7)], 8) == [(0, 0), (0, 2), (2, 5), (3, 5), (5, 8)]
    assert fill_gaps([], 3) == []


def test_spans_by_decoding_bytes() -> None:
    def decode(ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")

    before, ids = list(b"ab"), list("c🙂\ufffd".encode())
    spans = spans_by_decoding(decode, before, ids)
    assert spans == [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3)]
