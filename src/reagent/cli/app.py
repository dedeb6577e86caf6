"""The commands."""

from typing import Annotated

import typer

from reagent._version import __version__
from reagent.cli.bench import bench_app
from reagent.cli.catalog import datasets, methods, metrics, models_app, replacers
from reagent.cli.cite import cite
from reagent.cli.compare import compare
from reagent.cli.doctor import doctor
from reagent.cli.evaluate import evaluate
from reagent.cli.explain import explain, show
from reagent.cli.record import record
from reagent.cli.serve import serve
from reagent.cli.study import study
from reagent.cli.summarize import summarize

app = typer.Typer(
    name="reagent",
    help="Which parts of my prompt made this language model say that?",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reagent {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    pass


app.command()(explain)
app.command()(show)
app.command()(cite)
app.command()(compare)
app.command()(study)
app.command()(summarize)
app.command()(evaluate)
app.command()(record)
app.command()(serve)
app.command()(methods)
app.command()(replacers)
app.command()(metrics)
app.command()(datasets)
app.command()(doctor)
app.add_typer(models_app, name="models")
app.add_typer(bench_app, name="bench")
