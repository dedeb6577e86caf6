"""Explanations in files: of reagent, or of Inseq."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reagent.atomic_io import read_json
from reagent.comparison import Comparison
from reagent.errors import FileError, InputError
from reagent.exchange.attributions import Attributions
from reagent.exchange.inseq import attributions_of, is_inseq, read_inseq
from reagent.explanation import Explanation
from reagent.models.base import Model


@dataclass(frozen=True)
class ExplanationFile:
    """The explanations of a file; those of Inseq become explanations of a model only when it is given."""

    path: Path
    explanations: tuple[Explanation, ...] = ()
    inseq: Any = None

    @classmethod
    def read(cls, path: Path) -> "ExplanationFile":
        """Read an explanation, a comparison, or a file of Inseq."""
        data = read_json(path, "a file written by explain --json, or by Inseq")
        if is_inseq(data):
            return cls(path, inseq=read_inseq(path))
        try:
            several = isinstance(data, list)
            return cls(path, tuple(Comparison.from_dict(data)) if several else (Explanation.from_dict(data),))
        except FileError as error:
            raise FileError(f"{str(path)!r}: {error}") from error

    @property
    def model(self) -> dict[str, Any]:
        """What the file says about its model; empty if it says nothing."""
        if self.explanations:
            return dict(self.explanations[0].model)
        name = attributions_of(self.inseq).method.get("model")
        return {"id": name} if name else {}

    @property
    def prompt(self) -> str:
        return self._first.prompt

    @property
    def question(self) -> tuple[str, str]:
        """Prompt and output, as other methods can explain them."""
        if self.explanations and self.explanations[0].messages:
            raise InputError(f"{str(self.path)!r} explains a chat: other methods need its messages, not only its text")
        return self._first.prompt, self._first.completion or ""

    @property
    def _first(self) -> Explanation | Attributions:
        return self.explanations[0] if self.explanations else attributions_of(self.inseq)

    def explain(self, model: Model) -> Sequence[Explanation]:
        if self.explanations:
            return self.explanations
        try:
            return [attributions_of(self.inseq).explain(model)]
        except InputError as error:
            raise FileError(f"{str(self.path)!r}: {error}") from error
