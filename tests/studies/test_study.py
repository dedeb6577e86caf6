"""Studies of a model with planted effects: what is found, what is kept, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import reagent
from reagent.bench.store import Store
from reagent.errors import FileError, InputError
from reagent.prompt_study import MeanEffect, Study
from reagent.schemas import read_schema
from reagent.studies.search import find_pairs, find_removable
from reagent.views.studies import headline, show
from studies.planted import INPUTS, TEMPLATE, planted_model


@pytest.fixture(scope="module")
def study() -> Study:
    return reagent.study(planted_model(), TEMPLATE, INPUTS, threshold=0.5)


def test_planted_effects_are_found(study: Study) -> None:
    verdicts = {part.name: part.verdict for part in study.parts}
    assert verdicts == {
        "rules": "needed",
        "tone": "idle",
        "legal": "idle",
        "format": "idle",
        "again": "redundant",
        "noise": "hurts",
        "Say … :": "idle",
        "word": "idle",
    }
    rules = study.part("rules")
    assert rules.effects == pytest.approx((3.0, 3.1, 3.2, 3.3), abs=1e-6)
    assert rules.effect.mean == pytest.approx(3.15, abs=1e-6)
    assert rules.effect.low == pytest.approx(3.15 - 3.182 * 0.0645, abs=1e-3)  # t with 3 degrees of freedom
    assert (rules.matters, study.part("tone").matters) == (1.0, 0.0)
    assert study.part("noise").effect.mean == pytest.approx(-2.0, abs=1e-6)
    assert study.part("rules").tokens == 3


def test_parts_that_say_the_same_are_a_group(study: Study) -> None:
    (group,) = study.groups
    assert [study.parts[i].name for i in group.parts] == ["format", "again"]
    assert group.effect.mean == pytest.approx(4.0, abs=1e-6)
    assert group.single == pytest.approx(0.0, abs=1e-6)
    assert "again" not in [study.parts[i].name for i in study.removable.parts]
    assert study.removable.effect.mean == pytest.approx(0.01 + 0.15, abs=1e-6)


def test_the_first_sentence_answers_the_question(study: Study) -> None:
    assert headline(study).startswith("5 of 8 parts can go: “tone”, “legal”, “format”, “Say … :”, {{word}} (")
    assert headline(study).endswith("1 part matters (“rules”).")
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(study, console)
    shown = console.export_text()
    assert "“format”, “again” say the same" in shown
    assert "1 part hurts: “noise”." in shown


def test_json_is_read_back_and_fits_its_schema(study: Study, tmp_path: Path) -> None:
    import jsonschema

    assert Study.load(study.save(tmp_path / "study.json")) == study
    jsonschema.validate(study.to_dict(), read_schema("study"))
    assert list(study.to_frame()["verdict"]) == [part.verdict for part in study.parts]
    with pytest.raises(FileError, match="this is a study"):
        reagent.load(tmp_path / "study.json")


def test_a_study_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "study.sqlite"
    first = reagent.study(planted_model(), TEMPLATE, INPUTS[:2], threshold=0.5, out=out)
    model = planted_model()
    again = reagent.study(model, TEMPLATE, INPUTS[:2], threshold=0.5, out=out)
    assert model.meter.forward_passes == 0
    assert again.parts == first.parts
    assert again.cost == first.cost
    changed = TEMPLATE.replace("loud", "law")  # other parts stay in every other prompt, so all is measured anew
    assert reagent.study(model, changed, INPUTS[:2], threshold=0.5, out=out).part("noise").verdict == "idle"
    with Store.open(out) as store:
        assert all(cell.measured is not None for cell in store.cells())


def test_the_models_own_answer_is_measured_without_answers() -> None:
    rows = [{"word": "a"}, {"word": "b"}]
    study = reagent.study(planted_model(), TEMPLATE, rows, max_new_tokens=2)
    assert (study.metric, study.inputs[0].answer) == ("own", " a a")


def test_alternatives_replace_the_value_of_a_slot() -> None:
    study = reagent.study(planted_model(), TEMPLATE, INPUTS, alternatives={"word": ["a", "d"]}, threshold=0.5)
    # a → d gains 0.3; b → a and d loses −0.05 on average; c and d the same way
    assert study.part("word").effects == pytest.approx((-0.3, -0.05, 0.05, 0.3), abs=1e-6)
    assert study.alternatives == {"word": ["a", "d"]}


def test_one_bad_input_does_not_stop_the_others() -> None:
    study = reagent.study(planted_model(), TEMPLATE, [*INPUTS, {"word": "unknown", "answer": "yes"}], threshold=0.5)
    assert [one.id for one in study.failed] == ["5"]
    assert "unknown" in study.failed[0].error
    assert len(study.inputs) == 4


def test_a_part_that_is_absent_has_no_effect() -> None:
    template = TEMPLATE.replace("law", "{% if word == 'a' %}law{% endif %}").replace("\n<legal>", "\n<legal>")
    marked = "{# part: x #}{% if word == 'a' %}strict {% endif %}{# end #}Say {{word}} :"
    assert reagent.study(planted_model(), template, INPUTS, threshold=0.5).part("legal").effect.inputs == 4
    effect = reagent.study(planted_model(), marked, INPUTS, threshold=0.5).part("x")
    assert effect.effects == (pytest.approx(3.0, abs=1e-6), None, None, None)
    assert effect.verdict == "unclear"


def test_effects_that_add_up_are_borderline_and_no_group() -> None:
    singles = {i: MeanEffect(0.3, 0.3, 0.3, 9) for i in range(3)}
    removed, groups = find_removable(singles, lambda parts: MeanEffect(*[0.3 * len(parts)] * 3, 9), 0.5)
    assert (removed, groups) == ([0], [])


def test_three_parts_that_say_the_same_are_one_group() -> None:
    singles = {i: MeanEffect(0.0, 0.0, 0.0, 9) for i in range(5)}

    def effect_of(parts: frozenset[int]) -> MeanEffect:
        return MeanEffect(*[4.0 * ({0, 2, 4} <= parts)] * 3, 9)

    removed, groups = find_removable(singles, effect_of, 0.5)
    assert removed == [0, 1, 2, 3]
    assert [group.parts for group in groups] == [(0, 2, 4)]


def test_a_hundred_parts() -> None:
    template = "\n".join(f"<rules>\n{'strict' if i == 50 else 'law'}\n</rules>" for i in range(100)) + "\nSay {{word}}"
    study = reagent.study(planted_model(), template, INPUTS, threshold=0.5)
    assert [part.name for part in study.with_verdict("needed")] == ["rules (51)"]
    assert len(study.removable.parts) == 101


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": []}, "empty"),
        ({"inputs": {"word": "a"}}, "list of mappings"),
        ({"inputs": [1]}, "input 1 must be a mapping"),
        ({"inputs": [{"text": "a"}]}, "input 1: the template needs a value that is missing: 'word'"),
        ({"inputs": [{"word": "a", "answer": 1}]}, "input 1: `answer` must be a text"),
        ({"inputs": [{"word": "a", "id": 1}, {"word": "b", "id": "1"}]}, "has the id '1'"),
        ({"inputs": [{"word": "a"}, INPUTS[1]]}, "input 1 has no `answer`, but others have"),
        ({"inputs": [{"word": "a"}], "metric": "answer"}, "input 1 has no `answer`"),
        ({"inputs": "no.jsonl"}, "no.jsonl"),
        ({"template": "no.md"}, "cannot read the template 'no.md'"),
        ({"template": 3}, "must be a text or a path"),
        ({"metric": "best"}, "unknown metric 'best'"),
        ({"threshold": 0}, "`threshold` must be"),
        ({"threshold": float("nan")}, "`threshold` must be"),
        ({"limit": 0}, "`limit` must be"),
        ({"alternatives": {"city": ["Rome"]}}, "unknown slot 'city'"),
        ({"alternatives": {"word": []}}, "no alternative"),
        ({"alternatives": {"word": "Rome"}}, "list of texts"),
        ({"inputs": [{"word": "unknown", "answer": "yes"}]}, "no input could be measured: InputError: the scripted"),
    ],
)
def test_each_bad_argument_is_one_clear_line(changes: Mapping[str, Any], message: str) -> None:
    arguments = {"template": TEMPLATE, "inputs": INPUTS, **changes}
    with pytest.raises(InputError) as error:
        reagent.study(planted_model(), **arguments)
    assert message in str(error.value)


def test_a_file_of_another_template_is_refused(tmp_path: Path) -> None:
    reagent.study(planted_model(), TEMPLATE, INPUTS[:1], out=tmp_path / "s.sqlite")
    (tmp_path / "other.md").write_text(TEMPLATE)
    with pytest.raises(FileError, match=r"not of a study of 'other\.md'"):
        reagent.study(planted_model(), tmp_path / "other.md", INPUTS[:1], out=tmp_path / "s.sqlite")


def test_a_function_that_returns_only_text_can_be_studied() -> None:
    def answer(prompt: str) -> str:
        return "OSLO" if "capital letters" in prompt else "the city of Oslo, I think"

    template = "Use capital letters.\n\nBe kind.\n\nWhich city is in {{country}}?"
    study = reagent.study(answer, template, [{"country": "Norway"}, {"country": "the north"}, {"country": "a fjord"}])
    assert (study.metric, study.unit, study.chat) == ("own", "similarity", False)
    assert study.parts[0].verdict == "needed"
    assert study.part("Be kind.").verdict == "idle"


def test_pairs_that_say_the_same_in_part_are_found() -> None:
    study = reagent.study(planted_model(), TEMPLATE, INPUTS, threshold=0.5, pairs=True)
    assert [[study.parts[i].name for i in group.parts] for group in study.groups] == [["format", "again"]]
    effects = [[3.0, 3.1, None], [2.0, 2.1, 2.0], [0.0, 0.1, 0.0]]

    def effects_of(parts: frozenset[int]) -> list[float | None]:
        together = 5.0 * ({0, 1} <= parts)
        return [None if any(effects[i][row] is None for i in parts) else 5.0 + together for row in range(3)]

    (pair, *_) = find_pairs(effects, effects_of, 0.5)
    assert (pair.parts, pair.effect.mean) == ((0, 1), 10.0)
