"""`reagent summarize`."""

from pathlib import Path
from typing import Annotated

import typer

from reagent.cli import arguments as o


def summarize(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Explanations: results of `reagent bench explain`, .json of `reagent explain`, or .jsonl.",
        ),
    ],
    unit: Annotated[str, typer.Option("--unit", help="word, sentence or paragraph.")] = "word",
    least: Annotated[int, typer.Option("--least", metavar="N", help="Leave out words in fewer than N prompts.")] = 2,
    examples: Annotated[int, typer.Option("--examples", metavar="N", help="Examples of each word.")] = 3,
    json: o.Json = None,
    html: o.Html = None,
    quiet: o.Quiet = False,
) -> None:
    """Summarize many explanations: which words matter on average, with examples.

    Example: reagent bench explain prompts.txt --out mine.sqlite; reagent summarize mine.sqlite
    """
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import check_outputs
    from reagent.studies.summarize import summarize as run

    check_outputs(json, html=html)
    summary = run(files, unit, least, examples)
    page = [] if html is None else [lambda: summary.to_html(html)]
    shown = [] if quiet or json == "-" else [summary.show]
    write_outputs(summary, json, *page, *shown)
