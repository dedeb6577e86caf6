"""Units are replaced by other units of the same text, which every model can score."""

import numpy as np
import pytest

from reagent import explain
from reagent.case import Floats, Ids
from reagent.methods.probe_set import ProbeSet
from reagent.methods.substitution import measure_substitutions
from reagent.models.huggingface import HuggingFaceModel
from reagent.removal import Delete
from reagent.segmentation import assign, split_words
from reagent.testing import ScriptedModel

WORDS = tuple(f"w{i}" for i in range(40))


def model_that_reads_the_last_word(word: int, value: float) -> ScriptedModel:
    """The logit of w0 is `value` higher if the last word is `word`."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = value * (context[:, -1] == word)
        table[:, 39] = 20.0  # so that drops are differences of logits
        return table

    return ScriptedModel(WORDS, logits)


def test_a_unit_is_replaced_by_another_one_of_the_text() -> None:
    model = model_that_reads_the_last_word(3, 4.0)
    case = model.case("w1 w2 w3", " w0").with_logprobs(model)
    found, drops = measure_substitutions(model, case, np.arange(3), [0, 2], np.random.default_rng(0))
    assert found == [0, 2]
    assert drops[:, 0] == pytest.approx([0.0, 4.0], abs=1e-6)


def test_a_unit_is_not_replaced_by_its_equal() -> None:
    model = model_that_reads_the_last_word(1, 4.0)
    case = model.case("w1 w1 w1", " w0").with_logprobs(model)
    assert measure_substitutions(model, case, np.arange(3), [0, 2], np.random.default_rng(0))[0] == []


def test_units_of_different_lengths_give_the_scores_of_the_new_text(tiny_model: HuggingFaceModel) -> None:
    text, target = "One remarkable morning a cat slept", " near the window"
    case = tiny_model.case(text, target)
    spans = [(token.start, token.end) for token in case.input]
    groups = assign(spans, split_words(text), text)
    words = case.grouped(groups).with_logprobs(tiny_model)
    free = Delete(tiny_model, words).free
    free = free[free < len(words.input)]
    found, drops = measure_substitutions(tiny_model, words, free, [1], np.random.default_rng(0))
    starts = words.unit_starts
    begin, end = starts[free[1]], starts[free[1] + 1]
    candidates = []
    for other in free:
        ids = np.concatenate([words.ids[:begin], words.ids[starts[other] : starts[other + 1]], words.ids[end:]])
        shift = len(ids) - len(words.ids)
        scores = tiny_model.score(ids[None], words.positions + shift, words.targets)
        candidates.append((words.values - words.output_scores(scores).value)[0])
    assert found == [1]
    assert any(np.allclose(drops[0], one, atol=1e-4) for one in candidates)


def test_substitutions_count_as_probes_and_stay_within_the_budget() -> None:
    model = model_that_reads_the_last_word(3, 4.0)
    case = model.case("w1 w2 w3", " w0").with_logprobs(model)
    probes = ProbeSet(Delete(model, case), case, 3, np.random.default_rng(0), lambda _: None)
    probes.measure(np.eye(3, dtype=np.bool_)[:1])
    probes.substitute([0, 1, 2])
    assert (probes.spent, probes.remaining) == (3, 0)
    probes.measure(np.eye(3, dtype=np.bool_)[1:])
    assert len(probes.removed) == 1


def test_a_word_whose_replacement_costs_more_comes_first() -> None:
    """Without w5 or w6 the answer loses the same; with another word in the place of w6 it loses more."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 3.0 * (context == 5).any(-1) + 3.0 * (context == 6).any(-1)
        table[:, 0] -= 3.0 * ((context.shape[1] == 30) & ~(context == 6).any(-1))
        table[:, 39] = 20.0
        return table

    prompt = "".join(f" w{i}" for i in range(1, 31)).strip()
    why = explain(ScriptedModel(WORDS, logits), prompt, target=" w0")
    assert [unit.token.text.strip() for unit in why.top(2)] == ["w6", "w5"]
