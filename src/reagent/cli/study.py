"""`reagent study`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError, UnusedPartsError

if TYPE_CHECKING:
    from reagent.bench.engines import Engine
    from reagent.models.base import Model
    from reagent.studies.request import StudyRequest


def study(
    template: Annotated[
        Path, typer.Argument(metavar="TEMPLATE", help="A file with the prompt; slots are written {{ name }}.")
    ],
    inputs: Annotated[
        Path,
        typer.Argument(
            metavar="INPUTS",
            help="A .jsonl, .json, .csv or .parquet file with a value for each slot, and optionally `answer`.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="F.sqlite", help="Keep every number here; run again to resume.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="Whose log-probability is measured: answer (the expected one, field `answer`) or own (the model's). "
            "Default: answer if every input has one.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Effects between -X and X count as none, in nats. Default: 5 % of what the template is worth.",
        ),
    ] = None,
    alternatives: o.Alternatives = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also remove all pairs of parts, to find those that say the same.")
    ] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only the first N inputs.")] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", metavar="N", help="Longest own answer, in tokens (32).")
    ] = None,
    chat: Annotated[
        bool | None,
        typer.Option(
            "--chat/--plain", help="The prompt is a message to a chat model, or plain text. Default: as the model is."
        ),
    ] = None,
    model: o.ModelName = "smollm2",
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    revision: o.Revision = None,
    tokenizer: o.Tokenizer = None,
    cache: o.Cache = None,
    concurrency: o.Concurrency = None,
    rate: o.Rate = None,
    recover: o.Recover = False,
    server: o.ServerSettings = None,
    engine: Annotated[str, typer.Option("--engine", help="local: in this process; ray: on workers.")] = "local",
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="ray: how many workers; by default, GPUs or cores.")
    ] = None,
    address: Annotated[str | None, typer.Option(metavar="A", help="ray: the cluster to use; else one here.")] = None,
    json: o.Json = None,
    html: o.Html = None,
    fail_if_unused: Annotated[
        bool, typer.Option("--fail-if-unused", help="Exit with code 1 if a part of the template can go.")
    ] = False,
    max_cost: Annotated[
        int | None,
        typer.Option(
            "--max-cost", metavar="N", help="Exit with code 1, before any work, if the study reads more tokens."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the parts and about what it costs.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Study a prompt template: which of its parts matter over many inputs, and which can go?

    Example: reagent study template.md inputs.jsonl
    """
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import check_outputs, drop_none, parse_alternatives, server_options
    from reagent.cli.progress import run_progress_bar
    from reagent.studies.request import StudyRequest
    from reagent.studies.run import run

    request = StudyRequest.build(
        template,
        inputs,
        metric=metric,
        threshold=threshold,
        limit=limit,
        chat=chat,
        alternatives=parse_alternatives(alternatives),
        max_cost=max_cost,
        pairs=pairs,
        **drop_none(max_new_tokens=max_new_tokens),
    )
    check_outputs(json, html=html)
    if dry_run:
        typer.echo(_describe(request))
        return
    options = server_options(tokenizer, cache, concurrency, rate, recover, server)
    arguments = {"device": device, "dtype": dtype, "revision": revision}
    chosen, config = _engine(engine, workers, address, model, arguments, options, quiet)
    with run_progress_bar(f"studying {template.name}", quiet) as on_progress:
        result = run(request, config, out, chosen, on_progress)
    page = [] if html is None else [lambda: result.to_html(html)]
    shown = [] if quiet or json == "-" else [result.show]
    write_outputs(result, json, *page, *shown)
    if fail_if_unused and result.removable.parts:
        gone = ", ".join(result.parts[i].name for i in result.removable.parts)
        raise UnusedPartsError(
            f"these parts of {template.name!r} can go: {gone}; remove them, or give a lower --threshold"
        )


def _describe(request: "StudyRequest") -> str:
    passes, tokens = request.estimate()
    lines = [f"{part.kind}: {part.name}" for part in request.template.parts]
    return "\n".join([*lines, f"about {passes:,} forward passes that read {tokens:,} tokens"])


def _engine(
    name: str,
    workers: int | None,
    address: str | None,
    model: str,
    arguments: dict[str, Any],
    options: dict[str, Any],
    quiet: bool,
) -> "tuple[Engine, Any]":
    """The engine and the model that it runs; in this process the model is loaded here, with a spinner."""
    from reagent.bench.engines import make_engine
    from reagent.bench.suite import ModelConfig
    from reagent.cli.parsing import load_model
    from reagent.studies.run import local_engine
    from reagent.studies.worker import StudyWorker

    made = make_engine(name, workers, address, StudyWorker)
    if name == "local":
        loaded: Model = load_model(model, languages=None, quiet=quiet, server=options, **arguments)
        return local_engine(loaded), ModelConfig(str(loaded.info["id"]))
    if options:
        raise InputError(f"--{next(iter(options))} is for the engine 'local': leave it out, or use that engine")
    return made, ModelConfig(model, **arguments)
