"""Removal: three ways to take units out of a text, with one interface for every method that perturbs.

delete   The tokens of removed units are left out, and the text becomes shorter. Deletion takes information away and
         adds none. Every model can score it.
mask     Removed units get no attention, and all others keep their positions. The network must take an attention mask.
replace  Removed units are replaced by proposals of a replacer. The text stays complete, but a replacement can state
         something else in place of the original, and scores depend on which proposals are drawn.

Only the targets are scored, and an output unit that is removed is still scored as a target: the prediction of it is
read off the last token that is kept before it.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, OutputScores, TargetScores
from reagent.models.base import Model, require_attention_mask
from reagent.models.ragged import score_ragged
from reagent.replacers.alternatives import TextProposals
from reagent.replacers.base import Proposals
from reagent.validation import check_name

REMOVALS = ("delete", "mask", "replace")


class Remover(Protocol):
    """Scores a case with some of its units removed."""

    @property
    def model(self) -> Model: ...

    @property
    def free(self) -> Ids:
        """Units that can be removed and precede at least one target: indices into `case.units`, in order."""
        ...

    @property
    def is_random(self) -> bool:
        """Whether two probes that remove the same units may differ."""
        ...

    def score(self, removed: Mask, uniform: Floats | None = None) -> OutputScores:
        """Value and rank of each output unit when the marked free units are removed; `removed` is [probes, free].

        `uniform` [probes, free], in [0, 1), chooses the candidates of a random remover; others ignore it. A remover
        that is not random scores identical rows once.
        """
        ...


def make_remover(removal: str, model: Model, case: Case, proposals: Proposals) -> Remover:
    """The remover of that name; `proposals` are used by `replace` only."""
    check_removal(removal)
    if removal == "replace" and isinstance(proposals, TextProposals):
        return Substitute(model, case, proposals)
    if removal == "replace":
        return Replace(model, case, proposals)
    return Delete(model, case) if removal == "delete" else MaskOut(model, case)


def check_removal(name: str) -> None:
    """Raise an error for a name that is not in `REMOVALS`."""
    check_name("removal", name, REMOVALS)


def require_removal(model: Model, removal: str, wanted_by: str) -> None:
    """Raise a CapabilityError if `model` cannot score texts with units removed like this."""
    if removal == "mask":
        require_attention_mask(model, f"{wanted_by} with removal 'mask'")


def count_passes(remover: Remover, removed: Mask) -> int:
    """The number of forward passes that `remover.score(removed)` takes."""
    return len(removed) if remover.is_random else len(different_rows(removed)[0])


def different_rows(removed: Mask) -> tuple[Mask, Ids]:
    """The different rows in the order in which they first occur, and the one that each row equals.

    >>> different_rows(np.array([[True, False], [True, True], [True, False]]))[1].tolist()
    [0, 1, 0]
    """
    numbers: dict[bytes, int] = {}
    row_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in removed], dtype=np.int64)
    return removed[np.unique(row_of, return_index=True)[1]], row_of


@dataclass(frozen=True)
class Delete:
    """Leaves out the tokens of removed units.

    An output unit of several tokens, such as a phrase, is never removed, because its own tokens are targets. If
    nothing of the prompt is left, its last token stays: a model must read something before it predicts.
    """

    model: Model
    case: Case
    is_random: bool = field(default=False, init=False)

    @property
    def free(self) -> Ids:
        sizes, units = np.diff(self.case.unit_starts), np.arange(len(self.case.units))
        is_phrase = (units >= len(self.case.input)) & (sizes > 1)
        return np.flatnonzero(~self.case.protected[:-1] & ~is_phrase[:-1])

    def score(self, removed: Mask, uniform: Floats | None = None) -> OutputScores:  # noqa: ARG002
        different, row_of = different_rows(removed)
        kept = ~_removed_tokens(self.case, self.free, different)  # [probes, length]
        prompt = int(self.case.unit_starts[len(self.case.input)])
        kept[~kept[:, :prompt].any(-1), prompt - 1] = True
        before = np.cumsum(kept, axis=-1, dtype=np.int64)[:, self.case.positions - 1]  # tokens kept before each target
        sequences = [self.case.ids[row] for row in kept]
        scores = score_ragged(self.model, sequences, before, self.case.targets)
        return self.case.output_scores(_select(scores, row_of))


@dataclass(frozen=True)
class MaskOut:
    """Hides removed units from attention.

    A prediction is read off the token before its target, which must be visible. The last unit of the prompt and all
    output units are therefore never removed. A case of a later target alone (`Case.for_target`) has the earlier
    output units in its prompt, so that all but the last can be removed.
    """

    model: Model
    case: Case
    is_random: bool = field(default=False, init=False)

    @property
    def free(self) -> Ids:
        return np.flatnonzero(~self.case.protected[: len(self.case.input) - 1])

    def score(self, removed: Mask, uniform: Floats | None = None) -> OutputScores:  # noqa: ARG002
        different, row_of = different_rows(removed)
        keep = ~_removed_tokens(self.case, self.free, different)
        model = require_attention_mask(self.model, "removal 'mask'")
        sequences = np.tile(self.case.ids, (len(keep), 1))
        scores = model.score_masked(sequences, keep, self.case.positions, self.case.targets)
        return self.case.output_scores(_select(scores, row_of))


@dataclass(frozen=True)
class Replace:
    """Replaces removed units by proposals; only units that have proposals can be removed."""

    model: Model
    case: Case
    proposals: Proposals
    is_random: bool = field(default=True, init=False)

    @property
    def free(self) -> Ids:
        return np.flatnonzero(self.proposals.replaceable[: len(self.case.units) - 1])

    def score(self, removed: Mask, uniform: Floats | None = None) -> OutputScores:
        assert uniform is not None, "replacement needs numbers that choose the candidates"
        columns = self.proposals.choose(uniform, self.free)
        sequences = self.proposals.apply(removed, columns, self.free)
        return self.case.score_outputs(self.model, sequences[:, : len(self.case.ids)])


@dataclass(frozen=True)
class Substitute:
    """Replaces removed units by texts of any length; only slots that have alternatives can be removed."""

    model: Model
    case: Case
    proposals: TextProposals
    is_random: bool = field(default=True, init=False)

    @property
    def free(self) -> Ids:
        return np.flatnonzero(self.proposals.replaceable[: len(self.case.units) - 1])

    def score(self, removed: Mask, uniform: Floats | None = None) -> OutputScores:
        assert uniform is not None, "replacement needs numbers that choose the candidates"
        columns = self.proposals.choose(uniform, self.free)
        length = len(self.case.ids)
        sequences = [
            text[: len(text) + length - len(self.proposals.original)] for text in self._texts(removed, columns)
        ]
        shift = np.array([len(text) for text in sequences]) - length
        before = self.case.positions + shift[:, None]
        return self.case.output_scores(score_ragged(self.model, sequences, before, self.case.targets))

    def _texts(self, removed: Mask, columns: Ids) -> list[Ids]:
        return self.proposals.substitute(removed, columns, self.free)


def _removed_tokens(case: Case, free: Ids, removed: Mask) -> Mask:
    """The tokens of the marked free units, [probes, length]."""
    units = np.zeros((len(removed), len(case.units)), dtype=np.bool_)
    units[:, free] = removed
    return units[:, case.unit_of]


def _select(scores: TargetScores, rows: Ids) -> TargetScores:
    return TargetScores(scores.logprob[rows], scores.rank[rows])
