"""A label in the terminal that fits into the width of its column."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from reagent.views.summary import NAME_LENGTH
from reagent.views.text import shorten

NAME_WIDTH = 12  # the minimum width of a long label, in cells


@dataclass(frozen=True)
class FittedLabel:
    """A label between a number and a mark; it shows its beginning and its end in the width that it gets."""

    text: str
    number: str = ""
    style: str = ""
    mark: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        room = max(1, options.max_width - len(self.number) - cell_len(self.mark))
        names = (shorten(self.text, length) for length in range(min(NAME_LENGTH, room), 0, -1))
        name = next((name for name in names if cell_len(name) <= room), "")
        yield Text.assemble(
            (self.number, "dim"), (name, self.style), (self.mark, "bold"), no_wrap=True, overflow="crop"
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = len(self.number) + cell_len(shorten(self.text, NAME_LENGTH) + self.mark)
        return Measurement(min(NAME_WIDTH, width), width)
