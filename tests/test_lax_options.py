"""Values of a wrong type are refused in one line by every public entry point; none is converted or ignored."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from reagent.cli import main
from reagent.errors import InputError, ReagentError
from reagent.field_types import find_type_error
from reagent.methods import ReagentFast
from reagent.methods.greedy import Greedy
from reagent.methods.registry import METHODS, make_method
from reagent.metrics.config import EvaluationConfig
from reagent.models.http.config import ServerOptions
from reagent.replacers.registry import REPLACERS, make_replacer
from reagent.testing import ScriptedModel
from reagent.validation import with_options

ODD: list[Any] = [
    True, False, 1.5, 1.0, -1, 10**400, -(10**400), math.nan, math.inf, 1j, "", "abc", "3", b"a", "\ud800",
    [], [1], ["a"], [None], {}, {"a": 1}, (), [[0, 1]], object(), Path("x"), np.float64(1.5), np.array([1, 2]),
]  # fmt: skip
NO_NUMBER = [True, False, 1.5, 1.0, "3", "", "abc", [3], {}, math.nan, np.float64(3.0), 3 + 0j]
NO_TEXT = [True, 3, 1.5, b"a", ["a"], {"a": 1}, object()]
NO_FLAG = [1, 0, "yes", "", 1.0, [], [True]]

model = ScriptedModel(["a", "b", "c", "?", "Answer:"], lambda context: 5.0 * (context[:, :1] == np.arange(5)))
ASKED: dict[str, dict[str, Any]] = {
    "explain": {"prompt": "c a b", "max_new_tokens": 1, "probes": 4},
    "compare": {"prompt": "c a b", "methods": ["random"], "max_new_tokens": 1},
    "cite": {
        "question": "c ?",
        "documents": ["a b"],
        "answer": "c",
        "template": "{documents} {question}",
        "document_template": "{text}",
    },
}
NUMBERS = [
    ("explain", "max_new_tokens"), ("explain", "stride"), ("explain", "seed"), ("explain", "probes"),
    ("compare", "max_new_tokens"), ("compare", "stride"), ("compare", "seed"),
    ("cite", "max_new_tokens"), ("cite", "probes"), ("cite", "seed"),
]  # fmt: skip
TEXTS = [
    ("explain", "target"), ("explain", "target_span"), ("explain", "contrast"), ("explain", "answer_span"),
    ("explain", "method"), ("explain", "preset"), ("explain", "replacer"), ("explain", "control_tokens"),
    ("compare", "target"), ("compare", "control_tokens"), ("compare", "replacer_options"),
    ("cite", "question"), ("cite", "answer"), ("cite", "template"), ("cite", "removal"), ("cite", "control_tokens"),
]  # fmt: skip
FLAGS = [("explain", "attribute_target"), ("explain", "what_if"), ("explain", "screen")]


def refuses(verb: str, name: str, value: Any) -> None:
    if value is None:
        return
    with pytest.raises(ReagentError) as caught:
        getattr(reagent, verb)(model, **ASKED[verb] | {name: value})
    assert str(caught.value).isprintable()


def test_the_questions_themselves_are_answered() -> None:
    for verb, asked in ASKED.items():
        assert getattr(reagent, verb)(model, **asked)


@pytest.mark.parametrize(("verb", "name"), NUMBERS)
def test_a_whole_number_is_neither_a_flag_nor_a_fraction_nor_a_text(verb: str, name: str) -> None:
    for value in NO_NUMBER:
        refuses(verb, name, value)


@pytest.mark.parametrize(("verb", "name"), TEXTS)
def test_a_text_is_nothing_else(verb: str, name: str) -> None:
    for value in NO_TEXT:
        if not (name == "replacer_options" and isinstance(value, dict)):
            refuses(verb, name, value)


@pytest.mark.parametrize(("verb", "name"), FLAGS)
def test_a_flag_is_true_or_false(verb: str, name: str) -> None:
    for value in NO_FLAG:
        refuses(verb, name, value)


def configurable() -> Iterator[tuple[str, type, Callable[..., Any]]]:
    """Every dataclass of options, and how options reach it."""
    for method, info in METHODS.items():
        for preset, registered in info.presets.items():
            make: Callable[..., Any] = lambda method=method, preset=preset, **options: make_method(  # noqa: E731
                method, preset, **options
            )[0]
            yield f"{method} {preset}", type(registered.method), make
    for replacer, described in REPLACERS.items():
        again: Callable[..., Any] = lambda replacer=replacer, **options: make_replacer(replacer, **options)  # noqa: E731
        yield replacer, type(described.replacer), again
    yield "server", ServerOptions, lambda **options: with_options(ServerOptions(), options, "a server")
    yield "evaluate", EvaluationConfig, lambda **options: with_options(EvaluationConfig(), options, "evaluate")


@pytest.mark.parametrize(("kind", "make"), [entry[1:] for entry in configurable()], ids=[e[0] for e in configurable()])
def test_an_option_has_its_declared_type(kind: type, make: Callable[..., Any]) -> None:
    for field in fields(kind):
        for value in ODD:
            try:
                made = make(**{field.name: value})
            except ReagentError:
                continue
            assert find_type_error(kind, {field.name: getattr(made, field.name)}, "it") is None


def test_an_instance_is_checked_too() -> None:
    with pytest.raises(InputError, match="`exhaustive` of method 'Greedy' must be True or False, got 'no'"):
        reagent.explain(model, "c a b", max_new_tokens=1, method=Greedy(exhaustive="no"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whole number"):
        ReagentFast(probes=True)


@pytest.mark.parametrize("settings", [{"metrics": 3}, {"targets": 0}, {"targets": ["a"]}, {"replacer_options": None}])
def test_settings_of_an_evaluation(settings: dict[str, Any]) -> None:
    why = reagent.explain(model, "c a b", max_new_tokens=1)
    with pytest.raises(ReagentError):
        reagent.evaluate(model, why, **settings)


def test_arguments_of_an_explanation() -> None:
    why = reagent.explain(model, "c a b", max_new_tokens=2, attribute_target=True, answer_span="c")
    for call in (
        lambda: why.top(-1),
        lambda: why.top(True),
        lambda: why.top(1.5),  # type: ignore[arg-type]
        lambda: why.settled(True),
        lambda: why.top(target="a"),  # type: ignore[arg-type]
        lambda: why.traced(3),  # type: ignore[arg-type]
        lambda: why.traced(step_unit=""),  # type: ignore[arg-type]
        lambda: why.aggregate([]),  # type: ignore[arg-type]
        lambda: why.aggregate("word", output=3),  # type: ignore[arg-type]
        lambda: reagent.check_traced(model, "why"),  # type: ignore[arg-type]
        lambda: reagent.check_traced(model, why, True),
        lambda: reagent.load(3),  # type: ignore[arg-type]
    ):
        with pytest.raises(ReagentError):
            call()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--probes", "4", "--set", "probes=abc"], "--probes is given twice, also as --set probes: give it once"),
        (["--set", "probes=4", "--set", "probes=5"], "--set probes is given twice: give it once"),
        (["--set", "probes=abc"], "--probes of preset 'fast' must be a whole number"),
        (["--set", "probes=true"], "--probes of preset 'fast' must be a whole number"),
        (["--set", "probes=" + "1" * 5000], "must be a whole number"),
        (["--set", "method=3"], "has no option 'method'"),
        (["--cache", "a", "--server", "cache=b"], "--cache is given twice, also as --server cache: give it once"),
        (["--max-new-tokens", "1.5"], "valid integer"),
        (["--max-new-tokens", "100000000"], "must be at most 1000000"),
        (["--control-tokens", "drop"], "Known: keep, text"),
    ],
)
def test_options_of_the_command_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", "c a b", *words])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert len(line) < 10_000


def test_numbers_of_numpy_are_still_taken() -> None:
    why = reagent.explain(model, "c a b", max_new_tokens=np.int64(1), probes=np.int32(4), seed=np.uint8(1))  # type: ignore[arg-type]
    assert json.loads(why.to_json())["method"]["probes"] == 4
