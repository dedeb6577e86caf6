"""Where tokens are in a text."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, ByT5Tokenizer, CanineTokenizer, PreTrainedTokenizerFast

import reagent
import tiny
from reagent.errors import InputError
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.tokenization import TokenizerCodec, fill_gaps, spans_by_decoding, tokenize, tokenize_target


def test_tiling_leaves_no_gap_and_keeps_shared_characters() -> None:
    assert fill_gaps([(0, 0), (0, 2), (3, 5), (3, 5), (6, 7)], 8) == [(0, 0), (0, 2), (2, 5), (3, 5), (5, 8)]
    assert fill_gaps([], 3) == []


def test_spans_by_decoding_bytes() -> None:
    def decode(ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")

    before, ids = list(b"ab"), list("c🙂\ufffd".encode())
    spans = spans_by_decoding(decode, before, ids)
    assert spans == [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3)]


@pytest.mark.parametrize("tokenizer", [ByT5Tokenizer, CanineTokenizer])
def test_a_slow_tokenizer_adds_no_end_token_and_stays_inside_the_text(tokenizer: type) -> None:
    codec = TokenizerCodec(tokenizer())
    for text in ("My aunt é", "漢字", " a  b\n"):
        tokens = [token for token in tokenize(codec, text) if not token.protected]
        assert tokens[-1].end == len(text)
        assert tokens[-1] == tokenize(codec, text)[-1]
        assert all(token.text == text[token.start : token.end] for token in tokens)


def test_words_of_a_slow_tokenizer_are_explained() -> None:
    tokenizer = ByT5Tokenizer()
    network = AutoModelForCausalLM.from_config(tiny.FAMILIES["gpt2"](len(tokenizer)))
    model = HuggingFaceModel(network, tokenizer)
    why = reagent.explain(model, "My aunt moved", target=" to", units="word", method="occlusion", replacer="random")
    assert [unit.text for unit in why.input] == ["My", " aunt", " moved"]


def word_piece_tokenizer() -> PreTrainedTokenizerFast:
    """As in BERT: white space is dropped, line ends too."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.train_from_iterator(
        tiny.TEXT, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]")


def test_a_target_starts_at_zero_if_line_ends_are_dropped() -> None:
    codec = TokenizerCodec(word_piece_tokenizer())
    prompt = "the old \n"
    ids = [token.ids[0] for token in tokenize(codec, prompt)]
    tokens = tokenize_target(codec, prompt, True, ids, "town, and")
    assert (tokens[0].start, tokens[-1].end) == (0, 9)
    assert "".join(token.text for token in tokens) == "town, and"


class Unknowing(ByT5Tokenizer):
    """Knows no character."""

    def _convert_token_to_id(self, _: str) -> int:
        return int(self.unk_token_id)


@pytest.mark.parametrize("tokenizer", [word_piece_tokenizer(), Unknowing()], ids=["fast", "slow"])
def test_a_prompt_of_unknown_characters_is_one_clear_error(tokenizer: PreTrainedTokenizerFast) -> None:
    model = HuggingFaceModel(AutoModelForCausalLM.from_config(tiny.FAMILIES["gpt2"](len(tokenizer))), tokenizer)
    with pytest.raises(InputError, match="nothing to explain"):
        model.case("漢字", max_new_tokens=1)
