"""`reagent evaluate`: how faithful saved explanations are."""

from pathlib import Path
from typing import Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="F.json…",
            help="An explanation written by explain --json, or a file of Inseq. Several of one text give one table.",
        ),
    ],
    model: Annotated[str | None, typer.Option(metavar="M", help="The model; by default the explained one.")] = None,
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
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="soft_ns, soft_nc, pi_soft_ns, pi_soft_nc, comprehensiveness, sufficiency, lds, ante, no_d, or those "
            "of installed packages (see: reagent metrics). By default all built-in ones that need no annotation and "
            "that the model allows.",
        ),
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="F", help="Write the numbers as JSON; - is standard output.")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(metavar="N", help="Perturbed inputs for each number; by default until the error is 0.01."),
    ] = None,
    stride: Annotated[int, typer.Option(metavar="N", help="Measure every N-th of several output tokens.")] = 5,
    pi: Annotated[
        str, typer.Option(metavar="A,B,…", help="Share of selected elements; the first is the number, all are a curve.")
    ] = "0.3",
    probes: Annotated[
        int, typer.Option(metavar="N", help="lds: the number of random removals, for each share and removal.")
    ] = 128,
    ratio: Annotated[
        str, typer.Option(metavar="A,B,…", help="lds: the share of units that are removed; one number for each.")
    ] = "0.1",
    removal: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="comprehensiveness, sufficiency, lds: replace, delete or mask units; one number for each.",
        ),
    ] = "replace",
    replacer: Annotated[str, typer.Option(help="The source of replacements. See: reagent replacers.")] = "auto",
    antecedent: Annotated[
        str | None, typer.Option(metavar="TEXT", help="ante: the part of the prompt that the answer depends on.")
    ] = None,
    distractor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="no_d: the part of the prompt that is unrelated to it.")
    ] = None,
    rationale: Annotated[
        int | None, typer.Option(metavar="N", help="ante, no_d: the number of units in the rationale (5).")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only write the requested file.")] = False,
) -> None:
    """Measure how faithful saved explanations are to their model."""
    from reagent.api.evaluate import evaluate_together
    from reagent.atomic_io import check_writable
    from reagent.cli.notes import note_cache
    from reagent.cli.outputs import write_outputs
    from reagent.cli.parsing import load_model, server_options
    from reagent.cli.progress import progress_bar
    from reagent.evaluation import Evaluations
    from reagent.exchange.common_units import align
    from reagent.exchange.files import ExplanationFile
    from reagent.metrics.config import EvaluationConfig
    from reagent.metrics.rationale import Annotation

    sources = [ExplanationFile.read(file) for file in files]
    annotation = None
    if antecedent is not None or distractor is not None:
        annotation = Annotation.of_texts(sources[0].prompt, antecedent, distractor)
    config = EvaluationConfig(
        metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
        annotation=annotation,
        stride=stride,
        draws=draws,
        pi=_split_shares("--pi", pi),
        probes=probes,
        ratio=_split_shares("--ratio", ratio),
        removal=[name.strip() for name in removal.split(",")],
        rationale=rationale,
        replacer=replacer,
        seed=seed,
    )
    if json not in (None, "-"):
        check_writable(str(json))
    explained = sources[0].model
    name = model or str(explained.get("id") or "")
    if not name:
        raise InputError(f"{str(files[0])!r} does not name the model that it explains: give one with --model")
    options = server_options(tokenizer, cache, concurrency, rate, recover, server)
    if model is None:
        languages = languages or ",".join(explained.get("languages") or ()) or None
    loaded = load_model(name, device, dtype, revision, languages, quiet, options)
    explanations = align([why for source in sources for why in source.explain(loaded)])
    with progress_bar("evaluating", quiet) as on_progress:
        evaluations = evaluate_together(loaded, explanations, config, on_progress)
    note_cache(loaded, quiet)
    result = evaluations[0] if len(evaluations) == 1 else Evaluations(tuple(evaluations))
    write_outputs(result, json, *([] if quiet or json == "-" else [result.show]))


def _split_shares(flag: str, text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError as error:
        raise InputError(f"{flag} takes shares between 0 and 1 with commas between them, got {text!r}") from error
