"""Chats: checked messages, and the text that a chat template makes of them, with the span of each message.

A message is `{"role", "content"}`. In the chats of agents, a message of the assistant may have `tool_calls` in place of
or after its content, and the result of a tool is a message with the role `tool`. Both are written as in the OpenAI API
and in `transformers`; `tools` are the definitions of the tools, which the template shows to the model.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reagent.atomic_io import read_json
from reagent.errors import FileError, InputError
from reagent.explanation import Message

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
    spans, end = [], 0
    for number, message in enumerate(messages):
        start, end = _find_message(text, end, number, message, name)
        spans.append(Message(message["role"], start, end, tool_name(messages, number)))
    return text, tuple(spans)


def tool_name(messages: Chat, number: int) -> str | None:
    """The tool whose result a message is: by its name, or by the call that it answers."""
    message = messages[number]
    if message["role"] != "tool" or "name" in message:
        return message.get("name")
    calls = [call for earlier in messages[:number] for call in earlier.get("tool_calls", ())]
    asked = message.get("tool_call_id")
    matching = [call for call in calls if call.get("id") == asked] if asked else calls[-1:]
    return str(matching[-1]["function"]["name"]) if matching else None


def _find_message(text: str, begin: int, number: int, message: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Where a template writes a message: its content, its tool calls, or both."""
    spans = []
    content = message["content"]
    if content.strip() or not message.get("tool_calls"):
        start, form = _find_content(text, begin, content)
        if start < 0:
            raise InputError(
                f"the chat template of {name!r} leaves out or changes the {message['role']} message: "
                "it may not know this role, or this order of messages"
            )
        spans.append((start, start + len(form)))
    for call in message.get("tool_calls", ()):
        found = _find_call(text, spans[-1][1] if spans else begin, call["function"])
        if found is None:
            raise InputError(
                f"the chat template of {name!r} does not write the call of {call['function']['name']!r} in message "
                f"{number}: give a model whose template knows tool calls, or write the call as `content`"
            )
        spans.append(found)
    return spans[0][0], spans[-1][1]


def _find_content(text: str, begin: int, content: str) -> tuple[int, str]:
    for form in (content, content.strip()):  # many templates strip the content
        start = text.find(form, begin)
        if start >= 0:
            break
    return start, form


def _find_call(text: str, begin: int, function: Mapping[str, Any]) -> tuple[int, int] | None:
    """The JSON object of a tool call, or from the name of the function to the end of its arguments.

    >>> _find_call('<call>{"name": "add", "parameters": {"a": 1}}</call>', 0, {"name": "add", "arguments": {"a": 1}})
    (6, 45)
    >>> _find_call("add(a=1, b='x')", 0, {"name": "add", "arguments": {"a": 1, "b": "x"}})
    (0, 13)
    """
    at = text.find(function["name"], begin)
    if at < 0:
        return None
    decoder, after = json.JSONDecoder(), at + len(function["name"])
    brace = text.rfind("{", begin, at)
    while brace >= 0:  # the innermost object around the name that has the arguments too
        try:
            found, end = decoder.raw_decode(text, brace)
            if end > after and function["arguments"] in (*found.values(), {}):
                return brace, end
        except ValueError:
            pass
        brace = text.rfind("{", begin, brace)
    end = after
    for value in _leaves(function["arguments"]):
        forms = [form for form in (str(value), json.dumps(value, ensure_ascii=False)) if text.find(form, end) >= 0]
        if not forms:
            return None
        end = max(text.find(form, end) + len(form) for form in forms)
    return at, end


def _leaves(value: Any) -> Iterator[Any]:
    """The single values inside mappings and lists, in order."""
    if isinstance(value, Mapping):
        for inside in value.values():
            yield from _leaves(inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _leaves(inside)
    else:
        yield value


def check_target(
    tokenizer: "PreTrainedTokenizerBase", messages: Chat, target: str, name: str, tools: Tools = ()
) -> None:
    """Raise an error if the template would change the target."""
    answered = [*messages, {"role": "assistant", "content": target}]
    if target not in _apply(tokenizer, answered, name, False, tools):
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
