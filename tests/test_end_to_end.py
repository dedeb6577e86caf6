"""The real embedded model, as a person uses it."""

import json
import math
from pathlib import Path

import jsonschema
import pytest

import reagent
from reagent.models.base import Model
from reagent.schemas import read_schema


def test_the_embedded_model_says_tokyo_because_of_japan(smollm2: Model, prompt: str) -> None:
    why = reagent.explain(smollm2, prompt, max_new_tokens=1, probes=64, seed=1)
    assert why.completion == " Tokyo"
    assert math.exp(why.output[0].logprob) == pytest.approx(0.547, abs=0.002)
    assert " Japan" in [c.token.text for c in why.top(3)]
    japan = next(c for c in why.top(3) if c.token.text == " Japan")
    assert japan.effect > 5 * japan.stderr
    inside = sum(why.scores[0][i] for i, t in enumerate(why.input) if prompt.index("(") <= t.start < prompt.index(")"))
    assert inside < 0.25, "the sentence in parentheses has nothing to do with it"


def test_its_json_follows_the_schema_and_comes_back_equal(smollm2: Model, prompt: str, tmp_path: Path) -> None:
    why = reagent.explain(smollm2, prompt, max_new_tokens=3, probes=16)
    schema = read_schema("explanation")
    jsonschema.validate(json.loads(why.to_json()), schema)
    assert reagent.load(why.save(tmp_path / "why.json")) == why
    assert why.model["id"] == "smollm2"
    assert why.model["revision"]


@pytest.mark.parametrize("preset", [{"preset": "fast", "probes": 16}, {"preset": "paper", "max_steps": 4, "runs": 1}])
def test_two_runs_with_one_seed_are_equal_bit_for_bit(smollm2: Model, prompt: str, preset: dict[str, object]) -> None:
    def scores(seed: int) -> object:
        return reagent.explain(smollm2, prompt[: prompt.index(" (")], target=" Tokyo", seed=seed, **preset).scores

    first = scores(3)
    assert first == scores(3)
    assert first != scores(4)


def test_bytes_of_one_character_do_not_break_anything(smollm2: Model, tmp_path: Path) -> None:
    why = reagent.explain(smollm2, "漢字 🙂 naïve\n\tx", target=" 漢", probes=16)
    assert "".join(sorted({t.text for t in why.output})).strip()
    assert "漢" in why.to_html(tmp_path / "a.html")
    why.to_png(tmp_path / "a.png")
    why.show()


def test_a_chat_is_explained_by_what_was_said(smollm2: Model) -> None:
    why = reagent.explain(
        smollm2,
        [{"role": "user", "content": "My sister moved to France. What is the capital of that country?"}],
        target="The capital of France is Paris",
        target_span="Paris",
        units="word",
        probes=48,
    )
    assert [message.role for message in why.messages] == ["user"]
    assert {"capital", "France"} & {row.token.text.strip() for row in why.top(3, why.focus)}
