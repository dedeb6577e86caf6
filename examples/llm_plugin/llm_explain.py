"""`llm explain`: which words of a prompt made a model of simonw/llm answer as it does."""

from pathlib import Path

import click
import llm

import reagent


@llm.hookimpl
def register_commands(cli: click.Group) -> None:
    cli.add_command(explain)


@click.command()
@click.argument("prompt")
@click.option("model_id", "-m", "--model", help="Model to explain; by default that of llm.")
@click.option("-s", "--system", help="System prompt, which is kept.")
@click.option(
    "options", "-o", "--option", type=(str, str), multiple=True, help="Option of the model, as in llm prompt."
)
@click.option("--score", default="text", help="How answers are compared: text, exact, label, regex:PATTERN, …")
@click.option("--answers", type=int, help="Answers for each probe, for a model that samples.")
@click.option("--max-requests", type=int, help="Requests to the model, at most.")
@click.option("--html", type=Path, help="Write one self-contained HTML page.")
def explain(
    prompt: str,
    model_id: str | None,
    system: str | None,
    options: tuple[tuple[str, str], ...],
    score: str,
    answers: int | None,
    max_requests: int | None,
    html: Path | None,
) -> None:
    """Explain the answer of a model to PROMPT: each probe is a request."""
    try:
        model = llm.get_model(model_id or llm.get_default_model())
    except llm.UnknownModelError as error:
        raise click.ClickException(str(error)) from error
    if model.needs_key:
        model.key = llm.get_key(None, model.needs_key, model.key_env_var)

    def answer(text: str) -> str:
        return str(model.prompt(text, system=system, stream=False, **dict(options)).text())

    answer.__qualname__ = model.model_id  # the name in the record
    try:
        source = reagent.load_model(answer, score=score, answers=answers, max_requests=max_requests)
        why = reagent.explain(source, prompt)
    except reagent.ReagentError as error:
        raise click.ClickException(str(error)) from error
    if html is not None:
        why.to_html(html)
    why.show()
