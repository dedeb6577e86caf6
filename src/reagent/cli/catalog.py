"""Commands that list methods, replacers, datasets and models."""

from typing import Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import UnknownNameError

models_app = typer.Typer(
    help="List the known models, fetch one in advance, or inspect a server.", rich_markup_mode=None
)


def methods() -> None:
    """List the attribution methods, their presets and options, what they need from a model and what they cost."""
    from reagent.methods import list_methods

    for name, entry in list_methods().items():
        typer.echo(f"{name}: {entry.summary}")
        typer.echo(f"    needs: {entry.needs}; forward passes: {entry.cost}")
        for preset, (settings, summary) in entry.presets.items():
            values = ", ".join(f"{key}={value}" for key, value in settings.info.items())
            typer.echo(f"    --preset {preset}: {summary}" if len(entry.presets) > 1 else f"    {summary}")
            if values:
                typer.echo(f"        {values}")


def replacers() -> None:
    """List the sources of replacements."""
    from reagent.replacers import choose_automatic, list_replacers

    for name, entry in list_replacers().items():
        values = ", ".join(f"{key}={value}" for key, value in entry.replacer.info.items() if key != "id")
        typer.echo(f"{name}: {entry.summary} ({values})")
    typer.echo(f"auto: the best available one, here {choose_automatic()}")


def metrics() -> None:
    """List the metrics: what they measure, what they need and what they do not detect."""
    from reagent.metrics import list_metrics

    for name, metric in list_metrics().items():
        better = "higher" if metric.higher_is_better else "lower"
        typer.echo(f"{name}: {metric.summary} ({better} is better)")
        typer.echo(f"    needs: {metric.needs}; does not detect: {metric.blind_to}")


def datasets() -> None:
    """List the datasets: bundled samples with size and licence, and the source of the complete data."""
    from reagent.data import list_datasets

    for name, entry in list_datasets().items():
        bundled = entry.load()
        words = [len(example.prompt.split()) for example in bundled.examples]
        groups = len({example.group for example in bundled.examples})
        inside = f" in {groups} groups" if groups > 1 else ""
        size = f"{len(words):,} examples{inside}, {sum(words) / len(words):.0f} words each"
        typer.echo(f"{name}: {entry.summary}")
        typer.echo(f"    bundled: {size}; {entry.licence}")
        typer.echo(f"    from: {entry.source}")
        if entry.hub:
            typer.echo(f"    on the hub: {entry.hub}")
    typer.echo("Also: files of prompts, one per line, or .jsonl, .csv, .parquet with prompt and, optionally, target.")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the known models and what is cached."""
    if context.invoked_subcommand is not None:
        return
    from reagent.models import bundled
    from reagent.plugins import plugin_names

    for entry in bundled.list_models():
        typer.echo(f"{entry.name}: {entry.description} ({entry.licence})")
        if entry.cached:
            typer.echo(f"    cached: {entry.folder} ({entry.bytes / 1e6:.0f} MB)")
        else:
            typer.echo(f"    not cached: fetched on first use, or now with `reagent models pull {entry.name}`")
    for name in plugin_names("models"):
        typer.echo(f"{name}: from an installed package")
    typer.echo(
        "Also: hub ids and folders of causal language models and encoder–decoders for transformers, .gguf files, and "
        "servers by URL."
    )


@models_app.command()
def pull(name: Annotated[str, typer.Argument(metavar="NAME", help="An embedded model, as smollm2.")]) -> None:
    """Fetch a model in advance, so that later runs need no network."""
    from reagent.models import bundled

    if name not in bundled.MODELS:
        raise UnknownNameError("embedded model", name, bundled.MODELS)
    typer.echo(f"{name} is ready in {bundled.fetch(name)}")


@models_app.command()
def inspect(
    url: Annotated[str, typer.Argument(metavar="URL[#MODEL]", help="An OpenAI-compatible server.")],
    tokenizer: o.Tokenizer = None,
    server: o.ServerSettings = None,
) -> None:
    """Find the capabilities of a server with a few small requests."""
    from reagent.cli.parsing import server_options
    from reagent.models.http import ServerOptions
    from reagent.models.http.capabilities import inspect_server
    from reagent.validation import with_options

    options = server_options(tokenizer, None, None, None, False, server)
    rows = inspect_server(url, with_options(ServerOptions(), options, "a model at a URL"))
    width = max(len(what) for what, _ in rows)
    for what, answer in rows:
        typer.echo(f"{what:<{width}}  {answer}")
