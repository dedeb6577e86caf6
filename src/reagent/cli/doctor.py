"""`reagent doctor`."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reagent.diagnosis import Check

MARKS = {"ok": "✓", "missing": "–", "broken": "✗"}
STYLES = {"ok": "green", "missing": "yellow", "broken": "bold red", "advice": ""}


def doctor(
    json: Annotated[
        str | None, typer.Option("--json", metavar="F", help="Write JSON; - writes only JSON to standard output.")
    ] = None,
) -> None:
    """Show versions, devices, the cache, the models that are found, and what is missing, with one line of advice each.

    The exit code is 1 if something that is needed does not work. Something optional that is missing has the mark –.
    """
    from json import dumps

    from reagent.atomic_io import atomic_write
    from reagent.cli.parsing import check_outputs
    from reagent.cli.progress import spinner
    from reagent.diagnosis import diagnose

    check_outputs(json)
    with spinner("looking at packages, devices, cache and models", quiet=json == "-"):
        found = diagnose()
    text = dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if json == "-":
        typer.echo(text, nl=False)
    else:
        print_sections(found.sections)
        if json is not None:
            atomic_write(json, text)
    if found.broken:
        raise typer.Exit(1)


def print_sections(sections: Mapping[str, Sequence["Check"]]) -> None:
    """One line for each check, and its advice below it; packages that are fine are one paragraph."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    columns = console.width if console.is_terminal else 10**6  # a file or an issue wraps lines by itself
    for title, checks in sections.items():
        if checks:
            console.print(Text(title, style="bold"))
        for line, status in format_checks(title, checks, columns):
            text = Text(line)
            text.stylize(STYLES[status], 2, 3)  # the mark
            console.print(text)


def format_checks(title: str, checks: Sequence["Check"], columns: int) -> Iterator[tuple[str, str]]:
    """The lines of a section, each with the status that its mark has."""
    shown = [check for check in checks if title != "packages" or check.status != "ok"]
    if len(shown) < len(checks):
        fine = ", ".join(f"{check.name} {check.found}" for check in checks if check.status == "ok")
        yield fill(fine, columns, initial_indent=f"  {MARKS['ok']} ", subsequent_indent="    "), "ok"
    width = max((len(check.name) for check in shown), default=0)
    for check in shown:
        start = f"  {MARKS[check.status]} {check.name:<{width}}  "
        yield fill(check.found, columns, initial_indent=start, subsequent_indent=" " * len(start)), check.status
        if check.advice:
            yield fill(check.advice, columns, initial_indent="      → ", subsequent_indent="        "), "advice"
