"""From the options of the command line to the arguments of a request, a model and a replacer."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reagent.cli.progress import spinner
from reagent.errors import FileError, InputError
from reagent.models.base import Model
from reagent.models.chat import Chat, Tools, load_messages
from reagent.segmentation import Span, parse_marks, read_spans

NEW_TOKENS = 10


@dataclass(frozen=True)
class QuestionOptions:
    """The options of the question that `explain` and `compare` share."""

    prompt: str | None = None
    file: Path | None = None
    target: str | None = None
    max_new_tokens: int | None = None
    unit: str | None = None
    spans: Path | None = None
    with_marks: bool = False
    levels: str | None = None
    span: str | None = None
    contrast: str | None = None
    chat: bool = False
    system: str | None = None
    messages: Path | None = None
    token: int | None = None
    seed: int = 0
    attribute_target: bool = False
    answer_span: str | None = None
    control_tokens: str = "keep"

    @property
    def new_tokens(self) -> int:
        return NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens

    def arguments(self) -> dict[str, Any]:
        """The arguments of ExplainRequest.build."""
        if self.target is not None and self.max_new_tokens is not None:
            raise InputError("give --target or --max-new-tokens, not both: a target is explained whole")
        if self.token is not None and (self.token < 0 or (self.target is None and self.token >= self.new_tokens)):
            raise InputError(f"there is no output token {self.token}: tokens are numbered from 0")
        if self.levels is not None and self.unit is not None:
            raise InputError("give --unit or --levels, not both: levels are units from coarse to fine")
        prompt, tools, parts = self._prompt()
        return {
            "prompt": prompt,
            "tools": tools,
            "target": self.target,
            "max_new_tokens": self.new_tokens,
            "units": self.unit if self.levels is None else [level.strip() for level in self.levels.split(",")],
            "prompt_spans": parts,
            "target_span": self.span,
            "contrast": self.contrast,
            "answer_span": self.answer_span,
            "attribute_target": True if self.attribute_target or self.token is not None else None,
            "seed": self.seed,
            "control_tokens": self.control_tokens,
        }

    def _prompt(self) -> tuple[str | Chat, Tools, list[Span] | None]:
        """The prompt or the messages, the tools of a chat, and the spans to score if any are given."""
        in_chat = self.chat or self.system is not None or self.messages is not None
        if not in_chat:
            text, parts = self._parts(read_prompt(self.prompt, self.file))
            return text, (), parts
        if self.with_marks or self.spans is not None:
            raise InputError("--spans and --marked are for a plain prompt: leave them out in a chat")
        whole = self.messages is not None and self.prompt is None and self.file is None
        return *self._conversation("" if whole else read_prompt(self.prompt, self.file)), None

    def _parts(self, text: str) -> tuple[str, list[Span] | None]:
        if self.spans is not None and self.with_marks:
            raise InputError("give --spans or --marked, not both: each selects the parts to score")
        if self.with_marks:
            return parse_marks(text)
        return text, None if self.spans is None else read_spans(self.spans)

    def _conversation(self, text: str) -> tuple[Chat, Tools]:
        """System message, earlier messages, and the prompt as the last; and the tools."""
        earlier, tools = ([], ()) if self.messages is None else load_messages(self.messages, whole=not text)
        if self.system is not None and any(message["role"] == "system" for message in earlier):
            raise InputError("give the system message with --system or in the file of messages, not in both")
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*first, *earlier, *([{"role": "user", "content": text}] if text else [])], tools


def kind_of(file: Path) -> str:
    """What a file has: explanation, citations …; if it cannot be read, the error is left to those who read it."""
    from reagent.atomic_io import read_json

    with suppress(FileError):
        data = read_json(file, "")
        if isinstance(data, dict):
            return str(data.get("schema", "")).removeprefix("reagent.").partition("/")[0]
    return ""


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """The prompt from the argument, from standard input or from a file."""
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
    """Without the final line end that editors and `echo` add."""
    return text.removesuffix("\n").removesuffix("\r")


def replacer_arguments(
    replacer: str, candidates: int | None, masked_lm: str | None, weighted: bool | None
) -> dict[str, Any]:
    """The replacer and its options, as ExplainRequest.build takes them."""
    name = "roberta" if masked_lm is not None and replacer == "auto" else replacer
    return {"replacer": name, "replacer_options": drop_none(candidates=candidates, model=masked_lm, weighted=weighted)}


def drop_none(**options: Any) -> dict[str, Any]:
    """Only the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def parse_settings(pairs: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Parse NAME=VALUE pairs; a value is JSON (a number, true, false, null) or else a text.

    >>> parse_settings(["steps=20", "removal=delete"])
    {'steps': 20, 'removal': 'delete'}
    """
    from json import loads

    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{option} takes NAME=VALUE, got {pair!r}")
        if name.strip() in options:
            raise InputError(f"{option} {name.strip()} is given twice: give it once")
        try:
            options[name.strip()] = loads(value)
        except (ValueError, RecursionError):
            options[name.strip()] = value
    return options


def parse_alternatives(pairs: list[str] | None) -> dict[str, list[str]]:
    """The values of slots.

    >>> parse_alternatives(["city=Paris, Rome", "name=Ann"])
    {'city': ['Paris', 'Rome'], 'name': ['Ann']}
    """
    slots: dict[str, list[str]] = {}
    for pair in pairs or ():
        name, equals, values = pair.partition("=")
        if not equals or not name.strip() or not all(value.strip() for value in values.split(",")):
            raise InputError(f"--alternatives takes SLOT=A,B,…, as city=Paris,Rome, got {pair!r}")
        if name.strip() in slots:
            raise InputError(f"--alternatives {name.strip()} is given twice: give all its values at once")
        slots[name.strip()] = [value.strip() for value in values.split(",")]
    return slots


def join_settings(settings: Mapping[str, Any], named: Mapping[str, Any], option: str = "--set") -> dict[str, Any]:
    """The options of `--set` and those with a flag of their own; an option that is given by both is an error.

    >>> join_settings({"steps": 20}, {"probes": 4})
    {'steps': 20, 'probes': 4}
    """
    for name in named:
        if name in settings:
            raise InputError(f"`{name}` is given twice, also as {option} {name}: give it once")
    return {**settings, **named}


def load_model(
    model: str,
    device: str,
    dtype: str,
    revision: str | None,
    languages: str | None,
    quiet: bool,
    server: Mapping[str, Any] | None = None,
) -> Model:
    """Load a model, with a spinner. `languages` are two codes with a comma between them."""
    codes: Any = None if languages is None else [code.strip() for code in languages.split(",")]
    with spinner(f"loading {model}", quiet):
        from reagent import models

        return models.load_model(model, device=device, dtype=dtype, revision=revision, languages=codes, **server or {})


def server_options(
    tokenizer: str | None,
    cache: Path | None,
    concurrency: int | None,
    rate: float | None,
    recover: bool,
    more: list[str] | None,
) -> dict[str, Any]:
    """The options of a server as `load_model` takes them."""
    named = drop_none(tokenizer=tokenizer, cache=cache, concurrency=concurrency, rate=rate, recover=recover or None)
    return join_settings(parse_settings(more, "--server"), named, "--server")


def text_options(
    score: str | None,
    answers: int | None,
    temperature: float | None,
    parts: int | None,
    max_requests: int | None,
) -> dict[str, Any]:
    """The options of a text-only model as `load_model` takes them."""
    more = drop_none(answers=answers, temperature=temperature, parts=parts, max_requests=max_requests)
    if score is None and more:
        raise InputError(f"--{next(iter(more)).replace('_', '-')} is for --score: give --score text, or leave it out")
    return more | drop_none(score=score)


def parse_price(text: str | None, dry_run: bool) -> tuple[float, float] | None:
    """The prices of a million tokens sent and received.

    >>> parse_price("2.5,10", True)
    (2.5, 10.0)
    """
    if text is None:
        return None
    if not dry_run:
        raise InputError("--price is for --dry-run: add it, or leave the price out")
    try:
        sent, received = (float(number) for number in text.split(","))
    except ValueError as error:
        raise InputError(f"--price takes two numbers, as --price 2.5,10, got {text!r}") from error
    if not (0 <= sent < float("inf") and 0 <= received < float("inf")):
        raise InputError(f"--price takes two numbers of at least 0, got {text!r}")
    return sent, received


def check_outputs(json: str | Path | None, **paths: Path | None) -> None:
    """Raise before any work if a file cannot be written, or if two are the same."""
    from reagent.atomic_io import check_writable

    named = paths | {"json": None if json in (None, "-") else Path(str(json))}
    chosen = [path for path in named.values() if path is not None]
    if len({path.absolute() for path in chosen}) < len(chosen):
        raise InputError(f"two of {', '.join(f'--{name}' for name in named)} name the same file: give each its own")
    for path in chosen:
        check_writable(path)
