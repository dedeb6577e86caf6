"""Encoder–decoder models: scores against plain passes, on tiny models of every family."""

import numpy as np
import pytest
import torch

import tiny_seq2seq
from reagent.case import Floats, Ids
from reagent.models.load import load_model
from reagent.models.ragged import score_ragged
from reagent.models.seq2seq import Seq2SeqModel

PROMPT = "The river runs through the old town"
TARGET = "She rents a small flat"


def model_of(family: str) -> Seq2SeqModel:
    model = load_model((tiny_seq2seq.network_of(family), tiny_seq2seq.tokenizer_of(family)))
    assert isinstance(model, Seq2SeqModel)
    return model


def plain_logprobs(model: Seq2SeqModel, context: Ids) -> Floats:
    """Log-probabilities of every token after a context, from one pass of the network itself; [vocabulary]."""
    place = context.tolist().index(model._adapter.boundary)
    source, output = context[:place], context[place:].copy()
    output[0] = model._text.start
    with torch.no_grad():
        logits = model.network(
            input_ids=torch.tensor(source[None]), decoder_input_ids=torch.tensor(output[None])
        ).logits
    return np.asarray(logits[0, -1].double().log_softmax(-1).numpy())


@pytest.mark.parametrize("family", tiny_seq2seq.FAMILIES)
def test_scores_equal_plain_passes(family: str) -> None:
    model = model_of(family)
    case = model.case(PROMPT, TARGET)
    rng = np.random.default_rng(0)
    sequences = []
    free = np.flatnonzero(~case.protected[: len(case.units) - 1])
    for removed in (0, 1, 3, 5, 2, 4):  # different lengths of source and output
        kept = np.ones(len(case.ids), dtype=bool)
        gone = rng.choice(free, removed, replace=False)
        kept[gone] = False
        sequences.append(case.ids[kept])
    positions = np.array([[len(sequence) - 1, len(sequence) - 2] for sequence in sequences])
    targets = case.targets[-2:][::-1].copy()
    scores = score_ragged(model, sequences, positions, targets)
    for i, sequence in enumerate(sequences):
        for j in range(2):
            row = plain_logprobs(model, sequence[: positions[i, j]])
            assert scores.logprob[i, j] == pytest.approx(row[targets[j]], abs=2e-4)
            assert scores.rank[i, j] == (row > row[targets[j]]).sum()
