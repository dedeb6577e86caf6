"""A replacer is accepted by name or as an instance, and other packages can register their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reagent import explain, plugins
from reagent.case import Case
from reagent.errors import InputError, UnknownNameError
from reagent.models.base import HasVocabulary, Model, PredictsTokens
from reagent.replacers import (
    REPLACERS,
    Proposals,
    Replacer,
    ReplacerInfo,
    find_replacer,
    make_replacer,
    replacer_names,
)
from reagent.replacers.base import make_proposals, required_capabilities
from reagent.replacers.self_lm import SelfReplacer
from reagent.testing.scripted import ScriptedModel


@dataclass(frozen=True)
class FirstToken:
    """Replaces every token by the first of the vocabulary.

    The rest of the docstring is not part of the summary.
    """

    token: int = 0

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "first", "token": self.token}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        ids = np.full((len(case.ids), 1), self.token)
        return make_proposals(case, ids, np.ones(ids.shape))


class NoDataclass:
    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "no dataclass"}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        raise NotImplementedError


DESCRIBED = ReplacerInfo(FirstToken(token=1), "the second token")
INSTANCE = FirstToken(token=2)
WRONG = 42


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Register an object of this file as the entry point of an installed package."""
    points: list[EntryPoint] = []

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if point.group == group and name in (None, point.name)]

    def register(name: str, attribute: str) -> None:
        points.append(EntryPoint(name, f"{__name__}:{attribute}", "reagent.replacers"))

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    return register


def test_an_instance_is_accepted_instead_of_a_name() -> None:
    replacer = FirstToken(token=3)
    assert make_replacer(replacer) is replacer
    assert make_replacer(replacer, token=4) == FirstToken(token=4)
    assert make_replacer(SelfReplacer(candidates=3), weighted=True) == SelfReplacer(candidates=3, weighted=True)
    with pytest.raises(InputError, match=r"replacer 'first' has no option 'weighted'. It has: token"):
        make_replacer(replacer, weighted=True)


def test_options_beside_an_instance_without_fields_are_an_error() -> None:
    assert isinstance(make_replacer(NoDataclass()), NoDataclass)
    with pytest.raises(InputError, match="replacer 'no dataclass' has no option 'candidates'"):
        make_replacer(NoDataclass(), candidates=3)


@pytest.mark.parametrize("wrong", [42, None])
def test_neither_a_name_nor_an_instance_is_an_error(wrong: Any) -> None:
    with pytest.raises(InputError, match="a replacer must be a name or an instance of a replacer, got "):
        make_replacer(wrong)


@pytest.mark.parametrize(
    ("attribute", "token", "summary"),
    [
        ("FirstToken", 0, "Replaces every token by the first of the vocabulary."),
        ("INSTANCE", 2, "Replaces every token by the first of the vocabulary."),
        ("DESCRIBED", 1, "the second token"),
    ],
)
def test_a_plugin_is_found_by_its_name(
    attribute: str, token: int, summary: str, install: Callable[[str, str], None]
) -> None:
    install("first", attribute)
    assert replacer_names() == [*REPLACERS, "first"]
    assert find_replacer("first") == ReplacerInfo(FirstToken(token), summary)
    assert make_replacer("first", token=5) == FirstToken(token=5)
    with pytest.raises(UnknownNameError, match=r"did you mean 'first'.* Known: auto, roberta, .*, random, first"):
        make_replacer("frist")


def test_a_built_in_name_cannot_be_taken_over(install: Callable[[str, str], None]) -> None:
    install("self", "FirstToken")
    assert replacer_names() == [*REPLACERS]
    assert make_replacer("self") == SelfReplacer()


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("WRONG", "the replacers plugin 'bad' is 42: register a replacer class, an instance or a ReplacerInfo"),
        ("Missing", "the replacers plugin 'bad' of unknown package cannot be loaded: .*Missing"),
    ],
)
def test_a_broken_plugin_is_named(attribute: str, message: str, install: Callable[[str, str], None]) -> None:
    install("bad", attribute)
    with pytest.raises(InputError, match=message):
        make_replacer("bad")


@pytest.mark.parametrize("name", REPLACERS)
def test_a_built_in_replacer_declares_what_it_requires(name: str) -> None:
    replacer = REPLACERS[name].replacer
    assert isinstance(replacer, Replacer)
    assert replacer.info["id"] == name
    assert required_capabilities(replacer)
    model = ScriptedModel(["a", "b"], lambda context: np.zeros((len(context), 2)))
    assert all(isinstance(model, capability) for capability in required_capabilities(replacer))


def test_requires_may_be_left_out() -> None:
    assert required_capabilities(SelfReplacer()) == (PredictsTokens, HasVocabulary)
    assert required_capabilities(FirstToken()) == ()


def test_the_example_of_the_docs_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "replacers.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    model = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    why = explain(model, "c a b", target=" c", replacer=names["ShuffleReplacer"](candidates=5))
    assert why.replacer == {"id": "shuffle", "candidates": 5}
    assert why.top(1)[0].token.text == "c"
