"""The command line: it parses options, calls the library and chooses a view.

app.py        the commands
explain.py    reagent explain, reagent show
cite.py       reagent cite
compare.py    reagent compare
evaluate.py   reagent evaluate
study.py      reagent study
summarize.py  reagent summarize
bench.py      reagent bench
record.py     reagent record
serve.py      reagent serve
catalog.py    reagent methods, replacers, datasets, models
doctor.py     reagent doctor
arguments.py  options of the commands that explain
parsing.py    from options to the arguments of a request
dry_run.py    the cost of an explanation before it runs
notes.py      notes on standard error after a run
outputs.py    files and views of a result
progress.py   progress bars on standard error
"""

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

SEVERAL_PROMPTS = (
    ": put quotation marks around a prompt of several words; for several prompts use reagent bench explain FILE, or "
    "reagent.explain(model, [prompt, …]) in Python"
)
FLAGS = {  # of Python arguments whose flag has another name
    "prompt_spans": "--spans",
    "target_span": "--span",
    "units": "--unit or --levels",
    "replacer_options": "--candidates, --masked-lm and --weighted",
    "model": "--masked-lm",
    "tools": "tools in the file of --messages",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 done, 1 failed, 2 bad usage or bad input, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    end = words.index("--") if "--" in words else len(words)
    debug = "--debug" in words[:end]
    words = [word for i, word in enumerate(words) if i >= end or word != "--debug"]
    quiet = "--quiet" in words[:end]
    with _logging_to_stderr(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO):
        sys.exit(_run(words) if debug else _run_safely(words))


def _run_safely(words: list[str]) -> int:
    """Run a command; an error becomes one line on standard error and an exit code."""
    try:
        return _run(words)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away, as in `reagent … | head`
        sys.stderr.close()
        return 1
    except Exception as error:
        return _explain_failure(error)


@contextmanager
def _logging_to_stderr(level: int) -> Iterator[None]:
    """Print what the library logs, one line each, on standard error."""
    logger, handler = logging.getLogger("reagent"), _StderrHandler()
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _StderrHandler(logging.Handler):
    """Writes to the standard error of the moment, which tests and progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"reagent: {record.getMessage()}", file=sys.stderr, flush=True)


def _run(words: list[str]) -> int:
    import typer

    from reagent.cli.app import app

    try:
        result = app(words, prog_name="reagent", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    if result == 130:  # typer catches the interrupt itself
        raise KeyboardInterrupt
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _explain_failure(error: Exception) -> int:
    from reagent.errors import ReagentError

    if isinstance(error, ReagentError):
        message, code = str(error), error.exit_code
    elif hasattr(error, "format_message"):  # wrong usage, found by typer
        message, code = _explain_usage(error), 2
    else:
        message, code = f"unexpected {type(error).__name__}: {error} (run again with --debug for details)", 1
    print("error: " + _with_flags(" ".join(message.split())), file=sys.stderr)
    return code


def _explain_usage(error: Any) -> str:
    """The message of typer with the next step."""
    message = str(error.format_message())
    context = getattr(error, "ctx", None)
    takes_prompt = context is not None and context.command_path in ("reagent explain", "reagent compare")
    is_second_prompt = takes_prompt and message.startswith("Got unexpected extra argument")
    return f"{message}{SEVERAL_PROMPTS if is_second_prompt else ' (see reagent --help)'}"


def _with_flags(message: str) -> str:
    """Library messages name Python arguments in backticks; here they become the flags of the command line.

    >>> _with_flags("`max_new_tokens` must be at least 1, got 0")
    '--max-new-tokens must be at least 1, got 0'
    >>> _with_flags("give `target_span` or `contrast`, not both")
    'give --span or --contrast, not both'
    """
    return re.sub(r"`([a-z_]+)`", lambda match: FLAGS.get(match[1], f"--{match[1].replace('_', '-')}"), message)
