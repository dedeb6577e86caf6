"""The masked LMs of these tests are trained on sentences whose correct fills are known: a country for a country etc."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForMaskedLM, AutoTokenizer

import masked
from masked import COUNTRIES, DOES, MAX_LENGTH, MOVES, NUMBERS, PEOPLE, ROOMS, SENTENCE, SUBJECTS
from reagent.case import Case
from reagent.errors import CapabilityError, FileError, InputError
from reagent.explanation import Token
from reagent.models._transformers import is_available_offline
from reagent.models.base import Meter, Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import Proposals, make_replacer, masked_lm, masked_network
from reagent.replacers.masked_lm import MIN_CANDIDATES, MaskedLMReplacer
from reagent.replacers.masked_network import Fill
from reagent.testing.scripted import ScriptedModel

pytestmark = pytest.mark.xdist_group("masked_lm")  # train each masked LM once, not in every worker


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The folder of each kind of masked LM."""
    paths = {kind: tmp_path_factory.mktemp(kind) for kind in ("roberta", "bert")}
    for kind, folder in paths.items():
        masked.train(kind, folder)
    return {kind: str(folder) for kind, folder in paths.items()}


@pytest.fixture(params=["roberta", "bert"])
def folder(request: pytest.FixtureRequest, folders: dict[str, str]) -> str:
    return folders[request.param]


def propose(folder: str, model: Model, case: Case, seed: int = 0, **options: Any) -> Proposals:
    return MaskedLMReplacer(folder, **options).propose(model, case, np.random.default_rng(seed))


def candidate_texts(model: HuggingFaceModel, case: Case, proposals: Proposals) -> dict[str, list[str]]:
    """The texts of the candidates of each token, by the token's text."""
    spelled = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))
    rows = zip(case.input + case.output, proposals.ids, proposals.weights, strict=True)
    return {token.text: [spelled[i] for i in ids[weights > 0].tolist()] for token, ids, weights in rows}


@pytest.mark.parametrize("kind", ["byte-level", "metaspace"])
def test_each_word_is_replaced_by_words_of_its_slot(folder: str, kind: str) -> None:
    model = masked.make_model(kind)
    case = model.case(SENTENCE, target=" Your uncle")
    texts = candidate_texts(model, case, propose(folder, model, case, candidates=6))
    slots = [("Japan", COUNTRIES), ("aunt", PEOPLE), ("moved", MOVES), ("teach", DOES), ("music", SUBJECTS)]
    for original, group in [*slots, ("room", ROOMS)]:
        others = {f" {word}" for word in group} - {f" {original}"}
        assert set(texts[f" {original}"][: len(others)]) == others
    # A token inside a word is masked alone, and the text after it still belongs to the word.
    assert set(texts["7"]) <= set(NUMBERS) - {"7"}
    # A token without a space is replaced by one without, unless the vocabulary spells the first word with one.
    assert set(texts["Her"][:2]) == {"His", "Their"}
    assert [word.strip() for word in texts["My"][:2]] in (["Your", "Our"], ["Our", "Your"])
    assert all(word.startswith(" ") == (kind == "metaspace") for word in texts["My"])


@pytest.mark.parametrize("kind", ["byte-level", "metaspace", "pieces"])
def test_every_candidate_keeps_the_leading_space(folder: str, kind: str) -> None:
    model = masked.make_model(kind)
    case = model.case("My aunt\n\nwent (to 🙂 Norway), she said:  'hear 日本!'", target=" </s> unseen  words\t.")
    proposals = propose(folder, model, case, candidates=5)
    used = proposals.weights > 0
    np.testing.assert_array_equal(proposals.replaceable, ~case.protected)
    assert not (used & (proposals.ids == case.ids[:, None])).any()
    assert (used.sum(-1)[~case.protected] >= MIN_CANDIDATES).all()
    spelled = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))
    for i, token in enumerate(case.input + case.output):
        row = proposals.ids[i][used[i]].tolist()
        assert len(set(row)) == len(row)
        original = spelled.get(int(case.ids[i]), token.text)
        assert all(spelled[j][0].isspace() == original[0].isspace() for j in row)
        assert all(spelled[j].strip().lower() != original.strip().lower() for j in row)


def test_which_fills_are_used_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """ " dog" begins a word, "hen" continues one, and for ";" this masked LM records no space."""

    class OneAnswer:
        is_cased = True
        meter = Meter()

        def fill(self, _text: str, spans: tuple[Any, ...]) -> dict[Any, list[Fill]]:
            return {span: [Fill(" dog", True, 0.5), Fill("hen", False, 0.3), Fill(" ;", None, 0.2)] for span in spans}

    class Spelled(ScriptedModel):
        ordinary_texts = property(lambda self: tuple(self.vocabulary))  # type: ignore[assignment]

    expected = {
        "My": ["dog", "hen", ";"],
        " cat": [" dog"],
        ",": ["hen", ";"],
        " (": [" dog", " ;"],
        "Her": ["dog", "hen", ";"],
        "s": ["hen", ";"],
        "\n": [" dog"],
        "It": ["dog", "hen", ";"],
    }
    vocabulary = [*expected, "dog", " dog", "hen", " hen", ";", " ;"]
    model = Spelled(vocabulary, lambda c: np.zeros((len(c), len(vocabulary))))
    ends = np.cumsum([len(piece) for piece in expected]).tolist()
    tokens = [Token((i,), piece, ends[i] - len(piece), ends[i]) for i, piece in enumerate(expected)]
    monkeypatch.setattr(masked_lm, "load_masked_lm", lambda *_: OneAnswer())
    monkeypatch.setattr(masked_lm, "MIN_CANDIDATES", 0)
    case = Case("".join(expected), " cat", tuple(tokens), (Token((1,), " cat", 0, 4),))
    proposals = propose("", model, case)
    texts = [[vocabulary[i] for i in ids[w > 0]] for ids, w in zip(proposals.ids, proposals.weights, strict=True)]
    assert dict(zip(expected, texts, strict=False)) == expected
    assert texts[-1] == expected[" cat"]


@pytest.mark.parametrize("word", ["Japanese", "Japan's"])
def test_a_token_masks_its_word_from_there_on(folder: str, word: str) -> None:
    model, lm = masked.make_model("byte-level"), masked_network.load_masked_lm(folder)
    case = model.case(f"My aunt moved to {word} to teach", target=" music.")
    pieces = [token.text for token in case.input][4:-2]
    assert pieces[0] == " Japan"
    assert len(pieces) > 1
    assert "".join(pieces) == f" {word}"
    with recorded_rows(lm) as seen:
        proposals = propose(folder, model, case, candidates=5)
    for at, left in enumerate(["", *("".join(pieces[:k]) for k in range(1, len(pieces)))], start=4):
        row = lm.tokenizer.decode([i for i in seen[at] if i != lm.tokenizer.pad_token_id])
        text = f"My aunt moved to{left}{lm.tokenizer.mask_token} to teach music."
        assert row == lm.tokenizer.decode(lm.tokenizer(text)["input_ids"])
    # So the first token is replaced by other countries, like a word that is a single token.
    assert set(candidate_texts(model, case, proposals)[" Japan"]) == {f" {country}" for country in COUNTRIES} - {
        " Japan"
    }


def test_a_mask_ends_with_the_word(folder: str) -> None:
    """Also before white space at the end of the text, after invisible characters, and before protected tokens."""
    model = masked.make_model("byte-level")
    case = model.case("My \u200b aunt <</s> teach music.\n", target=" to")
    tokens = tuple(replace(token, protected=token.text == "</s>") for token in case.input)
    with recorded_spans(masked_network.load_masked_lm(folder)) as spans:
        propose(folder, model, replace(case, input=tokens))
    text = case.prompt + case.completion
    masks = {text[start:end] for start, end in spans}
    assert {" aunt", "<", " music", ".", "\n", " to"} <= masks
    assert not {mask for mask in masks if {"\u200b", "a"} <= set(mask) or "<<" in mask}


@contextmanager
def recorded_spans(lm: masked_network.MaskedLM) -> Iterator[list[tuple[int, int]]]:
    """The spans that the masked LM fills in this context."""
    seen: list[tuple[int, int]] = []
    fill = lm.fill
    lm.fill = lambda text, spans: seen.extend(spans) or fill(text, spans)  # type: ignore[assignment, func-returns-value]
    try:
        yield seen
    finally:
        lm.fill = fill


def test_a_word_does_not_replace_its_own_first_token(folder: str) -> None:
    model = masked.make_model("byte-level")
    whole = model.case("My aunt moved to Japan to teach", target=" music.")
    first, second = model.tokenizer.convert_tokens_to_ids(["ĠJa", "pan"])
    pieces = Token((first,), " Ja", 16, 19), Token((second,), "pan", 19, 22)
    case = replace(whole, input=(*whole.input[:4], *pieces, *whole.input[5:]))
    texts = candidate_texts(model, case, propose(folder, model, case, candidates=8))
    assert set(texts[" Ja"][:5]) == {f" {country}" for country in COUNTRIES} - {" Japan"}
    assert " Japan" not in texts[" Ja"]


def test_a_symbol_after_a_mask_is_encoded_without_a_space(folders: dict[str, str]) -> None:
    """Also if the tokenizer puts a space before every text, as some of the RoBERTa family do."""
    made = (kind.from_pretrained(folders["roberta"]) for kind in (AutoModelForMaskedLM, AutoTokenizer))
    lm = masked_network.MaskedLM(*made)
    lm.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    with recorded_rows(lm) as seen:
        lm.fill("Our aunt heard music.", ((14, 20),))
    assert lm.tokenizer.convert_ids_to_tokens(seen[0])[-3:] == ["<mask>", ".", "</s>"]


@contextmanager
def recorded_rows(lm: masked_network.MaskedLM) -> Iterator[list[list[int]]]:
    """The rows that the masked LM reads in this context."""
    rows: list[list[int]] = []
    hook = lambda _, __, given: rows.extend(given["input_ids"].tolist())  # noqa: E731
    with lm.network.register_forward_pre_hook(hook, with_kwargs=True):
        yield rows


def test_weights_are_the_masked_lms_probabilities(folders: dict[str, str]) -> None:
    model = masked.make_model("byte-level")
    case = model.case("My aunt moved to Japan to teach", target=" music.")
    proposals = propose(folders["roberta"], model, case, candidates=5, weighted=True)
    lm = masked_network.load_masked_lm(folders["roberta"])
    text = "My aunt moved to<mask> to teach music."
    ids = lm.tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = lm.network(ids).logits[0, ids[0] == lm.tokenizer.mask_token_id][0]
    logits[lm.tokenizer.all_special_ids] = -torch.inf
    probabilities = logits.softmax(-1)
    row = next(i for i, token in enumerate(case.input) if token.text == " Japan")
    names = [model.tokenizer.convert_ids_to_tokens(int(i)) for i in proposals.ids[row]]
    expected = [float(probabilities[lm.tokenizer.convert_tokens_to_ids(name)]) for name in names]
    np.testing.assert_allclose(proposals.weights[row], expected, rtol=1e-3)
    assert expected == sorted(expected, reverse=True)
    uniform = propose(folders["roberta"], model, case, candidates=5)
    np.testing.assert_array_equal(uniform.ids, proposals.ids)
    assert set(uniform.weights.ravel()) == {1.0}


def test_long_texts_are_read_in_windows_around_the_mask(folder: str) -> None:
    model = masked.make_model("byte-level")
    case = model.case(" ".join([SENTENCE] * 12), target=" My aunt")
    lm = masked_network.load_masked_lm(folder)
    with recorded_rows(lm) as seen:
        proposals = propose(folder, model, case)
    assert proposals.replaceable.all()
    assert max(len(row) for row in seen) == MAX_LENGTH
    at = [row.index(lm.tokenizer.mask_token_id) for row in seen]
    assert len(at) == len(case.ids)
    assert at[0] == 1
    assert at[-1] == MAX_LENGTH - 2
    middle = at[len(at) // 3 : -len(at) // 3]
    assert set(middle) == {1 + (MAX_LENGTH - 3) // 2}


def test_similar_tokens_are_added_if_there_are_too_few_fills(folder: str) -> None:
    names = ["zeta", "omega", "kappa", "delta", "sigma"]
    model = ScriptedModel(["Japan", "teach", *names, "+", "Norway"], lambda c: np.zeros((len(c), 9)))
    case = model.case("teach Japan teach", target=" teach")
    rows = [propose(folder, model, case, seed) for seed in range(20)]
    for proposals in rows:
        ids, weights = proposals.ids[1], proposals.weights[1]
        assert (weights > 0).sum() == MIN_CANDIDATES
        assert model.vocabulary.index("Norway") in ids[:2]  # usable fills come before added tokens
        assert {model.vocabulary[i] for i in ids[2:MIN_CANDIDATES]} <= set(names)
    assert len({tuple(proposals.ids[1]) for proposals in rows}) > 1
    np.testing.assert_array_equal(rows[0].ids, propose(folder, model, case, 0).ids)
    weighted = propose(folder, model, case, weighted=True)
    assert weighted.weights[1, 2] == weighted.weights[1, :2].min() > 0


def test_a_text_is_read_once_and_not_by_the_explained_model(folder: str) -> None:
    model = masked.make_model("byte-level")
    case, other = (model.case(text, target=" to") for text in ("My aunt 🙂 moved", "Our aunt moved"))
    lm, passes = masked_network.load_masked_lm(folder), model.meter.forward_passes
    before = lm.meter.forward_passes
    first = propose(folder, model, case)
    spans = {(token.start, token.end) for token in case.input}
    assert lm.meter.forward_passes - before == len(spans) + 1 < len(case.ids)  # the bytes of 🙂 share a mask
    assert first.auxiliary_passes == len(spans) + 1
    again = propose(folder, model, case, candidates=3)
    assert again.auxiliary_passes == 0
    assert lm.meter.forward_passes - before == len(spans) + 1
    np.testing.assert_array_equal(again.ids[0], first.ids[0, :3])
    propose(folder, model, other)
    assert lm.meter.forward_passes - before == len(spans) + 1 + len(other.ids)
    assert model.meter.forward_passes == passes


def test_how_batches_are_cut_changes_nothing(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = masked.make_model("byte-level")
    case = model.case(SENTENCE, target=" My")
    whole = propose(folder, model, case, weighted=True)
    masked_network.load_masked_lm(folder).fill.cache_clear()
    monkeypatch.setattr(masked_network, "TOKENS_PER_BATCH", 50)
    parts = propose(folder, model, case, weighted=True)
    np.testing.assert_array_equal(parts.ids[:, :3], whole.ids[:, :3])
    np.testing.assert_allclose(parts.weights[:, :3], whole.weights[:, :3], rtol=1e-3, atol=1e-6)


def test_loading_errors_are_one_line(
    folders: dict[str, str], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # no network in tests
    headless = tmp_path / "headless"
    masked_network.load_masked_lm(folders["roberta"]).network.roberta.save_pretrained(headless)
    for file in Path(folders["roberta"]).glob("tokenizer*"):
        shutil.copy(file, headless)
    maskless = tmp_path / "maskless"
    shutil.copytree(folders["roberta"], maskless)
    masked.make_model("byte-level").tokenizer.save_pretrained(maskless)
    wrong: dict[str, tuple[type[InputError], str]] = {
        str(tiny_folder): (FileError, "cannot load a masked language model from .*GPT2Config"),
        str(tmp_path): (FileError, "cannot load a masked language model from "),
        str(headless): (FileError, r"lacks \d+ of the weights of a masked language model, first 'lm_head"),
        str(maskless): (InputError, "the tokenizer of .* has no mask token"),
        "./no/such/folder": (FileError, "there is no model folder './no/such/folder': give the folder or the hub id"),
        "acme/no-such-model": (InputError, "'acme/no-such-model': it is not on this machine, and the hub answered: "),
        " ": (InputError, "name is empty: give a folder or a hub id"),
    }
    for name, (kind, message) in wrong.items():
        with pytest.raises(kind, match=message) as caught:
            masked_network.load_masked_lm(name)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


def test_a_model_in_the_hubs_cache_loads_without_network(
    folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **__: pytest.fail("asked the hub"))
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert not is_available_offline("acme/tiny-roberta")
    assert not is_available_offline("no hub id/at all/")
    assert make_replacer("roberta", model="acme/tiny-roberta").info["revision"] is None
    stored = tmp_path / "models--acme--tiny-roberta"
    shutil.copytree(folders["roberta"], stored / "snapshots" / commit)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(commit)
    assert is_available_offline("acme/tiny-roberta")
    assert is_available_offline("acme/tiny-roberta", commit)
    assert not is_available_offline("acme/tiny-roberta", "v2")
    assert make_replacer("roberta", model="acme/tiny-roberta").info["revision"] == commit
    assert masked_network.load_masked_lm("acme/tiny-roberta").max_length == MAX_LENGTH
    (stored / "snapshots" / commit / "model.safetensors").unlink()
    assert not is_available_offline("acme/tiny-roberta")


def test_only_complete_folders_count_as_local(folder: str, tmp_path: Path) -> None:
    assert is_available_offline(folder)
    assert not is_available_offline(str(tmp_path))
    assert masked_network.load_masked_lm(folder).max_length == MAX_LENGTH


def test_a_model_without_token_texts_is_rejected_before_anything_is_loaded() -> None:
    class Mute:
        def __init__(self) -> None:
            self.inner = ScriptedModel(["a", "b"], lambda c: np.zeros((len(c), 2)))
            self.meter, self.info, self.ordinary_ids = self.inner.meter, self.inner.info, self.inner.ordinary_ids
            self.case, self.score = self.inner.case, self.inner.score

    model = Mute()
    complaint = "replacer 'roberta' needs a model that has a vocabulary with known texts, which 'scripted' .* replacer$"
    with pytest.raises(CapabilityError, match=complaint):
        propose("./no/such/folder", model, model.case("a b", "b"))


def test_options_and_cost_of_the_import() -> None:
    with pytest.raises(
        InputError, match="`candidates` of the replacer must be a whole number from 1 to 1000000, got 0"
    ):
        make_replacer("roberta", candidates=0)
    heavy = "{'torch', 'transformers', 'huggingface_hub', 'HanTa'}"
    check = f"import sys, reagent.replacers; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
