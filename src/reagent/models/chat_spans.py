"""Where a chat template writes each message, found by construction.

The chat is rendered a second time with marks at the edges of every message. A mark is a number that occurs nowhere
else. If the marked text without its marks is the real text, the marks show where each message is. A search for the
content would find "a" or "You" in the template's own system prompt.

Marks are inside the white space around a message, since many templates strip it. There are also marks at every tag
inside a message, since some templates drop the part up to `</think>`. A template may ask how a message begins or ends;
then there are no marks at its edges.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reagent.errors import InputError

Chat = Sequence[Mapping[str, Any]]
Span = tuple[int, int]
Owner = tuple[int, int | None]  # a message, and a call in it; None: its content

_TAG = re.compile(r"(<[^<>\s]{1,40}>|\[/?[A-Z_]{1,20}\])")
_LEADING = re.compile(rf"(?:{_TAG.pattern}\s*)+")
_TRAILING = re.compile(rf"(?<!\s)(?:\s*+{_TAG.pattern})+$")  # linear in white space
_FIRST_PREFIX = 8_190_275_364  # its first digit occurs once, so that a number before a mark cannot begin one
_EDGES, _PARTS, _MIDDLE = "edges", "parts", "middle"  # where marks are: at the edges too, at tags inside, in the middle
_DIGITS = 6  # of the number of a mark, after the prefix


def locate_messages(render: Callable[[Chat], str], messages: Chat, text: str, name: str) -> list[Span]:
    """The span of each message in `text`, which `render` has made of them."""
    for kind in (_EDGES, _PARTS, _MIDDLE):  # a template may ask how a message begins or ends
        marks = _Marks.avoiding(text + json.dumps(messages, ensure_ascii=False), kind)
        try:
            marked = render([marks.mark_message(n, message) for n, message in enumerate(messages)])
        except InputError:
            continue
        if marks.read(marked) == text:
            return [_locate(marks, n, message, text, name) for n, message in enumerate(messages)]
    raise InputError(
        f"the chat template of {name!r} changes the text of the messages, so that their place in it is not known: "
        "render the chat yourself and give it as a plain prompt"
    )


@dataclass
class _Marks:
    """Marks in a chat, and their places after it was rendered."""

    prefix: int
    kind: str  # where they are
    restored: list[str] = field(default_factory=list)  # what each mark stands for: nothing, or a number
    owners: list[Owner] = field(default_factory=list)
    places: dict[Owner, list[Span]] = field(default_factory=dict)  # in the text without marks
    leaves: dict[tuple[Owner, int], list[Span]] = field(default_factory=dict)
    _leaf_of: dict[int, int] = field(default_factory=dict)

    @classmethod
    def avoiding(cls, text: str, kind: str) -> "_Marks":
        prefix = _FIRST_PREFIX
        while str(prefix) in text:
            prefix += 10  # changes a digit that is not the first
        return cls(prefix, kind)

    def new(self, owner: Owner, restored: str = "", leaf: int | None = None) -> str:
        number = len(self.owners)
        self.owners.append(owner)
        self.restored.append(restored)
        if leaf is not None:
            self._leaf_of[number] = leaf
        return f"{self.prefix}{number:0{_DIGITS}d}"

    # --- marking ---

    def mark_message(self, number: int, message: Mapping[str, Any]) -> dict[str, Any]:
        marked = {**message, "content": self._mark_content((number, None), message["content"])}
        if "tool_calls" in message:
            calls = enumerate(message["tool_calls"])
            marked["tool_calls"] = [self._mark_call((number, i), call) for i, call in calls]
        return marked

    def _mark_content(self, owner: Owner, content: str) -> str:
        inside = content.strip()
        if self.kind == _MIDDLE and len(inside) > 1:
            middle = content.index(inside) + len(inside) // 2
            return content[:middle] + self.new(owner) + content[middle:]
        parts = _TAG.split(content)  # every second one is a tag
        marked = "".join(part if i % 2 else self._around(owner, part) for i, part in enumerate(parts))
        if len(parts) == 1 or not (self.kind != _PARTS or marked == content):
            return marked
        return self._around(owner, marked)

    def _around(self, owner: Owner, text: str) -> str:
        """Marks around a text, inside its white space."""
        inside = text.strip()
        if not inside:
            return text
        start = text.index(inside)
        return f"{text[:start]}{self.new(owner)}{inside}{self.new(owner)}{text[start + len(inside) :]}"

    def _mark_call(self, owner: Owner, call: Mapping[str, Any]) -> dict[str, Any]:
        function, counter = call["function"], iter(range(10**_DIGITS))

        def mark(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: mark(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [mark(item) for item in value]
            leaf = next(counter)
            if isinstance(value, bool | None) or (not value and self.kind != _EDGES):  # a template may leave them out
                return value
            if isinstance(value, str):
                return self.new(owner, leaf=leaf) + value + self.new(owner, leaf=leaf)
            return int(self.new(owner, str(value), leaf))

        named = self.new(owner) + function["name"] + self.new(owner)
        return {**call, "function": {**function, "name": named, "arguments": mark(function["arguments"])}}

    # --- reading ---

    def read(self, marked: str) -> str:
        """The text without its marks; their places are kept."""
        parts, length, end = list[str](), 0, 0
        for match in re.finditer(rf"{self.prefix}(\d{{{_DIGITS}}})", marked):
            number = int(match.group(1))
            if number >= len(self.owners):
                return ""
            before, restored = marked[end : match.start()], self.restored[number]
            parts += before, restored
            place = length + len(before), length + len(before) + len(restored)
            length, end = place[1], match.end()
            self.places.setdefault(self.owners[number], []).append(place)
            if number in self._leaf_of:
                self.leaves.setdefault((self.owners[number], self._leaf_of[number]), []).append(place)
        return "".join(parts) + marked[end:]


def _locate(marks: _Marks, number: int, message: Mapping[str, Any], text: str, name: str) -> Span:
    """Where a message is: its content, its tool calls, or both."""
    spans = []
    if message["content"].strip():
        places = marks.places.get((number, None), [])
        expected = marks.owners.count((number, None))
        if not places:
            raise InputError(
                f"the chat template of {name!r} leaves out or changes the {message['role']} message: "
                "it may not know this role, or this order of messages"
            )
        if len(places) > expected:
            raise InputError(
                f"the chat template of {name!r} writes the {message['role']} message more than once: "
                "render the chat yourself and give it as a plain prompt"
            )
        span, content = (places[0][0], places[-1][1]), message["content"].strip()
        if marks.kind == _MIDDLE and len(content) > 1:
            spans.append(_grow(span[0], content, text))
        else:  # tags at the edges may have been left without marks, or written anew by the template
            complete = marks.kind == _EDGES and len(places) == expected
            spans.append(span if complete else _with_tags(span, content, text))
    for i, call in enumerate(message.get("tool_calls", ())):
        call_span = _locate_call(marks, (number, i), text, call["function"])
        if call_span is None:
            raise InputError(
                f"the chat template of {name!r} does not write the call of {call['function']['name']!r} in message "
                f"{number}: give a model whose template knows tool calls, or write the call as `content`"
            )
        spans.append(call_span)
    return min(start for start, _ in spans), max(end for _, end in spans)


def _grow(place: int, content: str, text: str) -> Span:
    """From the middle of the content as far as the text is the same."""
    middle = start = end = len(content) // 2
    while start and place + start - middle > 0 and content[start - 1] == text[place + start - middle - 1]:
        start -= 1
    while end < len(content) and content[end] == text[place + end - middle : place + end - middle + 1]:
        end += 1
    return place + start - middle, place + end - middle


def _with_tags(span: Span, content: str, text: str) -> Span:
    """With the tags at the edges of the content, which were left without marks, if they are in the text."""
    start, end = span
    before, after = _LEADING.match(content), _TRAILING.search(content)
    if before is not None and text[:start].endswith(before.group()):
        start -= len(before.group())
    if after is not None and text.startswith(after.group(), end):
        end += len(after.group())
    return start, end


def _locate_call(marks: _Marks, owner: Owner, text: str, function: Mapping[str, Any]) -> Span | None:
    """The JSON object of a call, or from the name of the function to the end of its arguments."""
    places = marks.places.get(owner, [])
    if len(places) < 2:
        return None
    start, end = places[0][0], places[1][1]
    others = [place for other, found in marks.places.items() if other != owner for place in found]
    first = max((stop for _, stop in others if stop <= start), default=0)  # the call is between what others own
    last = min((begin for begin, _ in others if begin >= end), default=len(text))
    brace = text.rfind("{", first, start)
    while brace >= 0:  # the innermost object around the name that has the arguments too
        found = _decode_object(text, brace)
        if found is not None and found[1] > end and function["arguments"] in (*found[0].values(), {}):
            return brace, found[1]
        brace = text.rfind("{", first, brace)
    for leaf, value in enumerate(_leaves(function["arguments"])):
        known = marks.leaves.get((owner, leaf))
        if known is not None:
            end = max(end, known[-1][1])
        elif not value or value is True:  # not marked: the next place with its text
            forms = (str(value), json.dumps(value))
            ends = [at + len(form) for form in forms if (at := text.find(form, end, last)) >= 0]
            end = min(ends, default=end)
        else:
            return None
    return start, end


def _decode_object(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    try:
        found: tuple[dict[str, Any], int] = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return found


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
