"""GGUF files: a tiny Llama is written, converted and compared; damaged files give one clear line."""

import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gguf_files import model_shapes, write_model
from reagent.errors import FileError, InputError
from reagent.models import gguf
from reagent.models._transformers import quiet_transformers
from reagent.models.gguf import conversion
from reagent.models.gguf.header import read_header

TOKENS = ["<unk>", "<s>", "</s>", *"abcdefgh", "Ġ", "ab", "cd", "Ġa"]
MERGES = ["a b", "c d", "Ġ a"]
WIDTH, HEADS, KEYS, HIDDEN = 16, 2, 1, 32


def write_gguf(
    path: Path,
    *,
    seed: int = 0,
    architecture: str = "llama",
    leave_out: str = "",
    tokenizer: bool = True,
    spoil: float | None = None,
    begin: bool | None = None,
) -> Path:
    """A Llama of one block that knows eight letters."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(TOKENS)
        writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
        writer.add_token_merges(MERGES)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        if begin is not None:
            writer.add_add_bos_token(begin)
    random = np.random.default_rng(seed)
    shapes = {
        "token_embd": (len(TOKENS), WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH // HEADS * KEYS, WIDTH),
        "blk.0.attn_v": (WIDTH // HEADS * KEYS, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    for name, shape in shapes.items():
        if name != leave_out:
            weights = random.normal(size=shape).astype(np.float32)
            if spoil is not None:
                weights.flat[0] = spoil
            writer.add_tensor(f"{name}.weight", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_transformers():
        return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.glob("*") if path.suffix != ".lock")


def test_a_converted_file_holds_the_same_weights_and_tokens(
    model: Path, cache: Path, messages: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = gguf.convert_cached(model)
    assert len(messages) == 1
    assert "tiny.gguf" in messages[0]
    assert entries(cache) == [folder.name]
    assert capfd.readouterr() == ("", "")  # neither the library nor the readers print

    network, tokenizer = load(folder)
    planted = np.random.default_rng(0).normal(size=(len(TOKENS), WIDTH)).astype(np.float32)
    np.testing.assert_array_equal(network.get_input_embeddings().weight.detach().numpy(), planted)
    ids = tokenizer("abcd a", add_special_tokens=False)["input_ids"]
    assert [TOKENS[i] for i in ids] == ["ab", "cd", "Ġa"]

    again, _ = gguf.load_gguf(model)
    inputs = tokenizer("abc", return_tensors="pt")["input_ids"]
    assert again(inputs).logits.equal(network(inputs).logits)


@pytest.mark.parametrize("begin", [True, False, None])
def test_texts_begin_as_the_file_says(tmp_path: Path, begin: bool | None) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", begin=begin)
    straight, converted = gguf.load_gguf(path)[1], load(gguf.convert_cached(path))[1]
    expected = [*(["<s>"] if begin else []), "ab", "cd"]
    for tokenizer in (straight, converted):
        ids = tokenizer("abcd")["input_ids"]
        assert [TOKENS[i] for i in ids] == expected
        assert tokenizer.decode(ids, skip_special_tokens=True) == "abcd"


@pytest.mark.parametrize(("begin", "expected"), [(None, 1), (True, 1), (False, None)])
def test_a_pre_tokenizer_has_a_default_beginning(tmp_path: Path, begin: bool | None, expected: int | None) -> None:
    path = write_model(tmp_path / "tiny.gguf", "llama", blocks=1, pre="llama-bpe", begin=begin)
    assert read_header(path).first_token == expected


def test_a_beginning_that_is_no_token_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", begin=True)
    real = read_header(path)
    changed = replace(real, values={**real.values, "tokenizer.ggml.bos_token_id": 10**6})
    monkeypatch.setattr(conversion, "read_header", lambda _: changed)
    with pytest.raises(FileError, match="its first token 1000000 is not in the vocabulary"):
        gguf.load_gguf(path)


def test_a_file_is_converted_again_only_when_it_changes(
    model: Path, cache: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    monkeypatch.setattr(conversion, "convert", lambda path, into: written.append(path) or (into / "x").write_text("x"))
    first = gguf.convert_cached(model)
    monkeypatch.chdir(model.parent)
    assert gguf.convert_cached(Path("tiny.gguf")) == first
    assert (len(written), messages) == (1, [])

    os.utime(model, ns=(0, 0))
    assert gguf.convert_cached(model) == first
    assert len(written) == 2
    assert "out of date" in messages[0]
    assert entries(cache) == [first.name]


def test_files_beside_it_do_not_matter(model: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (model.parent / name).write_text('{"model_type": "gpt2", "bos_token": "h"}')
    network, tokenizer = gguf.load_gguf(model)
    assert tokenizer.bos_token == "<s>"
    assert network.config.model_type == "llama"


def test_a_large_file_is_read_but_not_kept(model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert gguf.fits_cache(model)
    monkeypatch.setattr(conversion, "LARGEST_CACHED", 100)
    assert not gguf.fits_cache(model)
    with pytest.raises(InputError, match=r"over 1 GiB"):
        gguf.convert_cached(model)
    network, _ = gguf.load_gguf(model, dtype=torch.bfloat16)
    assert network.dtype == torch.bfloat16
    assert not cache.exists()


def test_the_settings_of_transformers_come_back() -> None:
    from transformers.utils import logging

    logging.set_verbosity_info()
    try:
        with pytest.raises(KeyboardInterrupt), quiet_transformers():
            raise KeyboardInterrupt
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()


def missing(path: Path) -> None:
    path.with_name("other").touch()


def folder(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.touch()


def not_gguf(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(1000))


def cut_in_the_header(path: Path) -> None:
    path.write_bytes(write_gguf(path).read_bytes()[:400])


def cut_in_the_weights(path: Path) -> None:
    path.write_bytes(write_gguf(path).read_bytes()[:-500])


def noise(path: Path) -> None:
    path.write_bytes(b"GGUF" + np.random.default_rng(0).bytes(2000))


def noise_after_the_version(path: Path) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 5) + np.random.default_rng(0).bytes(2000))


def endless_array(path: Path) -> None:
    key = struct.pack("<Q1s", 1, b"k")
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, 4, 2**60))


def nested_arrays(path: Path) -> None:
    key = struct.pack("<Q1sI", 1, b"k", 9)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IQ", 9, 1) * 5000)


def no_weights(path: Path) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))


def old_version(path: Path) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))


def foreign_architecture(path: Path) -> None:
    write_gguf(path, architecture="abacus")


def no_tokenizer(path: Path) -> None:
    write_gguf(path, tokenizer=False)


def part_of_several(path: Path) -> None:
    write_model(path, "llama", keys={"split.no": 1, "split.count": 3})


def adapter(path: Path) -> None:
    write_model(path, "llama", keys={"general.type": "adapter", "adapter.type": "lora"})


def projector(path: Path) -> None:
    write_model(path, "llama", keys={"general.type": "mmproj"})


def vocabulary_alone(path: Path) -> None:
    write_model(path, "llama", tensors=dict.fromkeys([*model_shapes("llama", 2, {}), "output.weight"]))


def unknown_type(path: Path) -> None:
    data = bytearray(write_model(path, "llama").read_bytes())
    at = data.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8  # one dimension
    data[at : at + 4] = struct.pack("<I", 99)
    path.write_bytes(data)


def type_of_integers(path: Path) -> None:
    data = bytearray(write_model(path, "llama").read_bytes())
    at = data.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8
    data[at : at + 4] = struct.pack("<I", 26)  # I32
    path.write_bytes(data)


def unknown_key(path: Path) -> None:
    write_model(path, "llama", keys={"attention.scale": 0.5})


def experts(path: Path) -> None:
    write_model(path, "llama", keys={"expert_count": 8})


def yarn_constant(path: Path) -> None:
    write_model(path, "qwen2", keys={"rope.scaling.type": "yarn", "rope.scaling.yarn_beta_fast": 16.0})


def unknown_scaling(path: Path) -> None:
    write_model(path, "llama", keys={"rope.scaling.type": "spiral"})


def base_of_windows(path: Path) -> None:
    write_model(path, "gemma2", keys={"rope.freq_base_swa": 500.0})


def sizes_by_layer(path: Path) -> None:
    write_model(path, "llama", keys={"feed_forward_length": [512, 256]})


def left_over_tensor(path: Path) -> None:
    write_model(path, "qwen3", tensors={"rope_freqs.weight": (64,)})


def left_over_layer(path: Path) -> None:
    write_model(path, "llama", keys={"block_count": 1})


def another_shape(path: Path) -> None:
    write_model(path, "llama", tensors={"blk.1.ffn_up.weight": (256, 256)})


def another_head_size(path: Path) -> None:
    write_model(
        path,
        "qwen3",
        keys={"attention.key_length": 64, "attention.value_length": 64},
        tensors=dict(model_shapes("qwen3", 2, {})),
    )


def another_vocabulary(path: Path) -> None:
    write_model(path, "llama", tensors={"token_embd.weight": (300, 256), "output.weight": (300, 256)})


def no_heads(path: Path) -> None:
    write_model(path, "llama", keys={"attention.head_count": 0})


def text_for_a_number(path: Path) -> None:
    write_model(path, "llama", keys={"embedding_length": "wide"})


def lacks_a_key(path: Path) -> None:
    write_model(path, "llama", keys={"attention.layer_norm_rms_epsilon": None})


def lacks_a_weight(path: Path) -> None:
    write_gguf(path, leave_out="blk.0.ffn_up")


def not_a_number(path: Path) -> None:
    write_gguf(path, spoil=float("nan"))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (missing, "No such file"),
        (folder, "is not a file"),
        (empty, "empty"),
        (not_gguf, "not a GGUF file"),
        (cut_in_the_header, "ends in the middle of its header"),
        (cut_in_the_weights, "bytes"),
        (noise, "version"),
        (noise_after_the_version, "damaged"),
        (endless_array, "ends in the middle of its header"),
        (nested_arrays, "damaged"),
        (no_weights, "no weights"),
        (old_version, "version 1"),
        (foreign_architecture, "'abacus'"),
        (no_tokenizer, "architecture 'llama'"),
        (part_of_several, "part 2 of 3"),
        (adapter, "LoRA adapter"),
        (projector, "projector"),
        (vocabulary_alone, "vocabulary without weights"),
        (unknown_type, "quantisation type 99"),
        (type_of_integers, "in the type I32"),
        (unknown_key, "llama.attention.scale = 0.5"),
        (experts, "llama.expert_count = 8"),
        (yarn_constant, "qwen2.rope.scaling.yarn_beta_fast = 16.0"),
        (unknown_scaling, "llama.rope.scaling.type = 'spiral'"),
        (base_of_windows, "gemma2.rope.freq_base_swa = 500.0"),
        (sizes_by_layer, "llama.feed_forward_length = (512, 256)"),
        (left_over_tensor, "'rope_freqs.weight'"),
        (left_over_layer, "'blk.1.attn_norm.weight'"),
        (another_shape, "'blk.1.ffn_up.weight' has the shape (256, 256), and its header says (512, 256)"),
        (another_head_size, "'blk.0.attn_q.weight' has the shape (512, 256), and its header says (256, 256)"),
        (another_vocabulary, "288 tokens, and embeddings of 300"),
        (no_heads, "a key of its header has a wrong value"),
        (text_for_a_number, "a key of its header has a wrong value"),
        (lacks_a_key, "'llama.attention.layer_norm_rms_epsilon'"),
        (lacks_a_weight, "lacks 1 of the weights"),
        (not_a_number, "not finite"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_file_that_is_no_model_gives_one_line(
    tmp_path: Path, cache: Path, damage: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "bad.gguf"
    damage(path)
    with pytest.raises(InputError) as caught:
        gguf.convert_cached(path)
    line = str(caught.value)
    assert str(path) in line
    assert reason in line
    assert "\n" not in line
    assert entries(cache) == []


def test_a_part_is_known_by_its_name(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model-00001-of-00003.gguf", "llama")
    with pytest.raises(FileError, match="is part 1 of 3, not a language model"):
        gguf.load_gguf(path)
    whole = write_model(tmp_path / "model-00001-of-00001.gguf", "llama")
    assert gguf.load_gguf(whole)[0].config.num_hidden_layers == 2


def test_keys_without_effect_are_accepted(tmp_path: Path) -> None:
    neutral = {"expert_count": 0, "attention.causal": True, "tensor_data_layout": "Meta AI original pth"}
    other = {"general.name": "mistral", "rope.scaling.finetuned": True, "attention.sliding_window": 4096}
    network, _ = gguf.load_gguf(write_model(tmp_path / "tiny.gguf", "llama", keys=neutral | other))
    assert network.config.model_type == "llama"
    assert network.config.rope_parameters["rope_type"] == "default"


def test_two_lists_of_factors_limit_the_length_to_the_first(tmp_path: Path) -> None:
    factors = {f"rope_factors_{length}.weight": (32,) for length in ("short", "long")}
    keys = {"rope.scaling.original_context_length": 64}
    network, _ = gguf.load_gguf(write_model(tmp_path / "tiny.gguf", "phi3", keys=keys, tensors=factors))
    assert network.config.max_position_embeddings == 64


def test_importing_is_cheap() -> None:
    script = "import sys, reagent.models.bundled; print(sorted({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("blocks", [2**29, 2**31 - 1, 0])
def test_a_header_that_claims_many_blocks_allocates_nothing(tmp_path: Path, blocks: int) -> None:
    path = write_gguf(tmp_path / "many.gguf")
    data = path.read_bytes()
    key = b"llama.block_count" + struct.pack("<I", 4)
    assert data.count(key) == 1
    path.write_bytes(data.replace(key + struct.pack("<I", 1), key + struct.pack("<I", blocks)))
    tracemalloc.start()
    with pytest.raises(FileError, match="block_count"):
        gguf.load_gguf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26


def test_a_long_array_of_numbers_is_not_read(tmp_path: Path) -> None:
    count = 2**20
    key = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 0, count) + bytes(count)
    path = tmp_path / "long.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)
    tracemalloc.start()
    with pytest.raises(FileError, match="holds no weights"):
        read_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
