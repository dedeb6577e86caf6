"""Agreement with Inseq on an encoder–decoder; skipped where Inseq is not installed.

With occlusion, Inseq replaces the embedding of one token by that of the unknown token, and reports by how much the
probability changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import reagent
import translator
from reagent.case import Case
from reagent.models.base import Model
from reagent.replacers.base import Proposals, make_proposals

inseq = pytest.importorskip("inseq")

PROMPT = "with the red bread near a dog and the of to in"
OUTPUT = "chien rouge pain"


@dataclass(frozen=True)
class UnknownToken:
    """Every token is replaced by the unknown token."""

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "unknown"}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        return make_proposals(case, np.full((len(case.ids), 1), translator.IDS["<unk>"]), np.ones((len(case.ids), 1)))


def test_both_measure_the_same_changes_of_probability() -> None:
    theirs = inseq.load_model(translator.network(), "occlusion", tokenizer=translator.tokenizer())
    result = theirs.attribute(PROMPT, OUTPUT, attribute_target=True, show_progress=False).sequence_attributions[0]
    why = reagent.explain(
        (translator.network(), translator.tokenizer()),
        PROMPT,
        target=OUTPUT,
        method="occlusion",
        removal="replace",
        replacer=UnknownToken(),
        attribute_target=True,
    )
    assert why.effects is not None
    words = len(PROMPT.split())
    for t, (token, effects) in enumerate(zip(why.output, why.effects, strict=True)):
        assert token.logprob is not None
        changes = np.abs(np.exp(token.logprob) - np.exp(token.logprob - np.array(effects)))
        assert changes[:words] == pytest.approx(result.source_attributions[:words, t].numpy(), abs=1e-4)
        before = result.target_attributions[1 : 1 + t, t].numpy()  # without the start token
        assert changes[len(why.input) :] == pytest.approx(before, abs=1e-4)


def test_both_multiply_embeddings_by_the_same_gradients() -> None:
    """Inseq takes gradients of the probability p, which are p times those of its logarithm."""
    theirs = inseq.load_model(translator.network(), "input_x_gradient", tokenizer=translator.tokenizer())
    result = theirs.attribute(PROMPT, OUTPUT, show_progress=False).sequence_attributions[0]
    model, words = (translator.network(), translator.tokenizer()), len(PROMPT.split())
    for reduction in ("sum", "norm"):
        why = reagent.explain(model, PROMPT, target=OUTPUT, method="input_x_gradient", reduction=reduction)
        assert why.effects is not None
        for t, (token, effects) in enumerate(zip(why.output, why.effects, strict=True)):
            assert token.logprob is not None
            products = result.source_attributions[:words, t]  # [words, width]
            expected = products.sum(-1) if reduction == "sum" else products.norm(dim=-1)
            assert effects[:words] == pytest.approx((expected / np.exp(token.logprob)).tolist(), abs=1e-5)
