"""An explanation keeps its shape, survives the way to disk and back, and refuses what it does not know."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

import reagent
from reagent.errors import FileError, InputError
from reagent.explanation import Cost, Explanation, Token
from reagent.explanation_json import load

COST = Cost(
    forward_passes=9,
    tokens=27,
    seconds=0.5,
    probes=4,
    stopping_tests=4,
    proposals=1,
    steps=(2, 2),
    stopped=("condition", "maximum"),
    runs=((1, 1), (2,)),
)


@pytest.fixture
def why() -> Explanation:
    return Explanation(
        prompt="<s>no 漢",
        completion=" yes\n",
        input=(Token((0,), "<s>", 0, 3, protected=True), Token((5,), "no", 3, 5), Token((8, 9), " 漢", 5, 7)),
        output=(Token((7,), " yes", 0, 4, logprob=-0.25), Token((1,), "\n", 4, 5, logprob=-1.5)),
        scores=((0.0, 0.75, 0.25), (0.0, 0.1, 0.2, 0.7)),
        effects=((0.0, 1.5, -0.5), (0.0, 0.1, 0.2, 0.3)),
        stderr=((0.0, 0.1, 0.1), (0.0, 0.1, 0.1, 0.1)),
        effect_unit="nats",
        model={"id": "m", "revision": None, "dtype": "float32", "backend": "scripted"},
        method={"id": "reagent", "preset": "paper"},
        replacer={"id": "self", "candidates": 10},
        seed=3,
        cost=COST,
    )


def schema() -> dict[str, object]:
    return json.loads((files("reagent") / "explanation.schema.json").read_text(encoding="utf-8"))


def test_written_and_read_back_equal(why: Explanation, tmp_path: Path) -> None:
    why.save(tmp_path / "why.json")
    assert load(tmp_path / "why.json") == why
    assert [p.name for p in tmp_path.iterdir()] == ["why.json"]


def test_the_json_follows_the_schema(why: Explanation) -> None:
    jsonschema.validate(json.loads(why.to_json()), schema())


def test_the_schema_refuses_what_is_wrong(why: Explanation) -> None:
    data = why.to_dict()
    for wrong in ({"seed": -1}, {"schema": "reagent.explanation/2"}, {"scores": [[2.0]]}, {"extra": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data | wrong, schema())


def test_another_schema_version_is_refused(why: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    path.write_text(json.dumps(why.to_dict() | {"schema": "reagent.explanation/2"}))
    with pytest.raises(FileError, match=r"new\.json.*'reagent.explanation/2'.*'reagent.explanation/1'"):
        load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[1]", "no 'schema' entry"),
        (b'{"schema": "reagent.explanation/1"}', "'prompt' is missing"),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        load(path)
    assert "bad.json" in str(caught.value)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*nowhere\.json"):
        reagent.load(tmp_path / "nowhere.json")


def test_no_key_can_be_missing(why: Explanation) -> None:
    added_later = {"unit", "levels", "messages", "what_if"}  # files of earlier versions lack them
    for key in set(why.to_dict()) - added_later:
        data = why.to_dict()
        del data[key]
        with pytest.raises(FileError):
            Explanation.from_dict(data)


def test_rows_must_fit_and_be_finite(why: Explanation) -> None:
    with pytest.raises(InputError, match="2 rows of 3, 4"):
        replace(why, scores=((0.5, 0.5), (1.0, 0.0, 0.0)))
    for name in ("scores", "effects", "stderr"):
        with pytest.raises(InputError, match=f"{name} must be finite"):
            replace(why, **{name: ((0.0, float("nan"), 0.0), (0.0, 0.0, 0.0, 1.0))})
    with pytest.raises(InputError, match=r"cost\.steps"):
        replace(why, cost=replace(COST, steps=(1,)))


def test_top_orders_by_score_and_leaves_protected_tokens_out(why: Explanation) -> None:
    assert [c.token.text for c in why.top(5)] == ["no", " 漢"]
    best = why.top(1, target=1)[0]
    assert (best.position, best.token.text, best.score, best.effect, best.stderr) == (3, " yes", 0.7, 0.3, 0.1)
    assert why.top(1, target=-1) == why.top(1, target=1)
    with pytest.raises(InputError, match="no output token 2"):
        why.top(1, target=2)


def test_a_reader_is_warned_of_rows_that_did_not_converge(why: Explanation) -> None:
    (warning,) = why.warnings
    assert "'\\n'" in warning
    assert "maximum number of steps" in warning


def test_a_place_is_settled_when_both_neighbours_are_clearly_apart(why: Explanation) -> None:
    assert why.settled() == (True, True, True)  # 1.5 against -0.5, with errors of 0.1
    close = replace(why, stderr=((0.0, 1.0, 1.0), (0.0, 0.01, 0.2, 0.01)))
    assert close.settled() == (True, False, False)
    assert close.settled(1) == (True, False, False, False)  # 0.3, 0.2 ± 0.2, 0.1
    clear = replace(why, stderr=((0.0, 0.1, 0.1), (0.0, 0.01, 0.01, 0.01)))
    assert clear.settled(1) == (True, True, True, True)
    assert replace(why, stderr=None).settled() is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": float("inf")},
        {"scores": [[0.0, 77.0, 0.25], [0.0, 0.1, 0.2, 0.7]]},
        {"stderr": [[0.0, -1.0, 0.1], [0.0, 0.1, 0.1, 0.1]]},
        {"output": [{"ids": [7], "text": " yes", "start": 0, "end": 4, "logprob": float("nan")}] * 2},
        {"input": [{"ids": [7], "text": "no", "start": -4, "end": 4, "protected": False}] * 3},
        {"input": "abc"},
    ],
)
def test_numbers_that_cannot_be_are_refused(why: Explanation, wrong: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(why.to_dict() | wrong))
    with pytest.raises(FileError, match="not a whole explanation"):
        load(path)


def test_a_number_too_long_to_read_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text('{"schema": ' + "9" * 5000 + "}")
    with pytest.raises(FileError, match="is not JSON"):
        load(path)
