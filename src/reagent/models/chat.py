"""Chats: checked messages, and the text that a chat template makes of them, with the span of each message.

A message is `{"role", "content"}`. In the chats of agents, a message of the assistant may have `tool_calls` in place of
or after its content, and the result of a tool is a message with the role `tool`. Both are written as in the OpenAI API
and in `transformers`; `tools` are the definitions of the tools, which the template shows to the model.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.atomic_io import read_json
from reagent.errors import FileError, InputError
from reagent.explanation import Message
from reagent.models.chat_spans import locate_messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Chat = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]
OPTIONAL = ("name", "tool_call_id")  # texts that a message may have besides role and content


def check_messages(messages: Any, whole: bool = True) -> list[dict[str, Any]]:
    """Messages as {"role", "content"}; the last message of a `whole` chat must not be the assistant's.

    >>> check_messages([{"role": "user", "content": "Hi"}])
    [{'role': 'user', 'content': 'Hi'}]
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise InputError('a chat is a list of messages like {"role": "user", "content": "…"}, with at least one')
    checked = [_check_message(number, message) for number, message in enumerate(messages)]
    if whole and checked[-1]["role"] == "assistant":
        raise InputError(
            "the last message is the assistant's: end with the message to be answered, and give the answer as `target`"
        )
    return checked


def _check_message(number: int, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping) or "role" not in message or not {"content", "tool_calls"} & set(message):
        raise InputError(f'message {number} must have a "role" and a "content", got {message!r}')
    role, content, calls = message["role"], message.get("content"), message.get("tool_calls")
    content = "" if content is None and calls else content
    if not isinstance(role, str) or not isinstance(content, str):
        raise InputError(f"role and content of message {number} must be text")
    if not content.strip() and not calls:
        raise InputError(f"message {number} ({role}) is empty: give it some text or leave it out")
    checked: dict[str, Any] = {"role": role, "content": content}
    if calls:
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise InputError(f"tool_calls of message {number} must be a list, got {calls!r}")
        checked["tool_calls"] = [_check_call(number, call) for call in calls]
    for key in OPTIONAL:
        if message.get(key) is not None:
            if not isinstance(message[key], str):
                raise InputError(f"{key} of message {number} must be text, got {message[key]!r}")
            checked[key] = message[key]
    return checked


def _check_call(number: int, call: Any) -> dict[str, Any]:
    """A tool call as {"type": "function", "function": {"name", "arguments"}}; arguments in JSON are parsed."""
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise InputError(
            f'a tool call of message {number} must be like {{"function": {{"name": "…", "arguments": {{…}}}}}}, '
            f"got {call!r}"
        )
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            raise InputError(f"arguments of a tool call of message {number} are not JSON: {error}") from error
    if not isinstance(arguments, Mapping):
        raise InputError(f"arguments of a tool call of message {number} must be a mapping, got {arguments!r}")
    more = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    return {"type": "function", **more, "function": {"name": function["name"], "arguments": dict(arguments)}}


def check_tools(tools: Any) -> tuple[dict[str, Any], ...]:
    """Definitions of tools: a list of mappings, as {"type": "function", "function": {"name", "parameters"}}."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise InputError(f"`tools` must be a list of definitions, got {tools!r}")
    for tool in tools:
        if not isinstance(tool, Mapping):
            raise InputError(f"`tools` must be a list of definitions (mappings), got {tool!r} in it")
    return tuple(dict(tool) for tool in tools)


def load_messages(path: str | Path, whole: bool = True) -> tuple[list[dict[str, Any]], tuple[dict[str, Any], ...]]:
    """Messages and tools of a JSON file: a list of messages, or {"messages": […], "tools": […]}."""
    data = read_json(path, "a list of messages")
    try:
        if not isinstance(data, Mapping):
            return check_messages(data, whole), ()
        if "messages" not in data:
            raise InputError('give a list of messages, or {"messages": […], "tools": […]}')
        return check_messages(data["messages"], whole), check_tools(data.get("tools") or [])
    except InputError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def uses_tools(messages: Chat, tools: Tools = ()) -> bool:
    """Whether a chat needs a template that knows tools."""
    return bool(tools) or any("tool_calls" in message or message["role"] == "tool" for message in messages)


def render_chat(
    tokenizer: "PreTrainedTokenizerBase", messages: Chat, name: str, tools: Tools = ()
) -> tuple[str, tuple[Message, ...]]:
    """The text up to the beginning of the answer, and the span of each message in it."""
    text = _apply(tokenizer, messages, name, True, tools)
    if tools and text == _apply(tokenizer, messages, name, True):
        raise InputError(
            f"the chat template of {name!r} ignores `tools`: describe them in the system message, or give a model "
            "whose template knows tools"
        )
    spans = locate_messages(lambda marked: _apply(tokenizer, marked, name, True, tools), messages, text, name)
    rendered = (
        Message(message["role"], start, end, tool_name(messages, number))
        for number, (message, (start, end)) in enumerate(zip(messages, spans, strict=True))
    )
    return text, tuple(sorted(rendered, key=lambda message: message.start))  # a template may move a message


def tool_name(messages: Chat, number: int) -> str | None:
    """The tool whose result a message is: by its name, or by the call that it answers."""
    message = messages[number]
    if message["role"] != "tool" or "name" in message:
        return message.get("name")
    calls = [call for earlier in messages[:number] for call in earlier.get("tool_calls", ())]
    asked = message.get("tool_call_id")
    matching = [call for call in calls if call.get("id") == asked] if asked else calls[-1:]
    return str(matching[-1]["function"]["name"]) if matching else None


def check_target(
    tokenizer: "PreTrainedTokenizerBase", messages: Chat, target: str, name: str, tools: Tools = ()
) -> None:
    """Raise an error if the template would change the target."""

    def render(answered: Chat) -> str:
        return _apply(tokenizer, answered, name, False, tools)

    inside, before = target.strip(), [dict(message) for message in messages]
    answered, stripped = ([*before, {"role": "assistant", "content": text}] for text in (target, inside))
    text = render(answered)
    cut = len(text) - len(render(stripped)) != len(target) - len(inside)  # white space
    if inside and not cut:
        try:
            start, end = locate_messages(render, answered, text, name)[-1]
            cut = text[start:end] != inside
        except InputError:
            cut = True
    if cut:
        raise InputError(
            f"the chat template of {name!r} would cut the target {target!r}: "
            "give it without spaces and line ends around it, and without marks of the template"
        )


def _apply(
    tokenizer: "PreTrainedTokenizerBase", messages: Chat, name: str, add_generation_prompt: bool, tools: Tools = ()
) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(f"{name!r} has no chat template: give a plain prompt")
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
        )
    except Exception as error:  # a template is a program and may raise anything
        raise InputError(f"the chat template of {name!r} refuses these messages: {error}") from error
    return str(text)
