"""Long prompts of scripted models: units that matter are known, and a screen should keep them."""

from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.methods.screening import screen
from reagent.testing import WORDS, ScriptedModel

LINE = 8  # words of a unit
LENGTHS = (60, 130, 500)  # units
QUESTION = 40  # protected words after the units
NEUTRAL = 18  # a word that says nothing

# The answer needs all words of one of the sets; each word is stated in that many units.
KINDS: dict[str, tuple[tuple[set[int], ...], dict[int, int]]] = {
    "one fact": (({5},), {5: 1}),
    "one fact, stated twice": (({5},), {5: 2}),
    "one fact, stated four times": (({5},), {5: 4}),
    "two facts together": (({5, 6},), {5: 1, 6: 1}),
    "two facts together, one of them stated twice": (({5, 6},), {5: 1, 6: 2}),
    "three facts together": (({5, 6, 7},), {5: 1, 6: 1, 7: 1}),
    "either of two facts": (({5}, {6}), {5: 1, 6: 1}),
}


class HidingModel(ScriptedModel):
    """A scripted model that can hide parts of its prompt."""

    def score_hidden(self, sequence: Ids, hidden: Mask, positions: Ids, targets: Ids) -> TargetScores:
        sequences = np.tile(sequence, (len(hidden), 1))
        sequences[:, : hidden.shape[1]][hidden] = NEUTRAL
        return self.score(sequences, positions, targets)


def measure_planted(kind: str, hides: bool, count: int) -> dict[str, Any]:
    """How many of the units that matter are kept, over random prompts."""
    totals = {"matter": 0, "kept_of_them": 0, "kept": 0, "units": 0, "passes": 0}
    for seed in range(count):
        rng = np.random.default_rng(seed)
        alternatives, mentions = KINDS[kind]
        model = (HidingModel if hides else ScriptedModel)(WORDS, _logits(alternatives, rng))
        units = LENGTHS[seed % len(LENGTHS)]
        words = [word for word, times in mentions.items() for _ in range(times)]
        places = rng.choice(units, len(words), replace=False)
        found = screen(model, _case(model, units, dict(zip(places.tolist(), words, strict=True)), rng))
        totals["matter"] += len(places)
        totals["kept_of_them"] += int(found.kept[places].sum())
        totals["kept"] += int(found.kept.sum())
        totals["units"] += units
        totals["passes"] += found.passes
    return totals


def _logits(alternatives: tuple[set[int], ...], rng: np.random.Generator) -> Any:
    """Answers "w0" if all words of one alternative are in the context; other words add small noise."""
    noise = rng.normal(0, 0.02, len(WORDS))

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = 3.0
        present = [np.all([(context == word).any(-1) for word in words], axis=0) for words in alternatives]
        table[:, 0] = 6.0 * np.any(present, axis=0) + noise[context].mean(-1)
        return table

    return logits


def _case(model: ScriptedModel, units: int, facts: dict[int, int], rng: np.random.Generator) -> Case:
    words = rng.integers(10, 18, (units, LINE))
    for unit, word in facts.items():
        words[unit, rng.integers(LINE)] = word
    text = " ".join(WORDS[i] for i in [*words.ravel().tolist(), *[NEUTRAL] * QUESTION])
    case = model.case(text, target=" w0")
    groups = [i // LINE if i < units * LINE else None for i in range(len(case.input))]
    return case.grouped(groups).without_output_removal().with_logprobs(model)
