"""`reagent compare`."""

from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError

DEFAULT = "reagent,occlusion,lime,integrated_gradients,attention"


def compare(
    prompt: o.Prompt = None,
    file: o.File = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Methods to compare, with a preset as reagent:paper. See: reagent methods. Or: all. By default "
            f"{DEFAULT}; with --with and no PROMPT, none.",
        ),
    ] = None,
    with_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="F.json",
            help="Also show this explanation, written by explain --json or by Inseq; several times for several files. "
            "Prompt and target are those of the first file, unless there is a PROMPT.",
        ),
    ] = None,
    target: o.Target = None,
    max_new_tokens: o.MaxNewTokens = None,
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
    score: o.Score = None,
    answers: o.Answers = None,
    temperature: o.Temperature = None,
    parts: o.Parts = None,
    max_requests: o.MaxRequests = None,
    replacer: o.ReplacerName = "auto",
    candidates: o.Candidates = None,
    masked_lm: o.MaskedLM = None,
    weighted: o.Weighted = None,
    unit: o.Unit = None,
    spans: o.Spans = None,
    marked: o.Marked = False,
    span: o.Phrase = None,
    contrast: o.Contrast = None,
    attribute_target: o.AttributeTarget = False,
    chat: o.Chat = False,
    system: o.System = None,
    messages: o.Messages = None,
    control_tokens: o.ControlTokens = "keep",
    seed: o.Seed = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="An option of one method, as lime.samples=100."),
    ] = None,
    json: o.Json = None,
    html: o.Html = None,
    latex: Annotated[Path | None, typer.Option("--latex", metavar="F", help="Write a table of heat maps.")] = None,
    token: o.OutputToken = None,
    quiet: o.Quiet = False,
) -> None:
    """Explain PROMPT by several methods and show them side by side.

    Example: reagent compare "My aunt moved to Japan. She rents a flat in the capital," --max-new-tokens 1
    """
    from reagent.api.compare import build_requests, run_all
    from reagent.cli.notes import note_cache, note_contrast
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import (
        QuestionOptions,
        check_outputs,
        load_model,
        replacer_arguments,
        server_options,
        text_options,
    )
    from reagent.cli.progress import progress_bar
    from reagent.comparison import Comparison
    from reagent.exchange.common_units import align
    from reagent.exchange.files import ExplanationFile
    from reagent.methods import list_methods

    sources = [ExplanationFile.read(path) for path in with_files or ()]
    if sources and prompt is None and file is None and messages is None:
        methods = methods or ""
        prompt, target = sources[0].question if methods else (sources[0].prompt, None)
    question = QuestionOptions(
        prompt, file, target, max_new_tokens, unit, spans, marked, None, span, contrast, chat, system, messages, token,
        seed, attribute_target, control_tokens=control_tokens,
    )  # fmt: skip
    every = [name for name, info in list_methods().items() if info.max_units is None]
    named = DEFAULT if methods is None else methods
    chosen = every if named == "all" else [name.strip() for name in named.split(",") if name.strip()]
    requests = {}
    if chosen or not sources:
        requests = build_requests(
            methods=chosen,
            options=_by_method(settings),
            **replacer_arguments(replacer, candidates, masked_lm, weighted),
            **question.arguments(),
        )
    check_outputs(json, html=html, latex=latex)
    options = server_options(tokenizer, cache, concurrency, rate, recover, server)
    options |= text_options(score, answers, temperature, parts, max_requests)
    loaded = load_model(model, device, dtype, revision, languages, quiet, options)
    with progress_bar("comparing", quiet) as on_progress:
        imported = [why for source in sources for why in source.explain(loaded)]
        own = run_all(loaded, requests, lambda _name, progress: on_progress(progress)) if requests else ()
        comparison = Comparison(align([*own, *imported]))
    note_contrast(comparison[0], contrast, quiet)
    note_cache(loaded, quiet)
    page = [] if html is None else [lambda: comparison.to_html(html)]
    table = [] if latex is None else [lambda: comparison.to_latex(latex, target=token)]
    shown = [] if quiet or json == "-" else [lambda: comparison.show(target=token)]
    write_outputs(comparison, json, *page, *table, *shown)


def _by_method(pairs: list[str] | None) -> dict[str, dict[str, Any]]:
    from reagent.cli.parsing import parse_settings

    options: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in parse_settings(pairs).items():
        method, dot, option = name.partition(".")
        if not dot:
            raise InputError(f"--set takes METHOD.NAME=VALUE here, as lime.samples=100, got {name!r}")
        options[method][option] = value
    return dict(options)
