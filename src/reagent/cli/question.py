"""From the options of the command line to what is asked: the parts of a prompt, the messages of a chat."""

from pathlib import Path

from reagent.errors import InputError
from reagent.models.chat import read_messages
from reagent.units import Span, marked, read_spans


def parts(text: str, spans: Path | None, with_marks: bool) -> tuple[str, list[Span] | None]:
    """The prompt without its marks, and the parts to score, where they were given."""
    if spans is not None and with_marks:
        raise InputError("give --spans or --marked, not both: each says which parts to score")
    if with_marks:
        return marked(text)
    return text, None if spans is None else read_spans(spans)


def conversation(text: str, system: str | None, messages: Path | None) -> list[dict[str, str]]:
    """System message, earlier messages, and the prompt as the last."""
    earlier = [] if messages is None else read_messages(messages, whole=not text)
    if system is not None and any(message["role"] == "system" for message in earlier):
        raise InputError("give the system message with --system or in the file of messages, not in both")
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, *earlier, *([{"role": "user", "content": text}] if text else [])]
