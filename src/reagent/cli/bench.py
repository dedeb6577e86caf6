"""`reagent bench`: run a suite, explain prompts in bulk, report."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError

if TYPE_CHECKING:
    from reagent.bench.runner import RunProgress, RunSelection
    from reagent.bench.suite import Suite

bench_app = typer.Typer(
    help="Measure methods on datasets, explain many prompts, and make tables and figures of the results.",
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option("--out", metavar="F.sqlite", help="Results; run again to resume.")]
EngineName = Annotated[str, typer.Option("--engine", help="local: in this process; ray: on workers.")]
Workers = Annotated[int | None, typer.Option(metavar="N", help="ray: how many workers; by default, GPUs or cores.")]
Address = Annotated[
    str | None, typer.Option(metavar="A", help="ray: the cluster to use, as auto or ray://host:10001; else one here.")
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Only N examples of each dataset.")]
Shard = Annotated[
    str | None, typer.Option(metavar="i/n", help="Only the i-th of n parts, as 1/2; merge them with bench merge.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Also repeat failed cells.")]
BatchSize = Annotated[int | None, typer.Option(metavar="N", help="Tokens computed at once (2048).")]


@bench_app.command()
def run(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="A suite by name (see: bench suites), or a .toml file.")
    ],
    out: Out,
    engine: EngineName = "local",
    workers: Workers = None,
    address: Address = None,
    limit: Limit = None,
    shard: Shard = None,
    dataset: Annotated[
        list[str] | None, typer.Option(metavar="D", help="Only this dataset of the suite; repeat for several.")
    ] = None,
    retry_failed: RetryFailed = False,
    model: Annotated[
        list[str] | None, typer.Option(metavar="M", help="These models in place of the suite's; repeat for several.")
    ] = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    batch_size: BatchSize = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate the cost.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Run a suite: explain every example by every method, and measure. A run that was interrupted continues.

    Example: reagent bench run quick --out quick.sqlite
    """
    from reagent.bench.runner import missing_jobs
    from reagent.bench.suite import load_suite

    chosen = _with_models(load_suite(suite), model, device, dtype, batch_size)
    selection = replace(_selection(limit, shard, retry_failed), datasets=tuple(dataset or ()))
    if dry_run:
        typer.echo(_estimate(chosen, missing_jobs(chosen, selection, out)))
        return
    if chosen.needs and not quiet:
        typer.echo(f"{chosen.name} needs {chosen.needs}; --dry-run prints the cost", err=True)
    _run(chosen, out, selection, engine, workers, address, quiet)
    if not quiet:
        typer.echo(f"next: reagent bench report {out} --out {out.with_suffix('')}", err=True)


@bench_app.command()
def explain(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Prompts: one per line, or JSONL, CSV, Parquet with prompt and target."),
    ],
    out: Out,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="F.jsonl", help="Also write the explanations, one per line.")
    ] = None,
    model: o.ModelName = "smollm2",
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    batch_size: BatchSize = None,
    method: o.MethodName = "reagent",
    preset: o.Preset = None,
    settings: o.Settings = None,
    replacer: o.ReplacerName = "auto",
    candidates: o.Candidates = None,
    masked_lm: o.MaskedLM = None,
    weighted: o.Weighted = None,
    max_new_tokens: o.MaxNewTokens = None,
    stride: Annotated[int | None, typer.Option(metavar="N", help="Explain every N-th output token only.")] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Also measure these, as in reagent evaluate.")
    ] = None,
    seed: o.Seed = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    address: Address = None,
    limit: Limit = None,
    shard: Shard = None,
    retry_failed: RetryFailed = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Explain every prompt of a file; resumable.

    Example: reagent bench explain prompts.txt --out prompts.sqlite --json prompts.jsonl
    """
    from reagent.atomic_io import check_writable
    from reagent.bench.export import write_jsonl
    from reagent.bench.suite import DatasetConfig, MethodConfig, ModelConfig, Suite, check
    from reagent.cli.parsing import parse_settings, replacer_arguments

    data = DatasetConfig(file, max_new_tokens=max_new_tokens, stride=stride)
    entry = MethodConfig(
        method,
        method,
        preset,
        parse_settings(settings),
        **replacer_arguments(replacer, candidates, masked_lm, weighted),
    )
    chosen = Suite(
        name=Path(file).name,
        kind="prompts",
        summary=f"the prompts of {Path(file).name}",
        models=(ModelConfig(model, dtype=dtype, device=device, batch_size=batch_size),),
        datasets=(data,),
        methods=(entry,),
        metrics=() if metrics is None else tuple(name.strip() for name in metrics.split(",")),
        seeds=(seed,),
    )
    check(chosen)
    if json is not None:
        check_writable(json)
    _run(chosen, out, _selection(limit, shard, retry_failed), engine, workers, address, quiet)
    if json is not None:
        write_jsonl(out, json)


@bench_app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="F.sqlite", help="Results of bench run.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder for the report.")],
) -> None:
    """Make tables and figures of the results: index.html, Markdown, LaTeX, CSV, Parquet, PNG and SVG."""
    from reagent.bench.store import Store
    from reagent.report import write_report
    from reagent.report.load import describe_unfinished

    with Store.open(file) as store:
        unfinished = describe_unfinished(len(store.states()), store.facts())
    written = write_report(file, out)
    if unfinished:
        typer.echo(f"{unfinished} Run the suite again to continue it.", err=True)
    typer.echo(f"wrote {len(written)} files; open {written[0]}")


@bench_app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="F.sqlite…", help="Results of shards of one suite.")],
    out: Out,
    without_texts: Annotated[
        bool, typer.Option("--without-texts", help="Write numbers only: no prompts, outputs or tokens.")
    ] = False,
) -> None:
    """Merge the results of shards into one file."""
    from reagent.bench.export import merge as join

    typer.echo(f"{join(files, out, texts=not without_texts)} cells in {out}")


@bench_app.command()
def suites(
    name: Annotated[str | None, typer.Argument(metavar="[SUITE]", help="Print this suite as TOML.")] = None,
) -> None:
    """List the suites, or print one to change it."""
    from reagent.bench.suite import load_suite
    from reagent.bench.suite import suites as all_suites

    if name is not None:
        typer.echo(load_suite(name).text, nl=False)
        return
    for one in all_suites():
        typer.echo(f"{one}: {load_suite(one).summary}")
    typer.echo("Also: a .toml file; print one of these with `reagent bench suites NAME` and change it.")


# --- options ---


def _selection(limit: int | None, shard: str | None, retry_failed: bool) -> "RunSelection":
    from reagent.bench.runner import RunSelection

    if shard is None:
        return RunSelection(limit, retry_failed=retry_failed)
    part, slash, parts = shard.partition("/")
    if not (slash and part.isdigit() and parts.isdigit()):
        raise InputError(f"--shard takes i/n, as 1/2, got {shard!r}")
    return RunSelection(limit, (int(part), int(parts)), retry_failed)


def _with_models(suite: "Suite", names: list[str] | None, device: str, dtype: str, batch_size: int | None) -> "Suite":
    """With the given models, device, dtype and batch size where they are given."""
    from reagent.bench.suite import ModelConfig, check

    models = suite.models if not names else tuple(ModelConfig(name) for name in names)
    changes: dict[str, Any] = {} if device == "auto" else {"device": device}
    changes |= {} if dtype == "auto" else {"dtype": dtype}
    changes |= {} if batch_size is None else {"batch_size": batch_size}
    changed = replace(suite, models=tuple(replace(model, **changes) for model in models))
    check(changed)
    return changed


def _run(
    suite: "Suite",
    out: Path,
    selection: "RunSelection",
    engine: str,
    workers: int | None,
    address: str | None,
    quiet: bool,
) -> None:
    from reagent.bench.engines import make_engine
    from reagent.bench.runner import run
    from reagent.cli.progress import run_progress_bar

    chosen = make_engine(engine, workers, address)
    with run_progress_bar(f"running {suite.name}", quiet) as on_progress:
        progress = run(suite, out, chosen, selection, on_progress)
    if not quiet:
        typer.echo("\n".join([*progress.notes, _summary(progress, out)]), err=True)


def _summary(progress: "RunProgress", out: Path) -> str:
    if not progress.done:
        return f"{out} is complete: nothing to do; all {progress.stored:,} cells are from the cache (earlier runs)"
    failed = f", {progress.failed} of them failed (see reagent bench report)" if progress.failed else ""
    stored = f"; {progress.stored:,} are from the cache (earlier runs)" if progress.stored else ""
    reused = f"; {progress.stored_explanations:,} explanations of the new cells are from the cache"
    return f"{progress.done} cells are new in {out}{failed}{stored}{reused if progress.stored_explanations else ''}"


def _estimate(suite: "Suite", jobs: dict[str, Any]) -> str:
    """The estimated cost of a run, one line for each model."""
    from reagent.bench.estimate import estimate_jobs, hours_on_gpu, measure_speed

    lines = [f"{suite.name}: {suite.summary}"] + ([f"needs {suite.needs}"] if suite.needs else [])
    for model in suite.models:
        work, cells = estimate_jobs(jobs[model.id]), sum(len(job.cells) for job in jobs[model.id])
        line = f"{model.id}: at most {len(jobs[model.id])} jobs, {cells} cells, about {work.passes:,.0f} forward passes"
        if model.parameters:
            line += f", about {hours_on_gpu(model.parameters, work.tokens):,.1f} hours on a large GPU"
        elif jobs[model.id] and (tokens_per_second := measure_speed(model)):
            line += f", about {work.tokens / tokens_per_second / 60:,.0f} minutes here"
        lines.append(line)
    return "\n".join(lines)
