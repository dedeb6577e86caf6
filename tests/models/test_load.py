"""From what a person writes to a model, or to one clear line."""

import copy
import importlib.util
import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForImageTextToText

import tiny
from architectures import make_network, shrink
from reagent import load_model
from reagent.errors import FileError, InputError, UnknownNameError
from reagent.models import _transformers
from reagent.models.huggingface import HuggingFaceModel

PROMPT = "The river runs"


def test_a_folder_and_a_pair_of_objects_are_the_same_model(tiny_folder: Path) -> None:
    from_folder = load_model(str(tiny_folder))
    from_pair = load_model((tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2")))
    case = from_folder.case(PROMPT)
    assert case == from_pair.case(PROMPT)
    scored = [model.score(case.ids[None], case.positions, case.targets) for model in (from_folder, from_pair)]
    np.testing.assert_allclose(scored[0].logprob, scored[1].logprob, atol=1e-6)
    assert from_folder.info == {
        "id": str(tiny_folder), "revision": None, "dtype": "float32", "backend": "transformers"
    }  # fmt: skip


def test_dtype_is_that_which_was_asked_for(tiny_folder: Path) -> None:
    assert load_model(tiny_folder, dtype="bfloat16").info["dtype"] == "bfloat16"
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'float8'.*auto, float32, bfloat16, float16"):
        load_model(tiny_folder, dtype="float8")


@pytest.mark.parametrize("wrong", [{"dtype": "float8"}, {"device": "toaster"}, {"device": np.int64(99)}])
def test_a_wrong_dtype_or_device_is_reported_before_any_download(
    wrong: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reagent.models.bundled.fetch", lambda _: pytest.fail("the model was fetched"))
    monkeypatch.setattr("reagent.models._transformers._load", lambda *_: pytest.fail("the hub was asked"))
    for name in ("smollm2", "org/model"):
        with pytest.raises(InputError, match=r"float8|toaster|cuda:99"):
            load_model(name, **wrong)


def test_objects_of_other_libraries_are_accepted(tiny_folder: Path) -> None:
    model = load_model(tiny_folder, dtype=torch.bfloat16, device=torch.device("cpu"))
    assert model.info["dtype"] == "bfloat16"
    pair = (copy.deepcopy(tiny.network_of("gpt2")), tiny.tokenizer_of("gpt2"))
    assert load_model(pair, dtype=torch.float16, device="cpu").info["dtype"] == "float16"
    with pytest.raises(UnknownNameError, match="unknown dtype 'int8'"):
        load_model(tiny_folder, dtype=torch.int8)


# --- models of other packages ---


class Echo:
    """The smallest model: two methods."""

    def __init__(self, text: str) -> None:
        self.text = text

    def score(self, *_: object) -> None: ...

    def case(self, *_: object) -> None: ...


def test_a_model_object_is_returned_unchanged() -> None:
    model = Echo("")
    assert load_model(model) is model
    with pytest.raises(InputError, match="a model object has its own device: leave out device 'cpu'"):
        load_model(model, device="cpu")


def register(monkeypatch: pytest.MonkeyPatch, folder: Path, target: str) -> None:
    """Install a package that registers `target` as the model `echo`."""
    info = folder / "echo_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-model\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[reagent.models]\necho = {target}\n")
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(("name", "text"), [("echo", ""), ("echo:any:thing", "any:thing")])
def test_other_packages_add_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str) -> None:
    register(monkeypatch, tmp_path, f"{__name__}:Echo")
    model = load_model(name)
    assert isinstance(model, Echo)
    assert model.text == text
    with pytest.raises(InputError, match=r"the model 'echo' has its own dtype"):
        load_model("echo", dtype="float16")
    with pytest.raises(UnknownNameError, match=r"unknown model 'ehco', did you mean 'echo'\?"):
        load_model("ehco")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:Echo", "the models plugin 'echo' of echo-model cannot be loaded: No module"),
        ("builtins:str", "the model plugin for 'echo' returned a str, which is not a model"),
        ("builtins:int", "the model plugin cannot load 'echo': invalid literal"),
    ],
)
def test_a_faulty_plugin_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str, message: str
) -> None:
    register(monkeypatch, tmp_path, target)
    with pytest.raises(InputError, match=message):
        load_model("echo")


def test_a_device_that_is_not_there_is_one_clear_error(tiny_folder: Path) -> None:
    missing = "mps" if not torch.backends.mps.is_available() else "cuda"
    for device in (missing, "toaster"):
        with pytest.raises(InputError, match=f"device '{device}' is not available here. Available: auto, cpu"):
            load_model(tiny_folder, device=device)


@pytest.fixture
def pickled_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A model folder whose weights are a pickle, as many older models on the hub have."""
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save(tiny.network_of("gpt2").state_dict(), folder / "pytorch_model.bin")
    return folder


def test_pickled_weights_are_read_as_weights_only(pickled_folder: Path, tiny_folder: Path) -> None:
    model, same = load_model(pickled_folder), load_model(tiny_folder)
    assert isinstance(model, HuggingFaceModel)
    assert model.case(PROMPT) == same.case(PROMPT)


class _Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_pickle_is_not_run(pickled_folder: Path, tmp_path: Path) -> None:
    trap = tmp_path / "pwned"
    (pickled_folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Attack(trap)))
    with pytest.raises(FileError, match=r"cannot load a causal language model from .*pickled"):
        load_model(pickled_folder)
    assert not trap.exists()


def test_a_folder_that_lacks_weights_is_refused_not_filled_with_noise(tiny_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "holes"
    shutil.copytree(tiny_folder, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        FileError,
        match=r"lacks 1 of the weights of a causal language model, first 'transformer\.h\.1\.mlp\.c_fc\.weight'",
    ):
        load_model(folder)


def test_damaged_weights_are_one_clear_error(tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_folder, folder)
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(FileError, match="cannot load a causal language model"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", r"there is no model folder '\./nowhere'"),
        ("/no/such/model", "there is no model folder"),
        ("nowhere.gguf", r"nowhere\.gguf"),
        ("", "the model's name is empty"),
        (3, r"cannot explain a int: give a name, a folder or a \(model, tokenizer\) pair"),
        (("a", "b"), r"cannot explain a tuple"),
    ],
)
def test_what_is_no_model_is_one_clear_error(name: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_model(name)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_says_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # no network in tests
    with pytest.raises(UnknownNameError, match=r"unknown model 'smollm3', did you mean 'smollm2'\? Known: smollm2"):
        load_model("smollm3")


def test_an_empty_folder_and_a_wrong_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot load a causal language model from"):
        load_model(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileError, match=r"is a file, but not a \.gguf file"):
        load_model(tmp_path / "notes.txt")


def test_a_revision_of_what_has_none_is_an_error(tiny_folder: Path) -> None:
    for name in (tiny_folder, "smollm2", "some.gguf" if Path("some.gguf").exists() else "./some.gguf"):
        with pytest.raises(InputError, match="only hub models have revisions"):
            load_model(name, revision="main")


def test_a_model_spread_over_all_devices_answers_the_same(tiny_folder: Path, tiny_model: HuggingFaceModel) -> None:
    spread = load_model(tiny_folder, device="all")
    case = tiny_model.case("The river runs through the old town", " and")
    ids = case.ids[None]
    found, usual = (model.score(ids, case.positions, case.targets).logprob for model in (spread, tiny_model))
    assert found == pytest.approx(usual, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"dtpye": "float32"}, "load_model has no argument 'dtpye', did you mean 'dtype'?"),
        ({"tokenizer": "x"}, "only a server has the option 'tokenizer', not 'smollm2'"),
        ({"device": True}, "device 'True' is not available here"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_fetched(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        load_model("smollm2", **arguments)


# --- weights and configurations of other kinds ---


@pytest.mark.parametrize("method", ["bitsandbytes", "gptq", "torchao"])
def test_quantized_weights_load_or_name_the_missing_package(tiny_folder: Path, tmp_path: Path, method: str) -> None:
    if importlib.util.find_spec({"gptq": "optimum"}.get(method, method)):
        pytest.skip(f"{method} is installed")
    shutil.copytree(tiny_folder, tmp_path, dirs_exist_ok=True)
    settings = json.loads((tmp_path / "config.json").read_text())
    options = {"bits": 4} if method == "gptq" else {"load_in_4bit": True} if method == "bitsandbytes" else {}
    settings["quantization_config"] = {"quant_method": method, "quant_type": "int8", **options}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(FileError, match="install the missing package, or use weights that do not need it"):
        load_model(tmp_path)


def test_quantized_weights_stay_where_they_were_loaded() -> None:
    network = copy.deepcopy(tiny.network_of("gpt2"))
    network.hf_quantizer = object()  # as transformers marks them; moving them is an error there
    network.to = lambda *_: pytest.fail("the weights were moved")
    assert _transformers.move(network, torch.device("cpu")) is network


def test_a_model_of_images_and_text_is_read_as_text(tmp_path: Path) -> None:
    config = shrink("llava")
    assert type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING
    network = make_network(config, AutoModelForImageTextToText)
    network.save_pretrained(tmp_path)
    tiny.byte_level_tokenizer().save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert isinstance(model, HuggingFaceModel)
    case = model.case(PROMPT, target=" through")
    with torch.no_grad():
        logits = network(input_ids=torch.tensor(case.ids[None, :-1])).logits[0, -1]
    expected = logits.log_softmax(-1)[case.ids[-1]].item()
    scored = model.score(case.ids[None], case.positions, case.targets)
    assert scored.logprob[0, -1] == pytest.approx(expected, abs=1e-4)
