"""Encoder–decoder models: scores against plain passes, on tiny models of every family."""

import copy
from pathlib import Path
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    BartForCausalLM,
    BertConfig,
    EncoderDecoderConfig,
    MBartTokenizer,
    NllbTokenizer,
    RobertaConfig,
)

import tiny_seq2seq
from reagent import explain
from reagent.case import Floats, Ids
from reagent.cli import main
from reagent.errors import CapabilityError, InputError
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.load import load_model
from reagent.models.ragged import score_ragged
from reagent.models.seq2seq import Seq2SeqModel
from reagent.removal import Delete
from reagent.testing import check_model

PROMPT = "The river runs through the old town"
# Families with code of their own: positions, scales, streams, windows, experts, widths.
DIFFERENT = {"t5", "bart", "marian", "m2m100", "prophetnet", "led", "switch", "t5gemma", "bert2gpt2"}
NO_ATTENTION = {"prophetnet", "led", "longt5"}  # several streams, local windows
TARGET = "She rents a small flat"


def model_of(family: str) -> Seq2SeqModel:
    model = load_model((tiny_seq2seq.network_of(family), tiny_seq2seq.tokenizer_of(family)))
    assert isinstance(model, Seq2SeqModel)
    return model


def plain_logprobs(model: Seq2SeqModel, context: Ids) -> Floats:
    """Log-probabilities of every token after a context, from one pass of the network itself; [vocabulary]."""
    place = context.tolist().index(model._adapter.boundary)
    source, output = context[:place], context[place:].copy()
    output[0] = model._text.start
    with torch.no_grad():
        logits = model.network(
            input_ids=torch.tensor(source[None]), decoder_input_ids=torch.tensor(output[None])
        ).logits
    return np.asarray(logits[0, -1].double().log_softmax(-1).numpy())


@pytest.mark.parametrize("family", tiny_seq2seq.FAMILIES)
def test_scores_equal_plain_passes(family: str) -> None:
    model = model_of(family)
    case = model.case(PROMPT, TARGET)
    rng = np.random.default_rng(0)
    sequences = []
    free = np.flatnonzero(~case.protected[: len(case.units) - 1])
    for removed in (0, 1, 3, 5, 2, 4):  # different lengths of source and output
        kept = np.ones(len(case.ids), dtype=bool)
        gone = rng.choice(free, removed, replace=False)
        kept[gone] = False
        sequences.append(case.ids[kept])
    positions = np.array([[len(sequence) - 1, len(sequence) - 2] for sequence in sequences])
    targets = case.targets[-2:][::-1].copy()
    scores = score_ragged(model, sequences, positions, targets)
    for i, sequence in enumerate(sequences):
        for j in range(2):
            row = plain_logprobs(model, sequence[: positions[i, j]])
            assert scores.logprob[i, j] == pytest.approx(row[targets[j]], abs=2e-4)
            assert scores.rank[i, j] == (row > row[targets[j]]).sum()


@pytest.mark.parametrize("family", sorted(DIFFERENT))
def test_hidden_tokens_get_no_attention_and_others_keep_their_places(family: str) -> None:
    model = model_of(family)
    case = model.case(PROMPT, TARGET)
    keep = np.ones((3, len(case.ids)), dtype=bool)
    keep[1, [1, 2, 5]] = False
    place = case.ids.tolist().index(model._adapter.boundary)
    keep[2, [0, 3, place + 2]] = False  # the last is a token of the output
    last = case.positions[-1:]
    scores = model.score_masked(np.tile(case.ids, (3, 1)), keep, last, case.targets[-1:])
    for i, row in enumerate(keep[:, : last[0]]):
        output = case.ids[place : last[0]].copy()
        output[0] = model._text.start
        with torch.no_grad():
            logits = model.network(
                input_ids=torch.tensor(case.ids[None, :place]),
                attention_mask=torch.tensor(row[None, :place].astype(int)),
                decoder_input_ids=torch.tensor(output[None]),
                decoder_attention_mask=torch.tensor(row[None, place:].astype(int)),
            ).logits
        expected = logits[0, -1].log_softmax(-1)[case.targets[-1]].item()
        assert scores.logprob[i, 0] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("family", sorted(DIFFERENT))
def test_embeddings_give_the_scores_and_gradients_of_tokens(family: str) -> None:
    model = model_of(family)
    case = model.case(PROMPT, TARGET).with_logprobs(model)
    ids = case.ids[: case.positions.max()]
    embeddings = model.embed(ids)
    assert embeddings is not None
    values = model.values(case, embeddings[None])[0]
    assert values == pytest.approx(case.values, abs=2e-4)
    distributions = model.after_embeddings(embeddings[None], case.positions)
    assert distributions == pytest.approx(model.after_tokens(case.ids[None], case.positions), abs=2e-4)
    gradients = model.gradients(case, embeddings[None], [0, 3])[0]  # [targets, length, width]
    assert not gradients[:, :, -1].any()  # the column that marks the boundary
    place = case.ids.tolist().index(model._adapter.boundary)
    for gradient, t in zip(gradients, (0, 3), strict=True):
        end = case.positions[t]
        parts = (embeddings[:place], embeddings[place:end])
        points = [
            torch.tensor(part[None, :, :width], requires_grad=True)
            for part, width in zip(parts, model._adapter._widths, strict=True)
        ]
        logits = model.network(inputs_embeds=points[0], decoder_inputs_embeds=points[1]).logits
        expected = torch.autograd.grad(logits[0, -1].log_softmax(-1)[case.targets[t]], points)
        for rows, part in zip((gradient[:place], gradient[place:end]), expected, strict=True):
            assert rows[:, : part.shape[-1]] == pytest.approx(part[0].numpy(), abs=1e-4)
        assert not gradient[end:].any()
    assert np.abs(gradients[0]).sum() > 0


def test_input_x_gradient_equals_captum() -> None:
    model = model_of("t5")
    why = explain(model, PROMPT, target=TARGET, method="input_x_gradient", attribute_target=False)
    table = model.network.get_input_embeddings()
    source = torch.tensor([[i for token in why.input[:-1] for i in token.ids]])  # the last one is the boundary
    target = torch.tensor([i for token in why.output for i in token.ids])
    output = table(torch.cat([torch.tensor([model.network.config.decoder_start_token_id]), target[:-1]])[None]).detach()

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        logits = model.network(inputs_embeds=embeddings, decoder_inputs_embeds=output).logits.log_softmax(-1)
        return logits[:, torch.arange(len(target)), target]

    assert why.effects is not None
    free = [not token.protected for token in why.input[:-1]]
    for t, row in enumerate(why.effects):
        point = table(source).detach().requires_grad_()
        products = captum.attr.InputXGradient(forward).attribute(point, target=t).sum(-1)[0].detach().numpy()
        assert np.array(row[: len(free)])[free] == pytest.approx(products[free], abs=1e-5)


@pytest.mark.parametrize("family", sorted(DIFFERENT - NO_ATTENTION))
def test_attention_joins_encoder_cross_and_decoder_attention(family: str) -> None:
    model = model_of(family)
    case = model.case(PROMPT, TARGET)
    layers = model.attentions(case.ids)
    assert layers is not None
    place = case.ids.tolist().index(model._adapter.boundary)
    first, last = layers[0], layers[-1]
    assert first[:, :place, :place].sum(-1) == pytest.approx(1, abs=1e-4)
    assert not first[:, place:].any()
    assert last[:, place:, :place].sum(-1) == pytest.approx(0.5, abs=1e-4)
    assert last[:, place:, place:].sum(-1) == pytest.approx(0.5, abs=1e-4)
    assert not last[:, :place].any()
    assert not np.triu(last[0, place:, place:], 1).any()  # the output does not attend to its future


@pytest.mark.parametrize("family", sorted(NO_ATTENTION))
def test_attention_that_is_not_between_all_tokens_is_refused(family: str) -> None:
    model = model_of(family)
    with pytest.raises(CapabilityError, match="shows its attention"):
        explain(model, PROMPT, method="attention")


@pytest.mark.parametrize("family", sorted(DIFFERENT))
def test_the_output_is_the_greedy_one(family: str) -> None:
    model = model_of(family)
    source = torch.tensor([[i for token in model._text.tokenize_source(PROMPT) for i in token.ids]])
    network = model.network
    start = torch.tensor([[model._text.start, *model._text.prefix]])
    with torch.no_grad():
        expected = network.generate(
            source, decoder_input_ids=start, max_new_tokens=4, num_beams=1, do_sample=False, use_cache=False,
            forced_eos_token_id=None,
        )[0, start.shape[1] :].tolist()  # fmt: skip
    ends = [i for i, token in enumerate(expected) if token in model._text.end_ids]
    expected = expected[: ends[0]] if ends else expected
    case = model.case(PROMPT, max_new_tokens=4)
    assert [token.ids[0] for token in case.output] == expected
    assert (model.score(case.ids[None], case.positions, case.targets).rank == 0).all()


@pytest.mark.parametrize("family", ["t5", "bart", "m2m100", "bert2gpt2", "prophetnet"])
def test_the_contract_of_a_model(family: str) -> None:
    check_model(model_of(family), PROMPT)


@pytest.mark.parametrize(
    ("family", "before", "start"),
    [
        ("t5", ["</s>"], ["<pad>"]),
        ("bart", ["</s>"], ["</s>", "<s>"]),  # labels begin with <s>
        ("mbart", ["</s>", "<en>"], ["<en>"]),  # the decoder starts with a language code
        ("m2m100", ["</s>"], ["</s>", "<fr>"]),  # a language code is forced
        ("bert2bert", ["</s>"], ["<s>"]),
    ],
)
def test_special_tokens_around_source_and_output_are_protected(
    family: str, before: list[str], start: list[str]
) -> None:
    case = model_of(family).case(PROMPT, TARGET)
    at = max(i for i, token in enumerate(case.input) if not token.protected) + 1
    assert [token.text for token in case.input[at:]] == [*before, *start]
    assert all(token.start == token.end == len(PROMPT) for token in case.input[at:])
    assert "".join(token.text for token in case.input if token.end > token.start) == PROMPT
    assert "".join(token.text for token in case.output) == TARGET


def test_folders_are_loaded_as_what_they_are(tmp_path: Path) -> None:
    for family in ("t5", "bart", "bert2bert"):
        folder = tmp_path / family
        tiny_seq2seq.network_of(family).save_pretrained(folder)
        tiny_seq2seq.tokenizer_of(family).save_pretrained(folder)
        loaded = load_model(folder)
        assert isinstance(loaded, Seq2SeqModel)
        assert loaded.info["architecture"] == "encoder-decoder"
        ours, theirs = (m.case(PROMPT, TARGET).with_logprobs(m) for m in (loaded, model_of(family)))
        assert ours.values == pytest.approx(theirs.values, abs=1e-4)


def test_the_decoder_of_a_pair_alone_stays_a_causal_model(tmp_path: Path) -> None:
    config = tiny_seq2seq.FAMILIES["bart"](len(tiny_seq2seq.word_tokenizer()))
    BartForCausalLM(config).save_pretrained(tmp_path)
    tiny_seq2seq.word_tokenizer().save_pretrained(tmp_path)
    assert isinstance(load_model(tmp_path), HuggingFaceModel)


def test_batches_change_nothing() -> None:
    network, tokenizer = tiny_seq2seq.network_of("t5"), tiny_seq2seq.tokenizer_of("t5")
    one, all_at_once = Seq2SeqModel(network, tokenizer, tokens_at_once=1), Seq2SeqModel(network, tokenizer)
    case = one.case(PROMPT, TARGET)
    removed = np.random.default_rng(0).random((20, int((~case.protected[:-1]).sum()))) < 0.5
    scores = [Delete(model, case).score(removed).value for model in (one, all_at_once)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert one.meter == all_at_once.meter


def test_a_source_may_lose_all_its_tokens() -> None:
    tokenizer = tiny_seq2seq.word_tokenizer("$A")  # no special tokens
    model = Seq2SeqModel(tiny_seq2seq.network_of("t5"), tokenizer)
    case = model.case(PROMPT, TARGET)
    remover = Delete(model, case.without_output_removal())
    assert np.isfinite(remover.score(np.ones((1, len(remover.free)), dtype=bool)).value).all()


def test_different_vocabularies_are_refused() -> None:
    tokenizer = tiny_seq2seq.tokenizer_of("bert2bert")
    config = tiny_seq2seq.FAMILIES["bert2bert"](len(tokenizer))
    config.decoder.vocab_size += 8
    with pytest.raises(InputError, match=r"have different vocabularies, of [0-9]+ and [0-9]+ tokens"):
        load_model((AutoModelForSeq2SeqLM.from_config(config), tokenizer))


def translators(tmp_path: Path) -> dict[str, Path]:
    """Folders of an NLLB, whose language code comes first, and of an mBART, where it comes last."""
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"Therivunsotwld"]
    nllb = NllbTokenizer(vocab={token: i for i, token in enumerate(vocabulary)}, merges=[])
    mbart = MBartTokenizer(vocab=[(token, -1.0 * (i > 3)) for i, token in enumerate(vocabulary)])
    folders = {}
    for family, tokenizer in (("m2m100", nllb), ("mbart", mbart)):
        torch.manual_seed(0)
        network = AutoModelForSeq2SeqLM.from_config(tiny_seq2seq.FAMILIES[family](len(tokenizer)))
        network.config.decoder_start_token_id = network.generation_config.decoder_start_token_id = None
        if family == "m2m100":
            network.config.decoder_start_token_id = network.generation_config.decoder_start_token_id = 2
        folders[family] = tmp_path / family
        network.save_pretrained(folders[family])
        tokenizer.save_pretrained(folders[family])
    return folders


@pytest.mark.parametrize(
    ("family", "source", "target"), [("m2m100", "eng_Latn", "fra_Latn"), ("mbart", "en_XX", "fr_XX")]
)
def test_languages_choose_the_codes_of_source_and_output(
    family: str, source: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = translators(tmp_path)[family]
    with pytest.raises(InputError, match=f"translates between several languages: give `languages`.*{source[:2]}"):
        load_model(folder)
    with pytest.raises(
        InputError, match=f"has no language 'xx_Latn'.* It has: {'ace' if family == 'm2m100' else 'ar'}"
    ):
        load_model(folder, languages=("xx_Latn", target))
    for token in ("v", "</s>", "<unk>"):  # tokens that are no languages
        with pytest.raises(InputError, match=f"has no language {token!r}"):
            load_model(folder, languages=(source, token))
    model = load_model(folder, languages=(source, target))
    assert isinstance(model, Seq2SeqModel)
    case = model.case("The river", "town")
    names = [token.text for token in case.input if token.protected]
    start = [model._text.codec.name(model._text.start)] if family == "mbart" else ["</s>", target]
    assert names == ([source, "</s>", *start] if family == "m2m100" else ["</s>", source, *start])
    assert start[-1] == target
    assert model.info["languages"] == [source, target]
    path = tmp_path / "why.json"
    options = ["--target", "town", "--method", "occlusion", "--json", str(path), "--quiet"]
    with pytest.raises(SystemExit) as stop:
        main(["explain", "The river", "--model", str(folder), "--languages", f"{source}, {target}", *options])
    assert not stop.value.code, capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(path), "--metrics", "comprehensiveness", "--draws", "2", "--quiet"])
    assert not stop.value.code, capsys.readouterr().err


def test_languages_of_other_models_are_refused() -> None:
    for family in ("t5", "bart"):
        with pytest.raises(InputError, match="has no languages: leave `languages` out"):
            load_model((tiny_seq2seq.network_of(family), tiny_seq2seq.tokenizer_of(family)), languages=("a", "b"))
    with pytest.raises(InputError, match="does not translate between languages"):
        load_model("smollm2", languages=("en", "fr"))
    with pytest.raises(InputError, match="a server has its own languages"):
        load_model("http://127.0.0.1:9", languages=("en", "fr"))
    with pytest.raises(InputError, match="`languages` must be two codes"):
        load_model("smollm2", languages="en")  # type: ignore[arg-type]


def test_long_texts_are_refused() -> None:
    model = model_of("bart")
    with pytest.raises(
        InputError, match=r"the prompt takes \d+ tokens, and 'BartForConditionalGeneration' reads at most 64"
    ):
        model.case(PROMPT * 10, TARGET)
    with pytest.raises(InputError, match=r"the target takes \d+ tokens"):
        model.case(PROMPT, TARGET * 40)
    with pytest.raises(InputError, match="100 new tokens take 101 tokens"):
        model.case(PROMPT, max_new_tokens=100)


def test_the_case_of_one_target_keeps_text_and_spans() -> None:
    case = model_of("bart").case(PROMPT, TARGET)
    for t in range(len(case.output)):
        alone = case.for_target(t)
        assert case.text.startswith(alone.text)
        assert alone.spans == case.spans[: len(alone.units)]
        assert alone.ids.tolist() == case.ids[: len(alone.ids)].tolist()


def test_a_chat_may_have_tools() -> None:
    tokenizer = copy.deepcopy(tiny_seq2seq.tokenizer_of("t5"))
    tokenizer.chat_template = (
        "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
        "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
    )
    model = Seq2SeqModel(tiny_seq2seq.network_of("t5"), tokenizer)
    tools = [{"type": "function", "function": {"name": "read_mail", "description": "Read.", "parameters": {}}}]
    case = model.chat([{"role": "user", "content": PROMPT}], TARGET, tools=tools)
    assert case.prompt.startswith("read_mail user The river")


@pytest.mark.parametrize("context", [2, 4, 5, 8])
def test_a_short_context_is_respected(context: int) -> None:
    tokenizer = tiny_seq2seq.tokenizer_of("bart")
    config = tiny_seq2seq.FAMILIES["bart"](len(tokenizer))
    config.max_position_embeddings = context
    model = load_model((AutoModelForSeq2SeqLM.from_config(config), tokenizer))
    assert isinstance(model, Seq2SeqModel)
    assert model.context_length == context
    assert ("inputs_embeds" in model.missing_inputs) == (context < 4)
    assert model._adapter.is_causal == (context >= 4)


def test_a_module_is_checked_once() -> None:
    network = copy.deepcopy(tiny_seq2seq.network_of("t5"))
    passes: list[int] = []
    network.register_forward_pre_hook(lambda *_: passes.append(1))
    counts = []
    for dtype in (torch.float32, torch.float32, torch.bfloat16):
        load_model((network.to(dtype), tiny_seq2seq.tokenizer_of("t5")))
        counts.append(len(passes))
    assert 0 < counts[0] == counts[1] < counts[2]


@pytest.mark.parametrize("family", ["t5", "bart", "m2m100"])
def test_low_precision_is_checked_within_its_noise(family: str) -> None:
    """Padding and embeddings are used as in float32, with the same scale of embeddings."""
    exact = model_of(family)
    network = copy.deepcopy(tiny_seq2seq.network_of(family)).to(torch.bfloat16)
    model = load_model((network, tiny_seq2seq.tokenizer_of(family)))
    assert isinstance(model, Seq2SeqModel)
    assert model._adapter.is_causal
    assert model._adapter.pads
    assert model._adapter._check.scales == exact._adapter._check.scales
    case = exact.case(PROMPT, TARGET)
    found, expected = (one.score(case.ids[None], case.positions, case.targets).logprob for one in (model, exact))
    np.testing.assert_allclose(found, expected, atol=0.2)


def test_a_decoder_that_sees_later_tokens_is_found_in_low_precision() -> None:
    network = copy.deepcopy(tiny_seq2seq.network_of("bart")).to(torch.bfloat16)

    def look_ahead(_module: object, _args: object, output: Any) -> Any:
        output.logits = output.logits + output.logits.mean(1, keepdim=True)
        return output

    network.register_forward_hook(look_ahead)
    model = load_model((network, tiny_seq2seq.tokenizer_of("bart")))
    assert isinstance(model, Seq2SeqModel)
    assert not model._adapter.is_causal


def test_a_network_that_fails_is_one_error_line() -> None:
    network = copy.deepcopy(tiny_seq2seq.network_of("bart"))
    network.model.decoder.layers[0].fc1 = torch.nn.Linear(7, 7)
    with pytest.raises(InputError, match=r"a forward pass over 9 tokens gives no logits \(.*\); choose") as caught:
        load_model((network, tiny_seq2seq.tokenizer_of("bart")))
    assert "\n" not in str(caught.value)


def test_positions_after_the_padding_id_shorten_the_context() -> None:
    tokenizer = tiny_seq2seq.tokenizer_of("bert2bert")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    encoder = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=20, **sizes, **ids)
    decoder = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=16, **sizes, **ids)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, decoder_start_token_id=1, **ids)
    model = load_model((AutoModelForSeq2SeqLM.from_config(config), tokenizer))
    assert isinstance(model, Seq2SeqModel)
    assert (model._adapter.context_length, model._adapter.output_length) == (18, 16)
