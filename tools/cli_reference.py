"""Print docs/reference/cli.md: every command with its help and its options, as `--help` shows them.

python tools/cli_reference.py > docs/reference/cli.md
"""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from reagent.cli.app import app

HEAD = """# Command line

`reagent COMMAND --help` prints the same. [Options of `reagent explain`](../options.md) groups its options by purpose.
Exit codes: 0 done, 1 failed, 2 bad usage or input, 130 interrupted. `tools/cli_reference.py` writes this page.
"""


def main() -> None:
    print(render(), end="")


def render() -> str:
    return "\n".join([HEAD, *(describe(context) for context in walk(typer.main.get_command(app), "reagent"))])


def walk(command: Any, name: str, parent: Any = None) -> Iterator[Any]:
    """The contexts of a command and of all its subcommands."""
    context = command.context_class(command, info_name=name, parent=parent)
    yield context
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from walk(command.get_command(context, child), child, context)


def describe(context: Any) -> str:
    command = context.command
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return f"## `{context.command_path}`\n\n    {usage}\n\n{text}\n\n{options(context)}\n"


def options(context: Any) -> str:
    """Arguments, options and subcommands, in the order and the words of `--help`."""
    records = [record for param in context.command.get_params(context) if (record := param.get_help_record(context))]
    rows = [f"| `{cell(names)}` | {cell(text).replace('<', '&lt;')} |" for names, text in records]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def cell(text: str) -> str:
    """Text on one line, without the border of a cell."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
