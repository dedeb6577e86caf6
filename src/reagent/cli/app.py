"""The commands and their options."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reagent._version import __version__
from reagent.errors import FileError, InputError, UnknownNameError

if TYPE_CHECKING:
    from reagent.explanation import Explanation

app = typer.Typer(
    name="reagent",
    help="Which parts of my prompt made this language model say that?",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="List the known models, or fetch one ahead of time.", rich_markup_mode=None)
app.add_typer(models_app, name="models")

HtmlOption = Annotated[Path | None, typer.Option("--html", metavar="F", help="Write one self-contained HTML page.")]
PngOption = Annotated[Path | None, typer.Option("--png", metavar="F", help="Write a plot.")]
TokenOption = Annotated[
    int | None,
    typer.Option("--token", metavar="N", help="Show output token N in full, numbered as in the overview (from 0)."),
]


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


@app.command()
def explain(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The prompt; - reads it from standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="F", help="Read the prompt from a file.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="TEXT",
            help="Explain this continuation. Taken literally: begin it with a space where a word begins. "
            "By default the model's own greedy continuation.",
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", metavar="N", help="Tokens to generate and explain (10).")
    ] = None,
    model: Annotated[str, typer.Option(help="smollm2, a hub id, a model folder or a .gguf file.")] = "smollm2",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16.")] = "auto",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    method: Annotated[str, typer.Option(help="See: reagent methods.")] = "reagent",
    preset: Annotated[str | None, typer.Option(help="Settings of the method by name. See: reagent methods.")] = None,
    replacer: Annotated[str, typer.Option(help="What stands in for a token. See: reagent replacers.")] = "auto",
    candidates: Annotated[
        int | None, typer.Option(metavar="N", help="Replacer: how many proposals for each position.")
    ] = None,
    masked_lm: Annotated[
        str | None, typer.Option("--masked-lm", metavar="M", help="Replacer roberta: hub id or folder of a masked LM.")
    ] = None,
    weighted: Annotated[
        bool | None,
        typer.Option("--weighted", help="Replacer: draw proposals by their probability, not uniformly."),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What is replaced and scored whole: token, word, sentence or paragraph.")
    ] = "token",
    spans: Annotated[
        Path | None,
        typer.Option("--spans", metavar="F.json", help="Score these characters of the prompt, [[start, end], …]."),
    ] = None,
    marked: Annotated[
        bool, typer.Option("--marked", help="Score the parts of the prompt that stand in ⟦ ⟧; all else stays as it is.")
    ] = False,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="fast: units from coarse to fine, as paragraph,sentence,word. By itself, a prompt of more than 400 "
            "tokens is explained by sentences first; --levels token does not.",
        ),
    ] = None,
    span: Annotated[
        str | None, typer.Option("--span", metavar="TEXT", help="Explain this phrase of the output as a whole.")
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option("--contrast", metavar="TEXT", help="Explain why the model did not say this instead."),
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Also show what the model says under the strongest replacement.")
    ] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="The prompt is a message to a chat model: use the model's own template.")
    ] = False,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="Chat: a system message before it.")
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(
            "--messages", metavar="F.json", help='Chat: earlier messages, [{"role": …, "content": …}, …], or all of it.'
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same explanation.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any option of the method, as --set steps=100. See: reagent methods."
        ),
    ] = None,
    probes: Annotated[int | None, typer.Option(metavar="N", help="fast: exactly N probes, no early stop.")] = None,
    response: Annotated[
        str | None, typer.Option(help="fast: what is measured, logprob or g (the published response).")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(metavar="N", help="paper: steps after which a run ends.")] = None,
    runs: Annotated[int | None, typer.Option(metavar="N", help="paper: independent runs to average.")] = None,
    ratio: Annotated[
        float | None, typer.Option(metavar="R", help="Share of tokens replaced in each probe or step.")
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(metavar="K", help="paper: share (below 1) or number of tokens kept in the stopping test."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="paper: stop when the target is among the top K.")
    ] = None,
    ahead: Annotated[int | None, typer.Option(metavar="N", help="paper: steps scored in one batch.")] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="F", help="Write JSON; - writes it, alone, to standard output.")
    ] = None,
    html: HtmlOption = None,
    png: PngOption = None,
    token: TokenOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no picture: only the files asked for.")] = False,
) -> None:
    """Explain what a model says after PROMPT: the importance of every token, for every generated token.

    Example: reagent explain "My aunt moved to Japan. She rents a flat in the capital," --max-new-tokens 1
    """
    from reagent.api import choose_replacer
    from reagent.api import explain as explain_prompt
    from reagent.asking import check_prompt, check_question, check_units
    from reagent.cli.progress import progress_bar, waiting
    from reagent.cli.question import conversation, parts
    from reagent.methods import make_method

    in_chat = chat or system is not None or messages is not None
    text = "" if in_chat and messages is not None and prompt is None and file is None else _prompt(prompt, file)
    if in_chat and (marked or spans is not None):
        raise InputError("--spans and --marked count characters of a plain prompt: leave them out in a chat")
    text, chosen = parts(text, spans, marked)
    given = check_prompt(conversation(text, system, messages) if in_chat else text)
    if target is not None and max_new_tokens is not None:
        raise InputError("give --target or --max-new-tokens, not both: a target is explained whole")
    new_tokens = 10 if max_new_tokens is None else max_new_tokens
    check_question(target, span, contrast, new_tokens, seed)
    if token is not None and (token < 0 or (target is None and token >= new_tokens)):
        raise InputError(f"there will be no output token {token}: they are numbered from 0, in the order of the text")
    kept = int(keep) if keep is not None and keep >= 1 and keep.is_integer() else keep
    options = _settings(settings) | _given(
        probes=probes,
        response=response,
        max_steps=max_steps,
        runs=runs,
        ratio=ratio,
        keep=kept,
        top_k=top_k,
        ahead=ahead,
    )
    # What is wrong with the words is said before a model is loaded.
    steps = None if levels is None else [level.strip() for level in levels.split(",")]
    check_units(unit, chosen, steps, make_method(method, preset, **options)[0], method)
    if masked_lm is not None and replacer == "auto":
        replacer = "roberta"
    replacing = _given(candidates=candidates, model=masked_lm, weighted=weighted)
    choose_replacer(method, replacer, replacing, what_if)
    _check_outputs(json, html, png)
    with waiting(f"loading {model}", quiet):
        from reagent.models import load_model

        loaded = load_model(model, device=device, dtype=dtype, revision=revision)
    with progress_bar("explaining", quiet) as report:
        why = explain_prompt(
            loaded,
            given,
            target=target,
            max_new_tokens=new_tokens,
            unit=unit,
            spans=chosen,
            levels=steps,
            span=span,
            contrast=contrast,
            what_if=what_if,
            method=method,
            preset=preset,
            replacer=replacer,
            replacer_options=replacing,
            seed=seed,
            progress=report,
            **options,
        )
    if json not in (None, "-"):
        why.save(str(json))
    if token is not None:
        why.context(token)  # a number that is not there is an error before any view is written
    _write_views(why, html, png, token)
    if json == "-":
        typer.echo(why.to_json())
    elif not quiet:
        why.show(target=token)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="F.json", help="An explanation written by --json.")],
    html: HtmlOption = None,
    png: PngOption = None,
    token: TokenOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only write the files asked for.")] = False,
) -> None:
    """Look at a saved explanation again."""
    from reagent.explanation_json import load

    _check_outputs(None, html, png)
    why = load(file)
    _write_views(why, html, png, token)
    if not quiet:
        why.show(target=token)


@app.command()
def methods() -> None:
    """List the attribution methods, their presets and what they need from a model."""
    from reagent.methods import METHODS

    for name, entry in METHODS.items():
        typer.echo(f"{name}: {entry.summary}")
        typer.echo(f"    needs: {entry.needs}; forward passes: {entry.cost}")
        for preset, (settings, summary) in entry.presets.items():
            values = ", ".join(f"{key}={value}" for key, value in settings.info.items())
            typer.echo(f"    --preset {preset}: {summary}" if len(entry.presets) > 1 else f"    {summary}")
            if values:
                typer.echo(f"        {values}")


@app.command()
def replacers() -> None:
    """List what may stand in a token's place."""
    from reagent.replacers import REPLACERS, automatic

    for name, (settings, summary) in REPLACERS.items():
        values = ", ".join(f"{key}={value}" for key, value in settings.info.items() if key != "id")
        typer.echo(f"{name}: {summary} ({values})")
    typer.echo(f"auto: the best one at hand, here {automatic()}")


def _prompt(prompt: str | None, file: Path | None) -> str:
    if (prompt is None) == (file is None):
        raise InputError("give one prompt: as an argument, as - for standard input, or with --file F")
    if file is not None:
        try:
            return _without_line_end(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"cannot read the prompt from {str(file)!r}: {error}") from error
    if prompt != "-":
        return str(prompt)
    try:
        return _without_line_end(sys.stdin.read())
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text: {error}") from error


def _without_line_end(text: str) -> str:
    """Editors and `echo` end a file with a line end that nobody means as part of the prompt."""
    return text.removesuffix("\n").removesuffix("\r")


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, where a value that looks like a number, true, false or null is one."""
    from json import JSONDecodeError, loads

    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes NAME=VALUE, got {pair!r}")
        try:
            options[name.strip()] = loads(value)
        except JSONDecodeError:
            options[name.strip()] = value
    return options


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_outputs(json: str | None, html: Path | None, png: Path | None) -> None:
    from reagent.files import check_writable
    from reagent.views.plots import require_matplotlib

    paths = [Path(path) for path in (None if json == "-" else json, html, png) if path is not None]
    if len({path.absolute() for path in paths}) < len(paths):
        raise InputError("two of --json, --html and --png name the same file: give each its own")
    for path in paths:
        check_writable(path)
    if png is not None:
        require_matplotlib()


def _write_views(why: "Explanation", html: Path | None, png: Path | None, token: int | None) -> None:
    if html is not None:
        why.to_html(html)
    if png is not None:
        why.to_png(png, target=token)


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the known models and what is cached."""
    if context.invoked_subcommand is not None:
        return
    from reagent.models import embedded

    for entry in embedded.status():
        typer.echo(f"{entry.name}: {entry.description} ({entry.licence})")
        if entry.cached:
            typer.echo(f"    cached: {entry.folder} ({entry.bytes / 1e6:.0f} MB)")
        else:
            typer.echo(f"    not cached: fetched on first use, or now with `reagent models pull {entry.name}`")
    typer.echo("Also: hub ids and folders of causal language models for transformers, and .gguf files.")


@models_app.command()
def pull(name: Annotated[str, typer.Argument(metavar="NAME", help="An embedded model, as smollm2.")]) -> None:
    """Fetch a model now, so that later runs need no network."""
    from reagent.models import embedded

    if name not in embedded.MODELS:
        raise UnknownNameError("embedded model", name, embedded.MODELS)
    typer.echo(f"{name} is ready in {embedded.fetch(name)}")
