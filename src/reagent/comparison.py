"""Comparison: explanations of one output by several methods, side by side.

It is a sequence of Explanations. Its JSON form is a list of theirs.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from reagent.atomic_io import atomic_write, read_json
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, init=False)
class Comparison(Sequence[Explanation]):
    """Explanations of one output by several methods.

    The terminal, HTML and LaTeX views need explanations with the same prompt, output, units and target.
    The other methods accept any explanations.
    """

    explanations: tuple[Explanation, ...]

    def __init__(self, explanations: Iterable[Explanation]) -> None:
        object.__setattr__(self, "explanations", tuple(explanations))
        if not self.explanations:
            raise InputError("there is nothing to compare: give at least one explanation")

    @property
    def names(self) -> tuple[str, ...]:
        """A short name for each explanation: its method and, where needed, its replacer or a number."""
        from reagent.views.comparison import method_names

        return tuple(method_names(self.explanations))

    def __len__(self) -> int:
        return len(self.explanations)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Explanation, ...]: ...
    def __getitem__(self, index: int | slice) -> Explanation | tuple[Explanation, ...]:
        return self.explanations[index]

    # --- files ---

    def to_dict(self) -> list[dict[str, Any]]:
        """The JSON form: a list with the JSON form of each explanation."""
        return [why.to_dict() for why in self.explanations]

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file atomically."""
        return atomic_write(path, self.to_json() + "\n")

    @classmethod
    def from_dict(cls, data: Any) -> "Comparison":
        """The reverse of `to_dict`; raises a FileError if an explanation is not complete."""
        if not isinstance(data, list) or not data:
            raise FileError("not a comparison: give a list of explanations, as written by Comparison.save")
        return cls(Explanation.from_dict(entry) for entry in data)

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """Read a comparison that was saved as JSON."""
        data = read_json(path, "a file written by Comparison.save")
        try:
            return cls.from_dict(data)
        except FileError as error:
            raise FileError(f"{str(path)!r}: {error}") from error

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self, target: int | None = None) -> None:
        """Print to the terminal: output token `target`, or the requested one, or the mean over all."""
        from reagent.views.comparison import show

        show(self, target)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if given."""
        from reagent.views.comparison import render_page

        return _write(render_page(self), path)

    def to_latex(self, path: str | Path | None = None, target: int | None = None) -> str:
        """Return a LaTeX table with a shaded text for each method, and write it to `path` if given."""
        from reagent.views.comparison import render_latex

        return _write(render_latex(self, target), path)

    def to_frame(self) -> "pandas.DataFrame":
        """Make a table with a row for each method, each output token and each unit of its context."""
        from reagent.views.dataframe import comparison_to_frame

        return comparison_to_frame(self)

    def _repr_html_(self) -> str | None:
        """Render for a notebook; None, so that it shows the `repr`, where the views cannot show the explanations."""
        from reagent.views.comparison import render_fragment

        try:
            return render_fragment(self)
        except InputError:
            return None

    def __repr__(self) -> str:
        first = self.explanations[0]
        return f"<Comparison of {first.completion!r} on {first.model.get('id')}: {', '.join(self.names)}>"


def _write(text: str, path: str | Path | None) -> str:
    if path is not None:
        atomic_write(path, text)
    return text
