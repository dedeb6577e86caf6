"""The filter keeps what a model knows with and without the distractor, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

import tiny
from reagent.case import Floats, Ids
from reagent.data import Dataset, Example, keep_predicted, load_dataset, sample
from reagent.data.base import shuffle
from reagent.errors import InputError
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.scripted import ScriptedModel

WORDS = ["in", "Japan", "Peru", "Mali", "noise", "the", "capital", "Tokyo", "Lima", "Bamako"]
CAPITALS = {"Japan": "Tokyo", "Peru": "Lima", "Mali": "Bamako"}


def knows_japan_and_peru(context: Ids) -> Floats:
    """Says Tokyo after Japan, and Lima after Peru unless there is noise; of Mali it knows the capital only in noise."""
    logits = np.zeros((len(context), len(WORDS)))
    for row, ids in enumerate(context):
        words = {WORDS[i] for i in ids}
        if "Japan" in words:
            logits[row, WORDS.index("Tokyo")] = 5
        if "Peru" in words and "noise" not in words:
            logits[row, WORDS.index("Lima")] = 5
        if "Mali" in words and "noise" in words:
            logits[row, WORDS.index("Bamako")] = 5
        logits[row, WORDS.index("the")] = 1
    return logits


def dataset(*examples: Example) -> Dataset:
    return Dataset("made", "bundled", "r", "none", "token", 1, 1, examples)


def capitals() -> Dataset:
    return dataset(
        *(
            Example(country, f"in {country} noise the capital", f" {capital}", plain=f"in {country} the capital")
            for country, capital in CAPITALS.items()
        )
    )


def test_it_must_know_it_with_and_without_the_distractor() -> None:
    model = ScriptedModel(WORDS, knows_japan_and_peru)
    assert [one.id for one in keep_predicted(capitals(), model).examples] == ["Japan"]


def test_what_fails_with_the_distractor_is_not_asked_again() -> None:
    model = ScriptedModel(WORDS, knows_japan_and_peru)
    keep_predicted(capitals(), model)
    assert model.meter.forward_passes == 3 + 2, "Japan and Mali pass the first question"


def test_what_has_no_plain_form_stays_and_costs_nothing() -> None:
    model = ScriptedModel(WORDS, knows_japan_and_peru)
    whole = dataset(Example("a", "in Peru noise"), Example("b", "in Mali", " Lima"))
    assert keep_predicted(whole, model) == whole
    assert model.meter.forward_passes == 0


def test_what_the_model_cannot_read_is_left_out_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    whole = capitals()
    odd = Example("odd", "in Atlantis noise the capital", " Tokyo", plain="in Atlantis the capital")
    kept = keep_predicted(replace(whole, examples=(odd, *whole.examples)), ScriptedModel(WORDS, knows_japan_and_peru))
    assert [one.id for one in kept.examples] == ["Japan"]
    assert "odd is left out: the scripted model does not know the word 'Atlantis'" in caplog.text


@pytest.fixture(scope="module")
def learned() -> tuple[HuggingFaceModel, Dataset]:
    """A tiny network, and many prompts of several lengths with what it says after them, for half of them."""
    model = HuggingFaceModel(tiny.network_of("llama"), tiny.tokenizer_of("llama"))
    words = ["aunt", "moved", "Japan", "teach", "music", "rents", "small", "flat", "capital", "river", "town"]
    draw = np.random.default_rng(0)
    examples = []
    for i in range(60):
        plain = " ".join(draw.choice(words, draw.integers(4, 8)))
        prompt = f"{plain} {draw.choice(words)}"
        says = model.case(prompt, max_new_tokens=1).completion if i % 2 else " capital"
        examples.append(Example(f"e{i}", prompt, says, plain=plain if i % 3 else prompt))
    return model, dataset(*examples)


def one_by_one(model: Model, whole: Dataset) -> list[str]:
    def first(prompt: str, target: str) -> bool:
        case = model.case(prompt, target)
        return int(model.score(case.ids[None], case.positions[:1], case.targets[:1]).rank[0, 0]) == 0

    return [e.id for e in whole.examples if first(e.prompt, e.target or "") and first(e.plain or "", e.target or "")]


def test_in_batches_it_keeps_what_it_keeps_one_by_one(learned: tuple[HuggingFaceModel, Dataset]) -> None:
    model, whole = learned
    wanted = one_by_one(model, whole)
    assert 5 < len(wanted) < 40
    assert [one.id for one in keep_predicted(whole, model).examples] == wanted


def test_with_a_size_it_is_a_sample_of_what_is_known(
    learned: tuple[HuggingFaceModel, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reagent.data.filters.BATCH", 8)  # many steps
    model, whole = learned
    before = model.meter.forward_passes
    all_known = keep_predicted(whole, model)
    cost = model.meter.forward_passes - before
    for seed in (0, 1):
        before = model.meter.forward_passes
        assert keep_predicted(whole, model, 3, seed) == sample(all_known, 3, seed)
        assert model.meter.forward_passes - before < cost, "it stops when it has enough"
    assert keep_predicted(whole, model, 1000, 0) == all_known


def test_a_size_must_be_a_number(learned: tuple[HuggingFaceModel, Dataset]) -> None:
    with pytest.raises(InputError, match="`size` of a sample"):
        keep_predicted(learned[1], learned[0], 0)


def test_the_embedded_model_knows_some_capitals(smollm2: Model, prompt: str) -> None:
    whole = load_dataset("longra")
    demo = next(one for one in whole.examples if one.prompt == prompt)
    hard = [one for one in whole.examples if one.id.startswith("capital-world/Funafuti")]
    some = replace(whole, examples=(demo, *hard))
    assert [one.prompt for one in keep_predicted(some, smollm2).examples] == [prompt]


def test_the_target_becomes_its_first_token(smollm2: Model) -> None:
    example = Example("x", "They flew to Kathmandu. (It rains). They like Kath", "mandu", plain="The city of Kath")
    (kept,) = keep_predicted(dataset(example), smollm2).examples
    assert len(smollm2.case(example.prompt, "mandu").output) > 1
    case = smollm2.case(kept.prompt, kept.target)
    assert len(case.output) == 1
    assert "mandu".startswith(kept.target or "-")


def test_a_lottery_takes_all() -> None:
    whole = capitals().examples
    assert sorted(one.id for one in shuffle(whole, 0)) == sorted(one.id for one in whole)
