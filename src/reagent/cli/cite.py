"""`reagent cite`."""

from pathlib import Path
from typing import Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import FileError


def cite(
    question: Annotated[str, typer.Option("--question", metavar="TEXT", help="The question; - reads standard input.")],
    documents: Annotated[
        list[Path],
        typer.Option(
            "--documents",
            metavar="PATH",
            help="A .txt or .md file (one document), a .jsonl file (one for each line) or a folder; repeat for more.",
        ),
    ],
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH]...", help="Further documents, as after --documents.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="TEXT", help="Explain this answer. By default the model writes it."),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(metavar="F", help="A file with the prompt, which contains {documents} and {question} once each."),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", metavar="N", help="Longest answer of the model, in tokens (64).")
    ] = None,
    model: o.ModelName = "smollm2",
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    revision: o.Revision = None,
    languages: o.Languages = None,
    tokenizer: o.Tokenizer = None,
    cache: o.Cache = None,
    concurrency: o.Concurrency = None,
    rate: o.Rate = None,
    recover: o.Recover = False,
    server: o.ServerSettings = None,
    removal: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="How sentences are removed: delete, mask or replace. Default: delete."),
    ] = None,
    replacer: o.ReplacerName = "auto",
    probes: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most N probes. By default each sentence is removed alone and kept alone."),
    ] = None,
    control_tokens: o.ControlTokens = "keep",
    seed: o.Seed = 0,
    json: o.Json = None,
    html: o.Html = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="F", help="Write the answer with footnotes as Markdown.")
    ] = None,
    dry_run: o.DryRun = False,
    quiet: o.Quiet = False,
) -> None:
    """Answer a question about documents, and show which sentences the answer comes from.

    Example: reagent cite --question "When does the museum open?" --documents museum.txt town.md
    """
    from reagent.api.cite import MAX_NEW_TOKENS, CiteRequest, run
    from reagent.cli.dry_run import announce, count_requests, estimate
    from reagent.cli.notes import note_cache
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import check_outputs, drop_none, load_model, read_prompt, server_options
    from reagent.cli.progress import progress_bar
    from reagent.documents import load_documents

    request = CiteRequest.build(
        read_prompt(question, None),
        load_documents([*documents, *(more or [])]),
        answer=answer,
        max_new_tokens=MAX_NEW_TOKENS if max_new_tokens is None else max_new_tokens,
        removal=removal,
        replacer=replacer,
        probes=probes,
        seed=seed,
        control_tokens=control_tokens,
        **drop_none(template=None if template is None else _read_template(template)),
    )
    check_outputs(json, html=html, markdown=markdown)
    options = server_options(tokenizer, cache, concurrency, rate, recover, server)
    loaded = load_model(model, device, dtype, revision, languages, quiet, options)
    if dry_run:
        typer.echo(estimate(loaded, request))
        return
    announce(loaded, request, quiet)
    with progress_bar("citing", quiet, count_requests(loaded)) as on_progress:
        citations = run(loaded, request, on_progress)
    note_cache(loaded, quiet)
    page = [] if html is None else [lambda: citations.to_html(html)]
    notes = [] if markdown is None else [lambda: citations.to_markdown(markdown)]
    shown = [] if quiet or json == "-" else [citations.show]
    write_outputs(citations, json, *page, *notes, *shown)


def _read_template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").removesuffix("\n")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read the template {str(path)!r}: {getattr(error, 'strerror', error)}") from error
