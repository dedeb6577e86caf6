"""GGUF files of every architecture, read by reagent and by llama.cpp: the probabilities are the same."""

from pathlib import Path
from typing import Any

import pytest

from gguf_files import (
    BLOCKS,
    LARGE,
    QUANTISATIONS,
    RECIPES,
    TOKENS,
    VARIANTS,
    WIDTH,
    Variant,
    float_tolerance,
    largest_difference,
    llama_log_probabilities,
    llama_tokens,
    reagent_log_probabilities,
    text_ids,
    write_model,
)
from reagent.models.gguf import load_gguf
from reagent.models.gguf.config import CONFIGS

pytest.importorskip("xllamacpp")

FEW = [
    ("llama", "rope_freqs (Llama 3)"),
    ("llama", "yarn"),
    ("gemma2", "attention soft cap"),
    ("gemma3", "linear"),
    ("phi3", "factors of short texts"),
]
# llama.cpp rounds the activations before it multiplies them, to 16 bits for F16 and to 8 bits for the other types.
# In a mixture of experts this can choose another expert: up to 2 nats were measured.
ROUNDED = {"F32": 0.0, "F16": 0.05, "Q8_0": 3.0, "Q4_0": 3.0, "Q4_K": 3.0}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path / "cache"))


def check_variant(folder: Path, architecture: str, variant: Variant) -> None:
    """Both readers agree, and the keys matter: without them llama.cpp's own answer is another one."""
    ids, options = text_ids(), {"keys": variant.keys, "tensors": variant.tensors}
    plain = llama_log_probabilities(write_model(folder / "plain.gguf", architecture), ids)
    path = write_model(folder / "model.gguf", architecture, **options)
    expected = llama_log_probabilities(path, ids)
    assert largest_difference(reagent_log_probabilities(path, ids), expected) < float_tolerance(architecture)
    assert largest_difference(plain, expected) > 0.3


def check_quantisation(folder: Path, architecture: str, quantisation: str) -> None:
    """The weights are the same to the last digits, and the same file differs by llama.cpp's rounding only."""
    ids, tolerance = text_ids(), float_tolerance(architecture)
    path = write_model(folder / "model.gguf", architecture, quantisation=quantisation)
    twin = write_model(folder / "twin.gguf", architecture, quantisation=quantisation, unpacked=True)
    ours = reagent_log_probabilities(path, ids)
    assert largest_difference(ours, llama_log_probabilities(twin, ids)) < tolerance
    assert largest_difference(ours, llama_log_probabilities(path, ids)) < tolerance + ROUNDED[quantisation]


@pytest.mark.parametrize(("architecture", "variant"), FEW)
def test_scaled_positions_and_soft_caps_are_computed(tmp_path: Path, architecture: str, variant: str) -> None:
    check_variant(tmp_path, architecture, VARIANTS[architecture][variant])


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("llama", {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}),
        ("nemotron", {"attention.layer_norm_rms_epsilon": 0.5}),
    ],
)
def test_keys_that_llama_cpp_ignores_are_ignored(tmp_path: Path, architecture: str, keys: dict[str, Any]) -> None:
    ids, tolerance = text_ids(), float_tolerance(architecture)
    path = write_model(tmp_path / "model.gguf", architecture, keys=keys)
    plain = llama_log_probabilities(write_model(tmp_path / "plain.gguf", architecture), ids)
    assert largest_difference(llama_log_probabilities(path, ids), plain) == 0
    assert largest_difference(reagent_log_probabilities(path, ids), plain) < tolerance


def test_the_gate_of_a_shared_expert_may_have_one_row(tmp_path: Path) -> None:
    gates = {f"blk.{i}.ffn_gate_inp_shexp.weight": (1, WIDTH) for i in range(BLOCKS)}
    path, ids = write_model(tmp_path / "model.gguf", "qwen2moe", tensors=gates), text_ids()
    difference = largest_difference(reagent_log_probabilities(path, ids), llama_log_probabilities(path, ids))
    assert difference < float_tolerance("qwen2moe")


def test_quantised_weights_are_unpacked(tmp_path: Path) -> None:
    check_quantisation(tmp_path, "llama", "Q4_K")


@pytest.mark.parametrize(
    ("pre", "begin", "expected"),
    [
        ("llama-bpe", None, ["<s>", "be", "ca"]),
        ("tekken", None, ["<s>", "be", "ca"]),
        ("llama-bpe", False, ["be", "ca"]),
        ("gpt-2", None, ["be", "ca"]),
        ("gpt-2", True, ["<s>", "be", "ca"]),
    ],
)
def test_texts_begin_as_in_llama_cpp(tmp_path: Path, pre: str, begin: bool | None, expected: list[str]) -> None:
    path = write_model(tmp_path / "model.gguf", "llama", blocks=1, pre=pre, begin=begin)
    _, tokenizer = load_gguf(path)
    assert [TOKENS[i] for i in tokenizer("beca")["input_ids"]] == expected
    assert llama_tokens(path, "beca") == expected


@pytest.mark.sweep
@pytest.mark.parametrize(("architecture", "variant"), [(a, v) for a in VARIANTS for v in VARIANTS[a]])
def test_sweep_of_headers(tmp_path: Path, architecture: str, variant: str) -> None:
    check_variant(tmp_path, architecture, VARIANTS[architecture][variant])


@pytest.mark.sweep
@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("architecture", RECIPES)
def test_sweep_of_quantisations(tmp_path: Path, architecture: str, quantisation: str) -> None:
    check_quantisation(tmp_path, architecture, quantisation)


@pytest.mark.sweep
@pytest.mark.parametrize("architecture", LARGE)
def test_sweep_of_large_gemma(tmp_path: Path, architecture: str) -> None:
    """The rounding of GELU adds up over many layers; the wrong scale of the queries would cost several nats."""
    path = write_model(tmp_path / "model.gguf", architecture, blocks=LARGE[architecture])
    ids = text_ids()
    assert largest_difference(reagent_log_probabilities(path, ids), llama_log_probabilities(path, ids)) < 0.3


def test_every_supported_architecture_is_compared() -> None:
    assert set(RECIPES) == set(VARIANTS) == set(CONFIGS)
