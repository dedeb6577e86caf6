"""The JSON of Inseq. tests/files/inseq-1.json was saved by Inseq 0.7.1 for the network and tokenizer of tiny.py."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import reagent
import tiny_seq2seq
from exchange.test_attributions import PROMPT, tiny
from reagent.errors import FileError, InputError
from reagent.models.seq2seq import Seq2SeqModel
from tiny import network_of, tokenizer_of

FILE = Path(__file__).parents[1] / "files" / "inseq-1.json"


def content() -> Any:
    return json.loads(FILE.read_text())


def sequence(data: Any) -> Any:
    return data["attributes"]["sequence_attributions"][0]["attributes"]


def test_a_file_of_inseq_is_read() -> None:
    why = reagent.from_inseq(tiny(), FILE)
    assert (why.prompt, why.completion) == ("My aunt moved to Japan é", " Tokyo.")
    assert (why.method["id"], why.attributes) == ("inseq input_x_gradient", "context")
    assert [unit.text for unit in why.input] == ["My", " aunt", " moved", " to", " Japan", " ", "é"]
    assert why.effects is not None
    norms = (0.0049, 0.0030, 0.0057, 0.0014, 0.0015, 0.0022, 2 * 0.0022)  # as Inseq shows them; "é" has two tokens
    assert why.effects[0] == pytest.approx(norms, abs=1e-4)
    assert why.effects[1][-1] == pytest.approx(0.0045, abs=1e-4)
    assert reagent.evaluate(tiny(), why, ["lds"], probes=8, replacer="random").results


@pytest.mark.parametrize("attribute_target", [False, True])
@pytest.mark.parametrize("units", ["word", "token"])
def test_a_round_trip_keeps_units_and_numbers(units: str, attribute_target: bool, tmp_path: Path) -> None:
    prompt = PROMPT.replace(" 😀", "")
    why = reagent.explain(
        tiny(), prompt, target=" Tokyo.", method="occlusion", units=units, attribute_target=attribute_target
    )
    text = why.to_inseq(tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == text
    again = reagent.from_inseq(tiny(), tmp_path / "out.json", unit="nats")
    assert again.attributes == why.attributes
    assert [unit.text for unit in again.input] == [unit.text for unit in why.input]
    assert np.nan_to_num(again.to_numpy("effects")) == pytest.approx(np.nan_to_num(why.to_numpy("effects")), abs=1e-6)


def test_inseq_itself_reads_and_writes_the_same(tmp_path: Path) -> None:
    inseq = pytest.importorskip("inseq")
    why = reagent.explain(tiny(), "My aunt moved to Japan", target=" Tokyo.", method="occlusion")
    why.to_inseq(tmp_path / "out.json")
    output = inseq.FeatureAttributionOutput.load(tmp_path / "out.json")
    assert "Japan" in output.show(display=False, return_html=True)
    for source in (output, _saved(output, tmp_path / "again.json")):
        again = reagent.from_inseq(tiny(), source)
        inputs = len(why.input)
        assert again.to_numpy("effects")[:, :inputs] == pytest.approx(why.to_numpy("effects")[:, :inputs], abs=1e-6)
    network_of("llama").save_pretrained(tmp_path / "tiny")
    tokenizer_of("llama").save_pretrained(tmp_path / "tiny")
    model = inseq.load_model(str(tmp_path / "tiny"), "input_x_gradient")
    output = model.attribute("My aunt moved to Japan", "My aunt moved to Japan Tokyo.", show_progress=False)
    numbers = output.aggregate(normalize=False).sequence_attributions[0].target_attributions.T.tolist()
    imported = reagent.from_inseq(tiny(), output)
    assert imported.to_numpy("effects")[:, :5] == pytest.approx(np.array(numbers)[:, :5], rel=1e-5)


def _saved(output: Any, path: Path) -> Path:
    output.save(path)
    return path


def _replace(**fields: Any) -> Callable[[Any], None]:
    return lambda data: sequence(data).update(fields)


def _tensor(values: Any) -> str:
    return base64.b64encode(save({"attribution": np.asarray(values, dtype=np.float32)})).decode()


def _retoken(data: Any) -> None:
    sequence(data)["target"][1]["attributes"]["id"] += 1
    sequence(data)["source"][1]["attributes"]["id"] += 1


def _other_text(data: Any) -> None:
    data["attributes"]["info"]["generated_texts"] = ["My uncle moved to Japan é Tokyo."]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_replace(target_attributions=_tensor(np.full((10, 2), np.nan))), "NaN or infinite"),
        (_replace(target_attributions=_tensor(np.ones((9, 2)))), "a column for each output token"),
        (_replace(target_attributions=_tensor(np.ones((10, 2, 2, 2)))), r"save out\.aggregate"),
        (_replace(target_attributions="AAAA"), "cannot be read"),
        (_replace(target_attributions="no base64 %"), "cannot be read"),
        (_replace(target_attributions=None), "a column for each output token"),
        (_replace(attr_pos_end=10**9), "a column for each output token"),
        (_replace(attr_pos_start=None), "not a complete output of Inseq"),
        (_replace(attr_pos_start=0), "a column for each output token"),
        (_replace(source=[]), "source tokens are before"),
        (_replace(target=[3]), "not a complete output of Inseq"),
        (_retoken, "read other tokens than"),
        (_other_text, "' aunt|Ġaunt', is not where it is expected"),
        (lambda data: data["attributes"].clear(), "needs a file of Inseq"),
        (lambda data: data["attributes"].update(sequence_attributions=[]), "needs a file of Inseq"),
        (lambda data: data["attributes"].update(info={}), "not a complete output of Inseq"),
        (lambda data: data.clear(), "is not a file of Inseq"),
    ],
)
def test_a_damaged_file_is_one_error(damage: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    data = content()
    damage(data)
    (tmp_path / "out.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=message):
        reagent.from_inseq(tiny(), tmp_path / "out.json")


def test_files_that_are_too_large_or_missing_are_one_error(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(FileError, match=r"has 2,147,483,648 bytes, at most 1,073,741,824 are read"):
        reagent.from_inseq(tiny(), tmp_path / "large.json")
    with pytest.raises(FileError, match="cannot read"):
        reagent.from_inseq(tiny(), tmp_path / "none.json")
    with pytest.raises(InputError, match="there is no sequence 1: Inseq's output has 1"):
        reagent.from_inseq(tiny(), FILE, index=1)


def test_an_encoder_decoder_has_source_and_target() -> None:
    model = Seq2SeqModel(tiny_seq2seq.network_of("t5"), tiny_seq2seq.tokenizer_of("t5"))
    why = reagent.explain(model, "My aunt moved", max_new_tokens=2, method="occlusion", attribute_target=True)
    data = json.loads(why.to_inseq())
    assert sequence(data)["attr_pos_start"] == 0
    again = reagent.from_inseq(model, data)
    assert np.nan_to_num(again.to_numpy("effects")) == pytest.approx(np.nan_to_num(why.to_numpy("effects")), abs=1e-6)
