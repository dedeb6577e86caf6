"""`reagent record`: a statement of record about a saved explanation."""

from pathlib import Path
from typing import Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError


def record(
    file: Annotated[
        Path, typer.Argument(metavar="F.json", help="An explanation written by explain --json; to verify, a record.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that the record F.json is as it was written.")
    ] = False,
    explanation: Annotated[
        Path | None, typer.Option(metavar="W.json", help="--verify: and that it is about this explanation.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="M", help="The model; by default the explained one.")] = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    revision: o.Revision = None,
    json: o.Json = None,
    html: o.Html = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="F", help="Write a page of Markdown.")] = None,
    quiet: o.Quiet = False,
) -> None:
    """Make a statement of record about an explanation, for those who must be able to check it.

    It runs the method again with the next seed, and hashes the files of the model.
    """
    from reagent.api.record import record as make_record
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import check_outputs, load_model
    from reagent.cli.progress import progress_bar
    from reagent.explanation import load
    from reagent.statement import Record

    if verify:
        saved = Record.load(file)
        saved.verify(None if explanation is None else load(explanation))
        typer.echo(f"The record is as it was written: {saved.sha256}")
        return
    if explanation is not None:
        raise InputError("--explanation is for --verify: add it, or leave the explanation out")
    why = load(file)
    check_outputs(json, html=html, markdown=markdown)
    name = model or str(why.model.get("id") or "")
    languages = None if model else ",".join(why.model.get("languages") or ()) or None
    loaded = load_model(name, device, dtype, revision, languages, quiet)
    with progress_bar("explaining again", quiet) as on_progress:
        made = make_record(loaded, why, on_progress=on_progress)
    page = [] if html is None else [lambda: made.to_html(html)]
    text = [] if markdown is None else [lambda: made.to_markdown(markdown)]
    shown = [] if quiet or json == "-" else [made.show]
    write_outputs(made, json, *page, *text, *shown)
