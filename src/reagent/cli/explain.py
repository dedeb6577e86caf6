"""`reagent explain` and `reagent show`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError

if TYPE_CHECKING:
    from reagent.explanation import Explanation


def explain(
    prompt: o.Prompt = None,
    file: o.File = None,
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
    proxy: o.ProxyName = None,
    price: o.Price = None,
    method: o.MethodName = "reagent",
    preset: o.Preset = None,
    replacer: o.ReplacerName = "auto",
    candidates: o.Candidates = None,
    masked_lm: o.MaskedLM = None,
    weighted: o.Weighted = None,
    unit: o.Unit = None,
    spans: o.Spans = None,
    marked: o.Marked = False,
    levels: o.Levels = None,
    span: o.Phrase = None,
    contrast: o.Contrast = None,
    answer_span: o.AnswerSpan = None,
    check_traced: o.CheckTraced = None,
    attribute_target: o.AttributeTarget = False,
    what_if: o.WhatIf = False,
    no_screen: o.NoScreen = False,
    chat: o.Chat = False,
    system: o.System = None,
    messages: o.Messages = None,
    control_tokens: o.ControlTokens = "keep",
    alternatives: o.Alternatives = None,
    seed: o.Seed = 0,
    settings: o.Settings = None,
    probes: o.Probes = None,
    response: o.Response = None,
    removal: o.Removal = None,
    max_steps: o.MaxSteps = None,
    runs: o.Runs = None,
    ratio: o.Ratio = None,
    keep: o.Keep = None,
    top_k: o.TopK = None,
    ahead: o.Ahead = None,
    json: o.Json = None,
    html: o.Html = None,
    png: o.Png = None,
    token: o.OutputToken = None,
    dry_run: o.DryRun = False,
    quiet: o.Quiet = False,
) -> None:
    """Explain what a model says after PROMPT: the importance of every token, for every generated token.

    By default, tokens are deleted in random sets, alone and in groups, until the most important ones are sufficient.

    Example: reagent explain "My aunt moved to Japan. She rents a flat in the capital," --max-new-tokens 1
    """
    from reagent.api.check_traced import check_traced as check
    from reagent.api.proxy import explain_by_proxy
    from reagent.api.run import run
    from reagent.cli.dry_run import announce, count_requests, estimate, estimate_checks
    from reagent.cli.notes import note_cache, note_contrast
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import (
        QuestionOptions,
        check_outputs,
        drop_none,
        join_settings,
        load_model,
        parse_alternatives,
        parse_price,
        parse_settings,
        replacer_arguments,
        server_options,
        text_options,
    )
    from reagent.cli.progress import progress_bar, spinner
    from reagent.errors import InputError
    from reagent.request import ExplainRequest

    question = QuestionOptions(
        prompt, file, target, max_new_tokens, unit, spans, marked, levels, span, contrast, chat, system, messages,
        token, seed, attribute_target, answer_span, control_tokens,
    )  # fmt: skip
    if check_traced is not None and answer_span is None:
        raise InputError("--check-traced needs --answer-span: give the answer that is traced")
    named = drop_none(
        probes=probes,
        response=response,
        removal=removal,
        max_steps=max_steps,
        runs=runs,
        ratio=ratio,
        keep=int(keep) if keep is not None and keep >= 1 and keep.is_integer() else keep,
        top_k=top_k,
        ahead=ahead,
    )
    request = ExplainRequest.build(
        method=method,
        preset=preset,
        options=join_settings(parse_settings(settings), named),
        what_if=what_if,
        screen=not no_screen,
        alternatives=parse_alternatives(alternatives),
        **replacer_arguments(replacer, candidates, masked_lm, weighted),
        **question.arguments(),
    )
    check_outputs(json, html=html, png=png)
    options = server_options(tokenizer, cache, concurrency, rate, recover, server)
    options |= text_options(score, answers, temperature, parts, max_requests)
    prices = parse_price(price, dry_run)
    loaded = load_model(model, device, dtype, revision, languages, quiet, options)
    stand_in = None if proxy is None else load_model(proxy, device, dtype, None, None, quiet)
    if dry_run:
        typer.echo(estimate(loaded, request, prices) if stand_in is None else estimate_checks(loaded))
        return
    if stand_in is None:
        announce(loaded, request, quiet)
    with progress_bar("explaining", quiet, count_requests(loaded)) as on_progress:
        if stand_in is None:
            why = run(loaded, request, on_progress)
        else:
            why = explain_by_proxy(loaded, stand_in, request, on_progress)
    if check_traced is not None:
        with spinner("checking the trace", quiet):
            why = check(loaded, why, check_traced)
    note_contrast(why, contrast, quiet)
    note_cache(loaded, quiet)
    views = _views(why, html, png, token)
    shown = [] if quiet or json == "-" else [lambda: why.show(target=token)]
    if token is not None:
        views.insert(0, lambda: why.context(token))  # raises for a number that does not exist
    write_outputs(why, json, *views, *shown)


def show(
    file: Annotated[
        Path, typer.Argument(metavar="F.json", help="A result written by --json: of explain, cite, study or summarize.")
    ],
    html: o.Html = None,
    png: o.Png = None,
    token: o.OutputToken = None,
    answer_span: o.AnswerSpan = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only write the requested files.")] = False,
) -> None:
    """Show a saved explanation, or saved citations, a study or a summary."""
    from reagent.cli.parsing import check_outputs, kind_of
    from reagent.explanation import load

    check_outputs(None, html=html, png=png)
    if (kind := kind_of(file)) in _OTHER_KINDS:
        _show_other(kind, file, html, quiet, {"--png": png, "--token": token, "--answer-span": answer_span})
        return
    why = load(file)
    why = why if answer_span is None else why.traced(answer_span)
    for write in _views(why, html, png, token):
        write()
    if not quiet:
        why.show(target=token)


_OTHER_KINDS = {  # results that `show` prints too: where their classes are
    "citations": "reagent.citations:Citations",
    "study": "reagent.prompt_study:Study",
    "summary": "reagent.data_summary:Summary",
}


def _show_other(kind: str, file: Path, html: Path | None, quiet: bool, others: dict[str, object]) -> None:
    module, _, name = _OTHER_KINDS[kind].partition(":")
    result = getattr(import_module(module), name).load(file)
    for flag, value in others.items():
        if value is not None:
            has = "citations" if kind == "citations" else f"a {kind}"
            raise InputError(f"{flag} is for explanations, and {str(file)!r} has {has}: leave it out, or use --html")
    if html is not None:
        result.to_html(html)
    if not quiet:
        result.show()


def _views(why: "Explanation", html: Path | None, png: Path | None, token: int | None) -> list[Callable[[], object]]:
    """Functions that write the requested files."""
    page = [] if html is None else [lambda: why.to_html(html)]
    plot = [] if png is None else [lambda: why.to_png(png, target=token)]
    return [*page, *plot]
