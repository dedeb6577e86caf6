"""Commands that list what there is."""

from typing import Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import UnknownNameError

models_app = typer.Typer(
    help="List the known models, fetch one ahead of time, or ask what a server can do.", rich_markup_mode=None
)


def methods() -> None:
    """List the attribution methods, their presets and options, what they need from a model and what they cost."""
    from reagent.methods import find_method, method_names

    for name in method_names():
        entry = find_method(name)
        typer.echo(f"{name}: {entry.summary}")
        typer.echo(f"    needs: {entry.needs}; forward passes: {entry.cost}")
        for preset, (settings, summary) in entry.presets.items():
            values = ", ".join(f"{key}={value}" for key, value in settings.info.items())
            typer.echo(f"    --preset {preset}: {summary}" if len(entry.presets) > 1 else f"    {summary}")
            if values:
                typer.echo(f"        {values}")


def replacers() -> None:
    """List what may stand in a token's place."""
    from reagent.replacers import REPLACERS, automatic

    for name, (settings, summary) in REPLACERS.items():
        values = ", ".join(f"{key}={value}" for key, value in settings.info.items() if key != "id")
        typer.echo(f"{name}: {summary} ({values})")
    typer.echo(f"auto: the best one at hand, here {automatic()}")


def datasets() -> None:
    """List the data sets: what is bundled, of what size and licence, and where the whole of it is."""
    from reagent.data import dataset_names, find_dataset

    for name in dataset_names():
        entry = find_dataset(name)
        assert entry is not None
        bundled = entry.load()
        words = [len(example.prompt.split()) for example in bundled.examples]
        groups = len({example.group for example in bundled.examples})
        inside = f" in {groups} relations" if groups > 1 else ""
        size = f"{len(words):,} examples{inside}, {sum(words) / len(words):.0f} words each"
        typer.echo(f"{name}: {entry.summary}")
        typer.echo(f"    bundled: {size}; {entry.licence}")
        typer.echo(f"    from: {entry.source}")
        if entry.hub:
            typer.echo(f"    on the hub: {entry.hub}")
    typer.echo("Also: files of prompts, one per line, or .jsonl, .csv, .parquet with prompt and, where wanted, target.")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the known models and what is cached."""
    if context.invoked_subcommand is not None:
        return
    from reagent.models import bundled

    for entry in bundled.status():
        typer.echo(f"{entry.name}: {entry.description} ({entry.licence})")
        if entry.cached:
            typer.echo(f"    cached: {entry.folder} ({entry.bytes / 1e6:.0f} MB)")
        else:
            typer.echo(f"    not cached: fetched on first use, or now with `reagent models pull {entry.name}`")
    typer.echo("Also: hub ids and folders of causal language models for transformers, .gguf files, and servers by URL.")


@models_app.command()
def pull(name: Annotated[str, typer.Argument(metavar="NAME", help="An embedded model, as smollm2.")]) -> None:
    """Fetch a model now, so that later runs need no network."""
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
    """Find out what a server can do, with a few small requests."""
    from reagent.cli.parsing import serving
    from reagent.models.http import Connection
    from reagent.models.http.inspecting import inspect
    from reagent.validation import with_options

    options = serving(tokenizer, None, None, None, False, server)
    rows = inspect(url, with_options(Connection(), options, "a model at a URL"))
    width = max(len(what) for what, _ in rows)
    for what, answer in rows:
        typer.echo(f"{what:<{width}}  {answer}")
