"""What reagent computes with a network, against plain uncached passes of the same network.

`run_checks` gives one verdict for each check: "right", "refused: reason" (a clear error before any wrong number),
"wrong: difference" or "error: message" (an error that tells the user nothing).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import reagent
import tiny
from architectures import NOT_BUILT, build
from reagent.case import Case, Floats, Ids, TargetScores
from reagent.errors import ReagentError
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.self_check import STEPS

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the old"  # longer than every window
TARGET = " town, and"
TOLERANCE = 2e-3  # nats; differences of float32 are ten times smaller


class WrongError(Exception):
    """A number that differs from that of plain passes."""


class PlainModel(HuggingFaceModel):
    """Scores by one uncached pass for each sequence and target, over nothing but the tokens before the target."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        super().__init__(network, tokenizer)
        self.known: dict[bytes, torch.Tensor] = {}

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_ragged(self, sequences: Any, positions: Ids, targets: Ids) -> TargetScores:
        logprob, rank = np.empty((2, *positions.shape))
        for i, (sequence, row) in enumerate(zip(sequences, positions, strict=True)):
            for j, position in enumerate(row):
                read = sequence[:position]
                if (logits := self.known.get(read.tobytes())) is None:
                    logits = self.known[read.tobytes()] = plain_logits(self.network, read)
                logprob[i, j] = logits.log_softmax(-1)[targets[j]]
                rank[i, j] = (logits > logits[targets[j]]).sum()
        return TargetScores(logprob, rank.astype(np.int64))

    def score_hidden(self, *_: Any) -> None:
        return None


def plain_logits(network: Any, ids: Any) -> torch.Tensor:
    """The next-token logits after `ids`, from one pass without a cache."""
    with torch.inference_mode():
        return network(input_ids=torch.tensor(np.asarray(ids)[None]), use_cache=False).logits[0, -1].float()


@dataclass
class Subject:
    """A model of one architecture and a case to check it on."""

    network: Any

    @cached_property
    def model(self) -> HuggingFaceModel:
        loaded = reagent.load_model((self.network, tiny.byte_level_tokenizer()))
        assert isinstance(loaded, HuggingFaceModel)
        return loaded

    @cached_property
    def plain(self) -> PlainModel:
        return PlainModel(self.network, tiny.byte_level_tokenizer())

    @cached_property
    def case(self) -> Case:
        return self.model.case(PROMPT, TARGET)

    @cached_property
    def probes(self) -> Ids:
        """The case and variations that leave it early or late."""
        sequences = np.repeat(self.case.ids[None], 9, axis=0)
        rng = np.random.default_rng(0)
        places = np.linspace(1, len(self.case.input) - 1, len(sequences) - 1).astype(int)
        for row, place in zip(sequences[1:], places, strict=True):
            row[place] = rng.integers(5, 300)
        return sequences

    @cached_property
    def expected(self) -> Floats:
        return self.plain.score(self.probes, self.case.positions, self.case.targets).logprob


def check_scores(subject: Subject) -> None:
    """A batch with shared prefixes, twice, so that the second call continues a kept prefix."""
    case = subject.case
    for _ in range(2):
        _compare(subject.model.score(subject.probes, case.positions, case.targets).logprob, subject.expected)
    if np.ptp(subject.expected[:, 0]) < 10 * TOLERANCE:
        raise WrongError("the predictions do not depend on the context: the check would see nothing")


def check_singles(subject: Subject) -> None:
    """One sequence at a time, and sequences of different lengths in one batch."""
    case, model = subject.case, subject.model
    singles = [model.score(row[None], case.positions, case.targets).logprob[0] for row in subject.probes[:3]]
    _compare(np.array(singles), subject.expected[:3])
    shorter = [subject.probes[0], subject.probes[0][3:], subject.probes[2][7:], subject.probes[3][1:]]
    positions = np.array([case.positions - len(case.ids) + len(row) for row in shorter])
    expected = subject.plain.score_ragged(shorter, positions, case.targets).logprob
    _compare(model.score_ragged(shorter, positions, case.targets).logprob, expected)


def check_generation(subject: Subject) -> None:
    """Each generated token is the likeliest one of a plain pass, by logits that are those of a plain pass."""
    steps: list[torch.Tensor] = []
    adapter = subject.model._adapter
    extend = adapter.extend

    def watched(*arguments: Any) -> Any:
        logits, grown = extend(*arguments)
        steps.append(logits[0])
        return logits, grown

    with patch.object(adapter, "extend", watched):
        case = subject.model.case(PROMPT, max_new_tokens=5)
    for position, found in zip(range(len(case.input), len(case.ids)), steps, strict=False):
        logits = plain_logits(subject.network, case.ids[:position])
        _compare(found.log_softmax(-1), logits.log_softmax(-1))
        _compare(logits[case.ids[position]], logits.max())


def check_masking(subject: Subject) -> None:
    """Hidden tokens have no influence, and a mask that hides nothing changes nothing."""
    from reagent.models.base import require_attention_mask

    case, model = subject.case, require_attention_mask(subject.model, "masking")
    keep = np.ones((2, len(case.ids)), dtype=np.bool_)
    _compare(model.score_masked(subject.probes[:2], keep, case.positions, case.targets).logprob, subject.expected[:2])
    keep[:, 3:8] = False
    sequences = np.repeat(case.ids[None], 2, axis=0)
    sequences[1, 3:8] = [50, 60, 70, 80, 90]
    hidden = model.score_masked(sequences, keep, case.positions, case.targets).logprob
    _compare(hidden[1], hidden[0])


def check_gradients(subject: Subject) -> None:
    """Embeddings say what their tokens say, and the gradient is the slope of that."""
    case = subject.case.with_logprobs(subject.plain)
    reagent.explain(subject.model, PROMPT, target=TARGET, method="input_x_gradient")
    text = subject.model.embed(case.ids[: int(case.positions.max())])
    assert text is not None
    _compare(subject.model.values(case, text[None])[0], np.asarray(case.values))
    gradient = subject.model.gradients(case, text[None], [0])[0, 0]  # [length, width]
    value = subject.model.values(case, text[None])[0, 0]
    slopes = []  # some are off where another expert takes over
    for step in STEPS:
        moved = text + step * gradient / np.sum(gradient**2)
        slopes.append((subject.model.values(case, moved[None])[0, 0] - value) / step)
    if not np.isclose(slopes, 1, atol=0.03).any():
        raise WrongError(f"slopes {np.round(slopes, 3).tolist()} along the gradient, over its length")


def check_attention(subject: Subject) -> None:
    """Rows sum to one over the tokens up to their own, or the explanation says that part is missing."""
    why = reagent.explain(subject.model, PROMPT, target=TARGET, method="attention")
    is_partial = "partial" in why.cost.stopped
    layers = subject.model.attentions(subject.case.ids)
    assert layers is not None
    if len(layers) < subject.model.layer_count and not is_partial:
        raise WrongError(f"only {len(layers)} layers, and the explanation does not say so")
    for i, layer in enumerate(layers):
        if (ahead := np.abs(np.triu(layer, 1)).max()) > 1e-6:
            raise WrongError(f"layer {i} attends to later tokens, by {ahead:.3f}")
        if (gap := np.abs(layer.sum(-1) - 1).max()) > 1e-4 and not is_partial:
            raise WrongError(f"rows of layer {i} miss 1 by {gap:.3f}")


def check_explanation(subject: Subject) -> None:
    """The explanation of plain passes, from the same draws."""
    options: dict[str, Any] = {"target": TARGET, "probes": 16, "replacer": "self"}
    found, expected = (reagent.explain(m, PROMPT, **options) for m in (subject.model, subject.plain))
    assert found.effects is not None
    assert expected.effects is not None
    for a, b in zip(found.effects, expected.effects, strict=True):
        _compare(np.array(a), np.array(b), 5 * TOLERANCE)


CHECKS: dict[str, Callable[[Subject], None]] = {
    "scores": check_scores,
    "batches": check_singles,
    "generation": check_generation,
    "masking": check_masking,
    "gradients": check_gradients,
    "attention": check_attention,
    "explanation": check_explanation,
}


def run_checks(model_type: str) -> dict[str, Any]:
    """The record of one architecture: its verdicts, by check, or why there are none."""
    record: dict[str, Any] = {"architecture": model_type}
    if model_type in NOT_BUILT:
        return record | {"not_built": NOT_BUILT[model_type]}
    began = time.process_time()
    subject = Subject(build(model_type))
    verdicts = {name: _verdict(check, subject) for name, check in CHECKS.items()}
    return record | {"checks": verdicts, "seconds": round(time.process_time() - began, 2)}


def _verdict(check: Callable[[Subject], None], subject: Subject) -> str:
    try:
        check(subject)
    except ReagentError as error:
        return f"refused: {error}"
    except WrongError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "right"


def _compare(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    difference = float(np.abs(np.asarray(found) - np.asarray(expected)).max())
    if not difference <= tolerance:
        raise WrongError(f"{difference:.4f} nats")
