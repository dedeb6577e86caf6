"""shap.Explanation: its plots, round trips, and what shap itself computes."""

import re
from typing import Any

import numpy as np
import pytest

import reagent
from exchange.test_attributions import PROMPT, tiny
from reagent.errors import InputError
from reagent.explanation import Explanation
from tiny import network_of, tokenizer_of

shap = pytest.importorskip("shap")


@pytest.fixture(scope="module")
def why() -> Explanation:
    return reagent.explain(tiny(), PROMPT, target=" Tokyo.", method="occlusion", units="word")


def test_its_plots_show_the_units(why: Explanation) -> None:
    import matplotlib

    matplotlib.use("Agg")
    exported = why.to_shap()
    page = shap.plots.text(exported, display=False)
    assert all(f">{unit.text.strip()}" in page.replace("> ", ">") for unit in why.input)
    axes = shap.plots.bar(exported, show=False, max_display=30)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert {unit.text.strip() for unit in why.input} <= {re.sub(r"^.* = ", "", label).strip() for label in labels}
    both = why.to_shap(per_token=True)
    assert list(both.output_names) == [token.text for token in why.output]
    assert " Tokyo" in why.completion
    assert shap.plots.text(both, display=False).count("_name") >= 2


def test_plots_end_at_the_log_probability(why: Explanation) -> None:
    exported = why.to_shap(per_token=True)
    ends = exported.values.sum(0) + exported.base_values
    assert ends == pytest.approx([token.logprob for token in why.output])
    assert why.to_shap("scores").values.sum() == pytest.approx(1)


@pytest.mark.parametrize("per_token", [False, True])
def test_a_round_trip_keeps_units_and_numbers(why: Explanation, per_token: bool) -> None:
    expected = why if per_token else why.whole()
    completion = why.completion if per_token else None
    again = reagent.from_shap(tiny(), why.to_shap(per_token=per_token), completion=completion)
    assert [unit.text for unit in again.input] == [unit.text for unit in why.input]
    inputs = len(why.input)
    assert again.to_numpy("effects")[:, :inputs] == pytest.approx(expected.to_numpy("effects")[:, :inputs])
    assert [token.text for token in again.output] == [token.text for token in expected.output]
    assert (again.method["id"], again.method["tool_version"]) == ("shap", shap.__version__)


def test_what_shap_computes_is_imported() -> None:
    tokenizer = tokenizer_of("llama")
    model = shap.models.TeacherForcing(network_of("llama"), tokenizer)
    explainer = shap.Explainer(model, shap.maskers.Text(tokenizer, mask_token="..."), silent=True)
    computed = explainer([PROMPT], [" Tokyo."], max_evals=50)
    with pytest.raises(InputError, match=r"'😀' is there twice in a row.*: give `prompt`"):
        reagent.from_shap(tiny(), computed, completion=" Tokyo.")
    imported = reagent.from_shap(tiny(), computed, prompt=PROMPT, completion=" Tokyo.")
    values = imported.to_numpy("effects")[:, : len(imported.input)]
    assert values.sum(1) == pytest.approx(np.asarray(computed.values[0]).sum(0))
    assert reagent.evaluate(tiny(), imported, ["lds"], probes=8, replacer="random").results


def made(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "values": np.zeros((2, 1)),
        "base_values": np.zeros(1),
        "data": np.array(["My", " aunt"], dtype=object),
        "output_names": [" Tokyo"],
    }
    return shap.Explanation(**given | changes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], "needs a shap.Explanation, got a list"),
        (shap.Explanation(np.zeros((2, 3)), data=np.zeros((2, 3))), "not the pieces of one text"),
        (made(values=np.full((2, 1), np.nan)), "NaN or infinite"),
        (made(output_names=["Tokyo"]), "is not the explained one: give it as `completion`"),
    ],
)
def test_what_is_no_explanation_of_a_text_is_one_error(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reagent.from_shap(tiny(), values)


def test_a_method_without_shapley_values_says_so(why: Explanation) -> None:
    with pytest.raises(InputError, match="has no shapley_values"):
        why.to_shap("shapley_values")
    with pytest.raises(InputError, match="unknown kind of values 'shap'"):
        why.to_shap("shap")
