"""Chats: checked messages, and the text that a chat template makes of them, with the span of each message."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.atomic_io import read_json
from reagent.errors import FileError, InputError
from reagent.explanation import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Chat = Sequence[Mapping[str, Any]]


def check_messages(messages: Any, whole: bool = True) -> list[dict[str, str]]:
    """Messages as {"role", "content"}; the last message of a `whole` chat must not be the assistant's.

    >>> check_messages([{"role": "user", "content": "Hi"}])
    [{'role': 'user', 'content': 'Hi'}]
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise InputError('a chat is a list of messages like {"role": "user", "content": "…"}, with at least one')
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise InputError(f'message {number} must have a "role" and a "content", got {message!r}')
        if not all(isinstance(message[key], str) for key in ("role", "content")):
            raise InputError(f"role and content of message {number} must be text")
        if not message["content"].strip():
            raise InputError(f"message {number} ({message['role']}) is empty: give it some text or leave it out")
    if whole and messages[-1]["role"] == "assistant":
        raise InputError(
            "the last message is the assistant's: end with the message to be answered, and give the answer as `target`"
        )
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def load_messages(path: str | Path, whole: bool = True) -> list[dict[str, str]]:
    """A JSON file with a list of messages."""
    data = read_json(path, "a list of messages")
    try:
        return check_messages(data, whole)
    except InputError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def render_chat(tokenizer: "PreTrainedTokenizerBase", messages: Chat, name: str) -> tuple[str, tuple[Message, ...]]:
    """The text up to the beginning of the answer, and the span of each message in it."""
    text = _apply(tokenizer, messages, name, add_generation_prompt=True)
    spans, end = [], 0
    for message in messages:
        content = message["content"]
        for form in (content, content.strip()):  # many templates strip the content
            start = text.find(form, end)
            if start >= 0:
                break
        else:
            raise InputError(
                f"the chat template of {name!r} leaves out or changes the {message['role']} message: "
                "it may not know this role, or this order of messages"
            )
        end = start + len(form)
        spans.append(Message(message["role"], start, end))
    return text, tuple(spans)


def check_target(tokenizer: "PreTrainedTokenizerBase", messages: Chat, target: str, name: str) -> None:
    """Raise an error if the template would change the target."""
    answered = [*messages, {"role": "assistant", "content": target}]
    if target not in _apply(tokenizer, answered, name, add_generation_prompt=False):
        raise InputError(
            f"the chat template of {name!r} would cut the target {target!r}: "
            "give it without spaces and line ends around it, and without marks of the template"
        )


def _apply(tokenizer: "PreTrainedTokenizerBase", messages: Chat, name: str, add_generation_prompt: bool) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(f"{name!r} has no chat template: give a plain prompt")
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=add_generation_prompt
        )
    except Exception as error:  # a template is a program and may raise anything
        raise InputError(f"the chat template of {name!r} refuses these messages: {error}") from error
    return str(text)
