"""The scoring seam, on tiny real models of six families."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig, PreTrainedTokenizer
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

import tiny
from architectures import build, make_network, shrink
from reagent.case import Ids
from reagent.errors import InputError
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.network import Network

PROMPT = "My aunt moved to Japan to teach music."


def local(family: str, **options: int) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family), name=family, **options)


def some_batch(model: HuggingFaceModel, rows: int = 9) -> tuple[Ids, Ids, Ids]:
    """Variations of a prompt, which leave it early or late, and the targets after it."""
    case = model.case(PROMPT, target=" She rents")
    sequences = np.repeat(case.ids[None], rows, axis=0)
    rng = np.random.default_rng(0)
    for row, place in zip(sequences[1:], rng.permutation(np.arange(rows - 1) % len(case.input)), strict=True):
        row[place] = rng.integers(5, 200)
    return sequences, case.positions, case.targets


def tokens_read(model: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by how many tokens the network reads, pass by pass."""
    read: list[int] = []
    original = model.network.forward

    def watched(input_ids: torch.Tensor, **more: object) -> object:
        read.append(input_ids.numel())
        return original(input_ids, **more)

    monkeypatch.setattr(model.network, "forward", watched)
    return read


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_scores_equal_a_plain_softmax_of_each_prefix(family: str) -> None:
    model = local(family)
    sequences, positions, targets = some_batch(model)
    scored = model.score(sequences, positions, targets)
    for b, sequence in enumerate(sequences):
        for j, (position, target) in enumerate(zip(positions, targets, strict=True)):
            with torch.no_grad():
                logits = model.network(torch.tensor(sequence[None, :position])).logits[0, -1]
            expected = logits.log_softmax(-1)[target].item()
            assert scored.logprob[b, j] == pytest.approx(expected, abs=1e-4)
            assert scored.rank[b, j] == (logits > logits[target]).sum().item()
    assert np.ptp(scored.logprob[:, 0]) > 0.01, "the model ignores its context: this test would see nothing"


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize(
    "budget", [{"tokens_at_once": 1}, {"tokens_at_once": 40}, {"logits_at_once": 1}, {"logits_at_once": 1000}]
)
def test_another_chunk_size_gives_the_same_scores(family: str, budget: dict[str, int]) -> None:
    whole, cut = local(family), local(family, **budget)
    batch = some_batch(whole)
    a, b = whole.score(*batch), cut.score(*batch)
    np.testing.assert_allclose(a.logprob, b.logprob, atol=1e-4)
    np.testing.assert_array_equal(a.rank, b.rank)
    np.testing.assert_array_equal(whole.predict(batch[0][0], 5).ids, cut.predict(batch[0][0], 5).ids)


def test_a_batch_never_holds_more_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("llama", tokens_at_once=64, logits_at_once=1000)
    sizes = []
    original = model._adapter.forward

    def watched(text: torch.Tensor, positions: torch.Tensor, **more: object) -> torch.Tensor:
        logits = original(text, positions, **more)
        sizes.append((text.numel(), logits.numel()))
        return logits

    monkeypatch.setattr(model._adapter, "forward", watched)
    model.score(*some_batch(model, rows=20))
    assert max(tokens for tokens, _ in sizes) <= 64
    assert max(logits for _, logits in sizes) <= 1000


def test_a_common_beginning_is_read_once_and_kept_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("llama", tokens_at_once=40)
    sequences, positions, targets = some_batch(model, rows=20)
    sequences = sequences[(sequences[:, :5] == sequences[0, :5]).all(-1)]
    assert len(sequences) > 5
    expected = local("llama").score(sequences[:1], positions, targets).logprob[0]
    read = tokens_read(model, monkeypatch)
    first = model.score(sequences, positions, targets)
    cost = sum(read)
    assert cost < 0.7 * sequences[:, : positions.max()].size
    np.testing.assert_allclose(first.logprob[0], expected, atol=1e-4)
    read.clear()
    again = model.score(sequences[::-1], positions, targets)
    assert sum(read) <= cost - 5
    np.testing.assert_allclose(again.logprob[::-1], first.logprob, atol=1e-4)
    # Another text must not be continued from the beginning of this one.
    other = sequences[:6].copy()
    other[:, 0] = 77
    np.testing.assert_allclose(
        model.score(other, positions, targets).logprob,
        local("llama").score(other, positions, targets).logprob,
        atol=1e-4,
    )


def test_probes_of_one_token_read_only_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("llama")
    sequences, positions, targets = some_batch(model, rows=80)
    read = tokens_read(model, monkeypatch)
    shared = model.score(sequences, positions, targets)
    assert sum(read) < 0.9 * sequences[:, : positions.max()].size
    monkeypatch.setattr(HuggingFaceModel, "_pass_cost", math.inf)
    model.clear_cache()  # reads all of it again
    read.clear()
    whole = model.score(sequences, positions, targets)
    assert sum(read) == sequences[:, : positions.max()].size
    np.testing.assert_allclose(shared.logprob, whole.logprob, atol=1e-4)
    np.testing.assert_array_equal(shared.rank, whole.rank)


def test_the_meter_counts_sequences_and_tokens_however_they_are_cut() -> None:
    for budget in ({}, {"tokens_at_once": 1}):
        model = local("gpt2", **budget)
        sequences, positions, targets = some_batch(model, rows=7)
        model.score(sequences, positions, targets)
        assert (model.meter.forward_passes, model.meter.tokens) == (7, 7 * positions.max())


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_greedy_continuation_is_that_of_generate(family: str) -> None:
    model = local(family)
    case = model.case(PROMPT, max_new_tokens=6)
    ids = torch.tensor(case.ids[None, : len(case.input)])
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    answer = model.network.generate(ids, **settings)[0, ids.shape[1] :]
    assert [t.ids[0] for t in case.output] == [i for i in answer.tolist() if i not in model._end_ids]


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("text", [PROMPT, "a 🙂 b\n\n\tc  漢字 é", "x", " leading and trailing ", "לֹא 👩‍👩‍👧 नमस्ते"])
def test_tokens_cover_the_text_and_know_where_they_stand(family: str, text: str) -> None:
    case = local(family).case(text, target=" Tokyo")
    for source, tokens in ((text, case.input), (" Tokyo", case.output)):
        spoken = [t for t in tokens if t.start < t.end]
        assert all(t.text == source[t.start : t.end] for t in spoken)
        covered = set().union(*(range(t.start, t.end) for t in spoken))
        assert covered == set(range(len(source)))
        assert [t.start for t in spoken] == sorted(t.start for t in spoken)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_start_token_is_there_where_the_tokenizer_says_so_and_protected(family: str) -> None:
    tokens = local(family).case(PROMPT, target=" Tokyo").input
    assert [t.protected for t in tokens] == [family in ("opt", "gemma", "gemma3")] + [False] * (len(tokens) - 1)
    if family in ("opt", "gemma", "gemma3"):
        assert tokens[0].text in ("<s>", "<bos>")
        assert (tokens[0].start, tokens[0].end) == (0, 0)


def test_generated_pieces_of_one_character_share_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("gpt2")
    pieces = model.tokenizer("漢 b", add_special_tokens=False)["input_ids"]
    assert len(pieces) >= 4, "three bytes and more"
    monkeypatch.setattr(model, "_generate", lambda _ids, _n: pieces)
    case = model.case(PROMPT)
    assert case.completion == "漢 b"
    assert [(t.start, t.end) for t in case.output[:3]] == [(0, 1)] * 3
    assert case.output[3].start == 1
    assert all(t.text == case.completion[t.start : t.end] for t in case.output)


def test_a_target_of_several_tokens_is_several_targets() -> None:
    case = local("llama").case(PROMPT, target=" She rents a small flat")
    assert len(case.output) > 1
    assert "".join(t.text for t in case.output) == " She rents a small flat"


def test_a_target_that_would_merge_with_the_prompt_is_read_alone() -> None:
    model = local("gpt2")
    case = model.case("My aunt mov", target="ed to Japan")
    assert [t.ids[0] for t in case.input] == [t.ids[0] for t in model.case("My aunt mov", target=" x").input]
    assert "".join(t.text for t in case.output) == "ed to Japan"


def test_predictions_are_the_likeliest_ordinary_tokens() -> None:
    model = local("qwen")
    ids = model.case(PROMPT, target=" Tokyo").ids
    found = model.predict(ids, 4)
    assert found.ids.shape == (len(ids) - 1, 4)
    with torch.no_grad():
        logprobs = model.network(torch.tensor(ids[None])).logits[0].log_softmax(-1)
    logprobs[:, sorted(model.special_ids)] = -torch.inf
    for i, row in enumerate(found.ids):
        assert row.tolist() == logprobs[i].topk(4).indices.tolist()
        np.testing.assert_allclose(found.logprob[i], logprobs[i].topk(4).values, atol=1e-4)


def test_ordinary_tokens_are_printable_and_not_special() -> None:
    model = local("gemma")
    texts = [model.tokenizer.decode([i]) for i in model.ordinary_ids]
    assert len(texts) > 50
    assert all(text.strip() and text.isprintable() for text in texts)
    assert not set(model.ordinary_ids.tolist()) & model.special_ids


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(InputError, match="the prompt is empty"):
        local("gpt2").case(prompt)


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers() -> None:
    with pytest.raises(InputError, match=r"take \d+ tokens, and 'gpt2' reads at most 128"):
        local("gpt2").case("river " * 300, target=" x")
    with pytest.raises(InputError, match="reads at most 128"):
        local("gpt2").case(PROMPT, max_new_tokens=128)


def test_a_prompt_of_special_tokens_alone_has_nothing_to_explain() -> None:
    with pytest.raises(InputError, match="nothing to explain"):
        local("gpt2").case("<s></s>", target=" x")


def test_a_model_that_ends_at_once_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("gpt2")
    monkeypatch.setattr(model, "_generate", lambda _ids, _n: [])
    with pytest.raises(InputError, match="give the text to explain as `target`"):
        model.case(PROMPT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_scores_are_close(dtype: torch.dtype) -> None:
    import copy

    full = local("llama")
    half = HuggingFaceModel(copy.deepcopy(full.network).to(dtype), full.tokenizer)
    assert half.info["dtype"] == str(dtype).removeprefix("torch.")
    batch = some_batch(full)
    np.testing.assert_allclose(half.score(*batch).logprob, full.score(*batch).logprob, atol=0.5)


def test_a_target_that_goes_on_with_a_word_gets_no_space_of_its_own() -> None:
    tokenizer = tiny.dummy_space_tokenizer()
    network = AutoModelForCausalLM.from_config(tiny.FAMILIES["llama"](len(tokenizer)))
    case = HuggingFaceModel(network, tokenizer).case("My aunt moved to Jap", target="an to teach")
    pieces = tokenizer.convert_ids_to_tokens([t.ids[0] for t in case.output])
    assert "".join(pieces) == "an▁to▁teach"
    assert "".join(t.text for t in case.output) == "an to teach"


class LetterTokenizer(PreTrainedTokenizer):
    """A slow tokenizer, in plain Python: letters, and a start token."""

    def __init__(self) -> None:
        self.letters = ["<s>", *"abcdefghijklmnopqrstuvwxyz "]
        super().__init__(bos_token="<s>")

    @property
    def vocab_size(self) -> int:
        return len(self.letters)

    def get_vocab(self) -> dict[str, int]:
        return {letter: i for i, letter in enumerate(self.letters)}

    def _tokenize(self, text: str, **_: object) -> list[str]:
        return list(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.letters.index(token)

    def _convert_id_to_token(self, index: int) -> str:
        return self.letters[index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def build_inputs_with_special_tokens(self, ids: list[int], more: list[int] | None = None) -> list[int]:
        return [0, *ids, *(more or [])]


def test_a_slow_tokenizer_knows_where_its_tokens_stand() -> None:
    tokenizer = LetterTokenizer()
    assert not tokenizer.is_fast
    model = HuggingFaceModel(AutoModelForCausalLM.from_config(tiny.FAMILIES["gpt2"](len(tokenizer.letters))), tokenizer)
    case = model.case("hello wo", target="rld")
    spoken = [t for t in case.input if not t.protected]
    assert [t.text for t in spoken] == list("hello wo")
    assert [(t.start, t.end) for t in spoken] == [(i, i + 1) for i in range(8)]
    assert [t.text for t in case.output] == list("rld")


def test_a_caller_may_use_its_array_again() -> None:
    model, fresh = local("gpt2"), local("gpt2")
    sequences, positions, targets = some_batch(model)
    sequences[:, 6:8] = np.arange(len(sequences))[:, None] + 20  # a prefix worth sharing
    model.score(sequences, positions, targets)
    sequences[:, 0] = 77
    again = model.score(sequences, positions, targets)
    np.testing.assert_allclose(again.logprob, fresh.score(sequences, positions, targets).logprob, atol=1e-4)


def test_an_interrupted_call_leaves_a_model_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    model, fresh = local("llama"), local("llama")
    sequences, positions, targets = some_batch(model)
    sequences[:, :6] = sequences[0, :6]
    expected = fresh.score(sequences, positions, targets)
    layer = model.network.model.layers[1]
    original, calls = layer.forward, []

    def stop(*arguments: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*arguments, **more)

    monkeypatch.setattr(layer, "forward", stop)
    with pytest.raises(KeyboardInterrupt):
        model.score(sequences, positions, targets)
    np.testing.assert_allclose(model.score(sequences, positions, targets).logprob, expected.logprob, atol=1e-4)


def test_several_threads_may_ask_one_model() -> None:
    model, fresh = local("llama"), local("llama")
    batches = []
    for seed in range(6):
        sequences, positions, targets = some_batch(model)
        sequences[:, 0] = 30 + seed
        batches.append((sequences, positions, targets))
    expected = [fresh.score(*batch).logprob for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: model.score(*batches[i % 6]).logprob, range(48)))
    for i, logprob in enumerate(found):
        np.testing.assert_allclose(logprob, expected[i % 6], atol=1e-4)


def test_a_model_that_keeps_no_keys_and_values_is_scored_all_the_same() -> None:
    tokenizer = tiny.byte_level_tokenizer()
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, state_size=4)
    model = HuggingFaceModel(AutoModelForCausalLM.from_config(config), tokenizer)
    case = model.case(PROMPT, max_new_tokens=3)
    sequences = np.repeat(case.ids[None], 4, axis=0)
    sequences[1:, 6] = [30, 40, 50]
    scored = model.score(sequences, case.positions, case.targets)
    with torch.no_grad():
        logits = model.network(torch.tensor(sequences[:, : case.positions[-1]])).logits[:, case.positions - 1]
    own = logits.log_softmax(-1)[:, np.arange(3), case.targets]
    np.testing.assert_allclose(scored.logprob, own, atol=1e-4)


def test_a_wrapped_model_keeps_its_weights_trainable() -> None:
    network = AutoModelForCausalLM.from_config(tiny.FAMILIES["gpt2"](len(tiny.byte_level_tokenizer())))
    HuggingFaceModel(network, tiny.byte_level_tokenizer()).case(PROMPT, max_new_tokens=1)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_model_streams_its_answer() -> None:
    model, texts = local("gpt2"), []
    streaming = model.with_stream(texts.append)
    case = streaming.case(PROMPT, max_new_tokens=4)
    assert case == model.case(PROMPT, max_new_tokens=4)
    assert len(texts) == len(case.output)
    assert texts[-1] == case.completion.rstrip("�")
    assert streaming.meter is model.meter
    assert model._on_text is None


@pytest.mark.parametrize(
    ("model_type", "limit"),
    [("mpt", {"max_seq_len": 128}), ("whisper", {"max_target_positions": 128}), ("roberta", {"pad_token_id": 1})],
)
def test_the_context_limit_is_the_one_that_works(model_type: str, limit: dict[str, int]) -> None:
    model = HuggingFaceModel(make_network(shrink(model_type, **limit)), tiny.byte_level_tokenizer())
    longest = model.context_length
    assert longest == (126 if model_type == "roberta" else 128)  # RoBERTa keeps the positions up to its padding id
    ids = np.random.default_rng(0).integers(5, 300, (1, longest + 1))
    assert np.isfinite(model.score(ids, np.array([longest]), ids[0, -1:]).logprob).all()


def test_steps_with_a_cache_continue_the_positions() -> None:
    """Bamba counts from zero in every call unless it is told the positions."""
    network = build("bamba")
    adapter = Network(network)
    ids = torch.from_numpy(np.random.default_rng(0).integers(5, 300, (1, 12)))
    with torch.inference_mode():
        _, cache = adapter.extend(ids[:, :11])
        step, _ = adapter.extend(ids[:, 11:], cache)
        full = network(input_ids=ids, use_cache=False).logits[:, -1]
    torch.testing.assert_close(step, full, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("model_type", ["minimax", "qwen3_next"])
def test_only_plain_keys_and_values_are_shared(model_type: str) -> None:
    model = HuggingFaceModel(build(model_type), tiny.byte_level_tokenizer())
    sequences, positions, targets = some_batch(model, rows=4)
    sequences[:, :6] = sequences[0, :6]
    scored = model.score(sequences, positions, targets).logprob
    single = [model.score(row[None], positions, targets).logprob[0] for row in sequences]
    np.testing.assert_allclose(scored, single, atol=1e-4)
    assert not model._prefix.can_share


def test_a_cache_of_an_encoder_and_a_decoder_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local("gpt2")
    extend = model._adapter.extend

    def paired(ids: torch.Tensor, cache: object = None) -> object:
        logits, grown = extend(ids, cache)
        return logits, EncoderDecoderCache(grown, DynamicCache())

    sequences, positions, targets = some_batch(model, rows=4)
    sequences[:, :6] = sequences[0, :6]
    expected = local("gpt2").score(sequences, positions, targets).logprob
    monkeypatch.setattr(model._adapter, "extend", paired)
    np.testing.assert_allclose(model.score(sequences, positions, targets).logprob, expected, atol=1e-4)
    assert not model._prefix.can_share
