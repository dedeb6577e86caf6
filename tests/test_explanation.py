"""An explanation keeps its shape, is read back equal from its file, and incomplete or unknown files are refused."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import reagent
from reagent.errors import FileError, InputError
from reagent.evaluation import Evaluation
from reagent.explanation import Cost, Explanation, Group, Level, Sufficiency, Token, WholeAnswer, load
from reagent.schemas import generate_schema, read_schema
from reagent.validation import check_integer, check_range
from views.samples import every_kind

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


GROUP = Group(units=(1, 2), kind="redundant", effect=3.5, stderr=0.25, single=1.0)
TEST = Sufficiency(units=(2, 1), effect=0.5, stderr=0.125, total=4.0, rank=0, passed=True)
FAILED = replace(TEST, effect=3.0, stderr=None, rank=None, passed=False)
VERSION_1 = Path(__file__).parent / "files" / "explanation-1.json"  # written by the release with that schema


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
    return read_schema("explanation")


def test_written_and_read_back_equal(why: Explanation, tmp_path: Path) -> None:
    why.save(tmp_path / "why.json")
    assert load(tmp_path / "why.json") == why
    assert [p.name for p in tmp_path.iterdir()] == ["why.json"]


def test_the_json_follows_the_schema(why: Explanation) -> None:
    jsonschema.validate(json.loads(why.to_json()), schema())


def test_the_schema_refuses_wrong_documents(why: Explanation) -> None:
    data = why.to_dict()
    for wrong in ({"seed": -1}, {"schema": "reagent.explanation/3"}, {"scores": [[2.0]]}, {"extra": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data | wrong, schema())


def test_another_schema_version_is_refused(why: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    for schema in ("reagent.explanation/3", ["reagent.explanation/2"]):
        path.write_text(json.dumps(why.to_dict() | {"schema": schema}))
        with pytest.raises(FileError, match=r"new\.json.*reads 'reagent.explanation/1' and 'reagent.explanation/2'"):
            load(path)


def test_a_file_of_version_1_is_read_and_written_as_version_2(tmp_path: Path) -> None:
    assert json.loads(VERSION_1.read_text())["schema"] == "reagent.explanation/1"
    old = load(VERSION_1)
    assert (old.completion, old.groups, old.sufficiency) == (" Tokyo.", (), None)
    assert [row.token.text for row in old.top(2)] == [" capital", " Japan"]
    new = old.save(tmp_path / "new.json")
    assert load(new) == old
    data = json.loads(new.read_text())
    assert (data["schema"], data["groups"], data["sufficiency"]) == ("reagent.explanation/2", [], None)
    jsonschema.validate(data, schema())


def test_a_file_of_version_2_has_groups_and_sufficiency(why: Explanation) -> None:
    for name in ("groups", "sufficiency"):
        data = why.to_dict()
        del data[name]
        with pytest.raises(FileError, match=f"'{name}' is missing"):
            Explanation.from_dict(data)
        Explanation.from_dict(data | {"schema": "reagent.explanation/1"})


def test_groups_and_sufficiency_are_written_and_read_back_equal(why: Explanation) -> None:
    full = replace(why, groups=((GROUP,), ()), sufficiency=(TEST, None))
    data = json.loads(full.to_json())
    jsonschema.validate(data, schema())
    assert data["groups"] == [
        [{"units": [1, 2], "kind": "redundant", "effect": 3.5, "stderr": 0.25, "single": 1.0}],
        [],
    ]
    assert data["sufficiency"] == [
        {"units": [2, 1], "effect": 0.5, "stderr": 0.125, "total": 4.0, "rank": 0, "passed": True},
        None,
    ]
    assert Explanation.from_dict(data) == full
    assert (full[0].groups, full[0].sufficiency) == ((GROUP,), TEST)
    assert (full[1].groups, full[1].sufficiency) == ((), None)
    assert (why[0].groups, why[0].sufficiency) == ((), None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": (1,)}, "at least two units in ascending order"),
        ({"units": (2, 1)}, "at least two units in ascending order"),
        ({"units": (1, 1)}, "at least two units in ascending order"),
        ({"kind": "redundnt"}, "unknown kind of group 'redundnt', did you mean 'redundant'"),
        ({"effect": float("nan")}, "numbers of a group must be finite"),
        ({"single": float("inf")}, "numbers of a group must be finite"),
        ({"stderr": -0.1}, "stderr of a group must not be negative"),
    ],
)
def test_an_impossible_group_is_refused(why: Explanation, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(GROUP, **changes)
    data = replace(why, groups=((GROUP,), ())).to_dict()
    data["groups"][0][0] |= {name: list(v) if isinstance(v, tuple) else v for name, v in changes.items()}
    with pytest.raises(FileError, match="not a complete explanation"):
        Explanation.from_dict(data)


def test_impossible_sufficiency_is_refused() -> None:
    for changes in ({"units": (1, 1)}, {"effect": float("nan")}, {"total": float("inf")}, {"stderr": -1.0}):
        with pytest.raises(InputError, match="sufficiency"):
            replace(TEST, **changes)


def test_groups_and_sufficiency_refer_to_units_before_their_token(why: Explanation) -> None:
    late = replace(GROUP, units=(2, 3))
    replace(why, groups=((), (late,)), sufficiency=(None, replace(TEST, units=(3,))))
    for changes in ({"groups": ((late,), ())}, {"sufficiency": (replace(TEST, units=(3,)), None)}):
        with pytest.raises(InputError, match="must refer to units before their output token"):
            replace(why, **changes)
    for changes in ({"groups": ((GROUP,),)}, {"sufficiency": (TEST,)}):
        with pytest.raises(InputError, match="one entry for each output token"):
            replace(why, **changes)


def test_the_share_that_the_important_units_carry() -> None:
    assert TEST.share == 0.875
    assert replace(TEST, effect=-1.0).share == 1.0
    assert replace(TEST, effect=9.0).share == 0.0
    assert replace(TEST, total=0.0).share is None
    assert replace(TEST, total=-1.0).share is None


def test_a_failed_sufficiency_test_is_a_warning_once(why: Explanation) -> None:
    passed = replace(why, cost=replace(COST, stopped=("settled", "settled")), sufficiency=(TEST, None))
    assert passed.warnings == ()
    for stopped in ("settled", "insufficient"):
        failed = replace(passed, cost=replace(COST, stopped=(stopped, "settled")), sufficiency=(FAILED, None))
        (warning,) = failed.warnings
        assert warning.startswith("' yes' depends on more than the important units")
    both = replace(failed, cost=replace(COST, stopped=("few", "settled")))
    assert [line.split()[2] for line in both.warnings] == ["depends", "has"]


def test_an_answer_of_tokens_that_were_not_explained_can_be_shown_as_a_whole(why: Explanation) -> None:
    whole = replace(why, cost=replace(COST, stopped=("unasked", "unasked"))).whole()
    assert whole.cost.stopped == ("unasked",)
    assert sum(whole.scores[0]) == pytest.approx(1)


def test_sums_over_words_name_groups_and_tests_by_words(why: Explanation) -> None:
    words = replace(why, groups=((GROUP,), ()), sufficiency=(TEST, None)).aggregate("word")
    assert (words.groups, words.sufficiency) == (((GROUP,), ()), (TEST, None))  # each token is a word
    sentence = replace(why, groups=((GROUP,), ()), sufficiency=(TEST, None)).aggregate("sentence")
    assert sentence.groups == ((), ())  # both members are in one unit
    assert sentence.sufficiency == (replace(TEST, units=(1,)), None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[1]", "no 'schema' entry"),
        (b'{"schema": "reagent.explanation/2"}', "'prompt' is missing"),
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
    for key in set(why.to_dict()) - Explanation.ADDED_LATER:  # files of earlier versions lack these
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


def test_ranks_that_do_not_follow_the_effects_have_no_standard_errors(why: Explanation) -> None:
    assert why[0].is_ranked_by_effect
    assert not replace(why, effects=None, stderr=None)[0].is_ranked_by_effect
    *others, last = why.scores
    swapped = replace(why, scores=(*others, (last[0], last[2], last[1], *last[3:])))
    assert swapped.settled(0) is not None
    assert not swapped[1].is_ranked_by_effect
    assert swapped.settled(1) is None


def test_negative_effects_and_equal_scores_do_not_change_the_ranking(why: Explanation) -> None:
    effects = ((0.0, -2.0, -1.0), (0.0, -1.0, -3.0, -2.0))
    assert all(row.is_ranked_by_effect for row in replace(why, effects=effects))


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": float("inf")},
        {"scores": [[0.0, 77.0, 0.25], [0.0, 0.1, 0.2, 0.7]]},
        {"stderr": [[0.0, -1.0, 0.1], [0.0, 0.1, 0.1, 0.1]]},
        {"output": [{"ids": [7], "text": " yes", "start": 0, "end": 4, "logprob": float("nan")}] * 2},
        {"input": [{"ids": [7], "text": "no", "start": -4, "end": 4, "protected": False}] * 3},
        {"input": "abc"},
        {"seed": "3"},
        {"prompt": 3},
        {"extra": 1},
        {"what_if": None},
        {"input": [{"ids": [7], "text": "no", "start": 0, "end": 2, "protected": False, "extra": 1}] * 3},
        {"levels": [{"unit": "word", "units": [], "scores": [[], [1.0]]}]},
        {"model": {"id": "\ud800"}},
    ],
)
def test_impossible_values_are_refused(why: Explanation, wrong: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(why.to_dict() | wrong))
    with pytest.raises(FileError, match=r"not a complete explanation|is not a number of JSON") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_number_too_long_to_read_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text('{"schema": ' + "9" * 5000 + "}")
    with pytest.raises(FileError, match="is not JSON"):
        load(path)


def test_a_problem_is_named_with_its_place(why: Explanation) -> None:
    data = why.to_dict()
    data["input"][1]["text"] = 5
    with pytest.raises(FileError, match=r"'input\[1\]\.text' must be a valid string, got 5$"):
        Explanation.from_dict(data)
    data["input"][1]["text"] = "no"
    del data["input"][1]["protected"]
    with pytest.raises(FileError, match=r"'input\[1\]\.protected' is missing$"):
        Explanation.from_dict(data)
    del data["input"][1]["text"]
    with pytest.raises(FileError, match=r"'input\[1\]\.text' is missing$"):
        Explanation.from_dict(data)


def test_fields_that_were_added_later_may_be_missing(why: Explanation) -> None:
    answer = WholeAnswer((0.0, 0.75, 0.25), None, None, (), None, "settled")
    level = Level("word", why.input, why.scores, None, None, answer)
    data = replace(why, answer=answer, levels=(level,)).to_dict()
    for name in sorted(Explanation.ADDED_LATER, key=lambda name: -name.count(".")):  # fields inside others first
        *outer, last = name.split(".")
        places = [data]
        for step in outer:
            inside = (place[step] for place in places)
            places = [one for some in inside for one in (some if isinstance(some, list) else [some])]
        assert places or outer == ["messages"]  # this is no chat
        for place in places:
            del place[last]
        assert Explanation.from_dict(data)
    assert Explanation.from_dict(data) == replace(why, cost=replace(COST, runs=()))


def test_a_level_without_the_answer_is_read(why: Explanation) -> None:
    leveled = replace(why, levels=(Level("word", why.input, why.scores, None, None),))
    data = leveled.to_dict()
    del data["levels"][0]["answer"]
    assert Explanation.from_dict(data) == leveled
    del data["levels"][0]["units"]
    with pytest.raises(FileError, match=r"'levels\[0\]\.units' is missing$"):
        Explanation.from_dict(data)


@pytest.mark.parametrize("name", ["explanation", "evaluation"])
def test_the_schema_files_are_those_that_the_code_generates(name: str) -> None:
    assert read_schema(name) == generate_schema(name), "run: python -m reagent.schemas"


def test_the_schema_tells_input_tokens_from_output_tokens() -> None:
    common, properties = ["ids", "text", "start", "end"], read_schema("explanation")["properties"]
    assert list(properties["input"]["items"]["properties"]) == [*common, "protected"]
    assert list(properties["output"]["items"]["properties"]) == [*common, "logprob"]


def test_every_kind_of_explanation_is_read_back_equal() -> None:
    for name, why in every_kind().items():
        if name != "hostile":  # half a surrogate pair, which no file can hold
            text = why.to_json()
            again = Explanation.from_dict(json.loads(text))
            assert again == why
            assert again.to_json() == text


def test_numbers_of_numpy_are_written(why: Explanation) -> None:
    given = replace(why, seed=np.int64(3), method={"id": "reagent", "probes": np.int32(8), "ratio": np.float32(0.5)})
    data = json.loads(given.to_json())
    assert (data["seed"], data["method"]) == (3, {"id": "reagent", "probes": 8, "ratio": 0.5})


def test_the_wrong_kind_of_file_is_named(why: Explanation, tmp_path: Path) -> None:
    path = why.save(str(tmp_path / "why.json"))
    with pytest.raises(FileError, match=r"why\.json.*is an explanation .*not an evaluation.*Explanation\.load"):
        Evaluation.load(path)
    path.write_text('{"schema": "reagent.evaluation/1"}')
    with pytest.raises(FileError, match=r"is an evaluation .*not an explanation.*Evaluation\.load"):
        reagent.load(path)


def test_arrays_are_nan_where_an_output_token_has_no_context(why: Explanation) -> None:
    nan = float("nan")
    expected = [[0.0, 0.75, 0.25, nan, nan], [0.0, 0.1, 0.2, 0.7, nan]]
    np.testing.assert_array_equal(why.to_numpy(), expected)
    assert why.to_numpy("effects")[0, 2] == -0.5
    assert why.to_numpy("stderr").dtype == np.float64
    with pytest.raises(InputError, match="no stderr"):
        replace(why, stderr=None).to_numpy("stderr")
    with pytest.raises(InputError, match="unknown array 'score', did you mean 'scores'"):
        why.to_numpy("score")


def test_one_output_token_at_a_time(why: Explanation) -> None:
    assert len(why) == 2
    assert [row.token.text for row in why] == [" yes", "\n"]
    last = why[-1]
    assert last == why[1] == why[np.int64(1)] == why[1:][0]
    assert (last.index, last.scores, last.effects, last.stderr) == (1, why.scores[1], why.effects[1], why.stderr[1])
    assert [token.text for token in last.context] == ["<s>", "no", " 漢", " yes"]
    assert last.top(2) == why.top(2, target=1)
    assert replace(why, effects=None, stderr=None)[0].top(1)[0].effect is None
    with pytest.raises(IndexError, match="no output token 2"):
        why[2]
    with pytest.raises(TypeError):
        why["scores"]
    assert why, "an explanation is true even without output tokens"


def test_checks_of_numbers_accept_numpy() -> None:
    check_integer("m", "n", np.int64(3), 1)
    check_range("m", "r", np.float32(0.5), 0, 1)
    for value in (True, np.bool_(True), 3.0, np.float64(3), "3", None):
        with pytest.raises(ValueError, match="`n` of m must be a whole number from 1 to"):
            check_integer("m", "n", value, 1)
    for value in (True, "0.5", None, float("nan"), 1.5):
        with pytest.raises(InputError, match="`r` of m must be between 0 and 1"):
            check_range("m", "r", value, 0, 1)
