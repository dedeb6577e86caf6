"""Templates of prompts, divided into parts: sections, few-shot examples and slots.

A template is a text with slots `{{ name }}`, filled by Jinja2 in its sandbox. Every character belongs to one part:

- slot: the value of `{{ name }}`, at all its places;
- section: text under a Markdown heading, inside `<tag>` … `</tag>` lines, or a paragraph where there is neither;
- example: a section that is called so, or one of several blocks that begin with the same label, as `Question:`.

With marks `{# part: name #}` … `{# end #}` in the template, only the marked sections and the slots are parts, and all
other text is always kept. The slots inside a section are parts of their own: a section is its text without them.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from reagent.errors import FileError, InputError

if TYPE_CHECKING:
    from jinja2 import Template as Compiled

Kind = Literal["section", "example", "slot"]
LONGEST = 200_000  # characters of a template or a prompt
MOST_PARTS = 500
NAME_LENGTH = 40
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # around the number of a part; noncharacters, which no text contains
_SWITCH = re.compile(f"{_OPEN}(-?[0-9]+){_CLOSE}")
_FIXED = -1  # the text outside of all parts
_TAG = re.compile(r"\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_MARK = re.compile(r"\{#-?\s*part:(?P<name>.*?)-?#\}|\{#-?\s*end\s*-?#\}", re.DOTALL)
_SLOT = re.compile(r"\{\{([-+]?)(.*?)([-+]?)\}\}", re.DOTALL)
_LINE_START = r"(?:(?<=\n)|\A)"
_HEADING = re.compile(_LINE_START + r"#{1,6}[ \t]+(?P<name>\S[^\n]*)")
_BLOCK = re.compile(_LINE_START + r"<(?P<name>[A-Za-z][\w-]*)>[ \t]*\n.*?\n</(?P=name)>[ \t]*(?:\n\s*|\Z)", re.DOTALL)
_FENCE = re.compile(_LINE_START + r"(```|~~~).*?(?:\n\1|\Z)", re.DOTALL)
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LABEL = re.compile(r"(?P<name>[A-Z][\w ]{0,24}):")
_EXAMPLE = re.compile(r"(few-shot |input )?examples?\b", re.IGNORECASE)


class Part(NamedTuple):
    """A part of a template."""

    name: str
    kind: Kind
    text: str  # as it is in the template


class Piece(NamedTuple):
    """Text of one part in a prompt; part −1 is always kept."""

    part: int
    text: str


class _Segment(NamedTuple):
    """Characters of the source that are one part, or fixed text if it has no kind."""

    start: int
    end: int
    name: str
    kind: Kind | None


@dataclass(frozen=True)
class PromptTemplate:
    """A template and its parts. `parse` makes one from a text."""

    name: str
    source: str
    parts: tuple[Part, ...]
    marked: str  # the source with the number of the part wherever the part changes

    @classmethod
    def parse(cls, source: str, name: str = "template") -> "PromptTemplate":
        """Divide a template into its parts.

        >>> template = PromptTemplate.parse("# Task\\nBe brief.\\n\\n# Text\\n{{text}}")
        >>> [(part.name, part.kind) for part in template.parts]
        [('Task', 'section'), ('Text', 'section'), ('text', 'slot')]
        >>> template.render({"text": "Hello."}, without={0})
        '# Text\\nHello.'
        """
        _check_source(source, name)
        source = source.replace("\r\n", "\n")
        segments = _divide(source)
        slots = list(dict.fromkeys(match[2].strip() for match in _slots(source)))
        parts = [Part(one.name, one.kind, source[one.start : one.end]) for one in segments if one.kind is not None]
        if not parts:
            raise InputError(f"{name!r} has no part besides its slots: write some text around them")
        named = _with_unique_names([*parts, *(Part(slot, "slot", f"{{{{{slot}}}}}") for slot in slots)])
        if len(named) > MOST_PARTS:
            raise InputError(f"{name!r} has {len(named)} parts, at most {MOST_PARTS} are allowed: join some of them")
        template = cls(name, source, named, _mark(source, segments, {s: len(parts) + i for i, s in enumerate(slots)}))
        template._compiled  # noqa: B018  (an error of the syntax)
        return template

    @property
    def slots(self) -> list[str]:
        return [part.name for part in self.parts if part.kind == "slot"]

    def index(self, name: str) -> int:
        """The number of the part with this name."""
        return next(i for i, part in enumerate(self.parts) if part.name == name)

    def pieces(self, values: Mapping[str, Any]) -> list[Piece]:
        """The prompt of these values in pieces, in order."""
        for name, value in values.items():
            if isinstance(value, str) and (_OPEN in value or _CLOSE in value):
                raise InputError(f"the value of {name!r} has the character U+FDD0 or U+FDD1: remove it")
        text = _render(self._compiled[0], values)
        if _SWITCH.sub("", text) != _render(self._compiled[1], values):
            advice = "mark them with {# part: name #} … {# end #}"
            raise InputError(f"{self.name!r} cannot be divided into parts: {advice}")
        (first, *rest) = _SWITCH.split(text)
        found = [Piece(_FIXED, first), *(Piece(int(n), piece) for n, piece in zip(rest[::2], rest[1::2], strict=True))]
        return [piece for piece in found if piece.text]

    def render(self, values: Mapping[str, Any], without: Collection[int] = ()) -> str:
        """The prompt of these values without some parts."""
        return join(self.pieces(values), without)

    @cached_property
    def _compiled(self) -> "tuple[Compiled, Compiled]":
        from jinja2 import TemplateError

        environment = _make_environment()
        try:
            return environment.from_string(self.marked), environment.from_string(self.source)
        except TemplateError as error:
            number = getattr(error, "lineno", None)
            line = f", line {number}" if number else ""
            raise InputError(f"{self.name!r}{line} cannot be used as a template of Jinja2: {error.message}") from error


def load_template(path: str | Path) -> PromptTemplate:
    """A template from a file."""
    try:
        source = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read the template {str(path)!r}: {reason}") from error
    return PromptTemplate.parse(source, Path(path).name)


def join(pieces: Sequence[Piece], without: Collection[int] = ()) -> str:
    """The text of the pieces that are kept."""
    return "".join(piece.text for piece in pieces if piece.part not in without)


def _check_source(source: Any, name: str) -> None:
    if not isinstance(source, str):
        raise InputError(f"a template must be a text or a path, got a {type(source).__name__}")
    if not source.strip():
        raise InputError(f"{name!r} is empty: write a template with slots like {{{{question}}}}")
    if len(source) > LONGEST:
        raise InputError(f"{name!r} has {len(source):,} characters, at most {LONGEST:,} are allowed: shorten it")
    if _OPEN in source or _CLOSE in source:
        raise InputError(f"{name!r} has the character U+FDD0 or U+FDD1: remove it")
    try:
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name!r} is not valid Unicode text: {error.reason}") from error


# --- dividing ---


def _divide(source: str) -> list[_Segment]:
    """The segments of a source, in order and without gaps."""
    if marks := list(_MARK.finditer(source)):
        return _divide_at_marks(source, marks)
    hidden = _hide(source)
    segments = [part for whole in _divide_at_headings(hidden) for part in _divide_examples(source, hidden, whole)]
    return [one if _TAG.sub("", source[one.start : one.end]).strip() else one._replace(kind=None) for one in segments]


def _hide(source: str) -> str:
    """The source with its tags and fenced code as letters, so that nothing inside them is read as a heading."""

    def cover(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "x", match[0]) if "\n" not in match[0] else "x" * len(match[0])

    return _FENCE.sub(cover, _TAG.sub(cover, source))


def _divide_at_marks(source: str, marks: Sequence[re.Match[str]]) -> list[_Segment]:
    segments, end, opened = [_Segment(0, marks[0].start(), "", None)], marks[0].start(), None
    for mark in marks:
        line = source.count("\n", 0, mark.start()) + 1
        if (mark["name"] is None) != (opened is not None):
            problem = "a part begins inside another one" if opened is not None else "{# end #} ends no part"
            raise InputError(f"the template, line {line}: {problem}; write {{# part: name #}} … {{# end #}}")
        if opened is None:
            if not mark["name"].strip():
                raise InputError(f"the template, line {line}: the part has no name; write {{# part: name #}}")
            segments.append(_Segment(end, mark.start(), "", None))
            opened, end = mark["name"].strip(), mark.start()
        else:
            segments.append(_Segment(end, mark.end(), opened, "example" if _EXAMPLE.match(opened) else "section"))
            opened, end = None, mark.end()
    if opened is not None:
        raise InputError(f"the template: the part {opened!r} is not ended; write {{# end #}} after it")
    segments.append(_Segment(end, len(source), "", None))
    return [one for one in segments if one.start < one.end]


def _divide_at_headings(hidden: str) -> list[_Segment]:
    """Sections by headings and tagged blocks; where there is neither, paragraphs."""
    blocks = [(match.start(), match.end(), match["name"]) for match in _BLOCK.finditer(hidden)]
    cuts = {start: name for start, _, name in blocks}
    for heading in _HEADING.finditer(hidden):
        if not any(start <= heading.start() < end for start, end, _ in blocks):
            cuts[heading.start()] = heading["name"].strip().rstrip("#").strip()
    if not cuts:
        cuts = {match.end(): "" for match in _PARAGRAPH.finditer(hidden) if match.end() < len(hidden)}
    cuts = {0: ""} | {end: "" for _, end, _ in blocks if end < len(hidden)} | cuts
    places = sorted(cuts)
    return [
        _Segment(start, end, cuts[start], "example" if _EXAMPLE.match(cuts[start]) else "section")
        for start, end in zip(places, [*places[1:], len(hidden)], strict=True)
        if hidden[start:end].strip()
    ] or [_Segment(0, len(hidden), "", "section")]


def _divide_examples(source: str, hidden: str, segment: _Segment) -> Iterator[_Segment]:
    """The blocks of a segment that begin with the same label, and what is around them."""
    start, end = segment.start, segment.end
    places = [start, *(match.end() for match in _PARAGRAPH.finditer(hidden, start, end) if match.end() < end)]
    if heading := _HEADING.match(hidden, start, end):
        places[0] = heading.end() + len(hidden[heading.end() : end]) - len(hidden[heading.end() : end].lstrip())
    places = sorted(set(places))
    labels = {place: match["name"] for place in places if (match := _LABEL.match(hidden, place, end))}
    ((label, count),) = Counter(labels.values()).most_common(1) or [("", 0)]
    if count < 2:
        yield _named(source, segment)
        return
    first = next(place for place in places if labels.get(place) == label)
    cuts = [place for place in places if labels.get(place) == label or (place > first and place not in labels)]
    if start < first:
        yield _named(source, segment._replace(end=first))
    for number, (one, following) in enumerate(zip(cuts, [*cuts[1:], end], strict=True), 1):
        if labels.get(one) == label and not _SLOT.search(source, one, following):
            yield _Segment(one, following, f"example {number}", "example")
        else:
            yield _named(source, _Segment(one, following, "", "section"))


def _named(source: str, segment: _Segment) -> _Segment:
    """With the first words of its text as the name of a segment that has none."""
    if segment.name:
        return segment._replace(name=_shorten(segment.name))
    words = " ".join(_TAG.sub("…", source[segment.start : segment.end]).split())
    return segment._replace(name=_shorten(words) or "text")


def _shorten(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1].rstrip() + "…"


def _with_unique_names(parts: Sequence[Part]) -> tuple[Part, ...]:
    seen: set[str] = set()
    unique = []
    for part in parts:
        name, copy = part.name, 1
        while name in seen:
            copy += 1
            name = f"{part.name} ({copy})"
        seen.add(name)
        unique.append(part._replace(name=name))
    return tuple(unique)


def _slots(source: str) -> Iterator[re.Match[str]]:
    for tag in _TAG.finditer(source):
        if slot := _SLOT.fullmatch(tag[0]):
            yield slot


def _mark(source: str, segments: Sequence[_Segment], slots: Mapping[str, int]) -> str:
    """The source with a switch at the start of each segment, and around the value of each slot."""
    pieces, number = [], 0
    for segment in segments:
        own = _FIXED if segment.kind is None else number
        number += segment.kind is not None

        def wrap(tag: re.Match[str], own: int = own) -> str:
            slot = _SLOT.fullmatch(tag[0])
            if slot is None:
                return tag[0]
            return f'{{{{{slot[1]} "{_switch(slots[slot[2].strip()])}" ~ ({slot[2]}) ~ "{_switch(own)}" {slot[3]}}}}}'

        pieces.append(_switch(own) + _TAG.sub(wrap, source[segment.start : segment.end]))
    return "".join(pieces)


def _switch(part: int) -> str:
    return f"{_OPEN}{part}{_CLOSE}"


# --- rendering ---


def _make_environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """The sandbox of Jinja2, in which a template can also not fill the memory."""

        intercepted_binops = frozenset(["*", "**", "%"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            if not numbers or (operator == "**" and (abs(left) > 10**6 or abs(right) > 100)):
                raise SecurityError(f"the operator {operator!r} is for small numbers")
            return super().call_binop(context, operator, left, right)

    return Environment(undefined=StrictUndefined)


def _render(template: "Compiled", values: Mapping[str, Any]) -> str:
    """The text; any error of a template or of its values is an InputError."""
    from jinja2 import UndefinedError

    pieces, length = [], 0
    try:
        for piece in template.generate(**values):
            pieces.append(piece)
            length += len(piece)
            if length > LONGEST:
                raise InputError(f"the prompt has more than {LONGEST:,} characters: shorten the template or its values")
    except InputError:
        raise
    except UndefinedError as error:
        has = ", ".join(map(str, values)) or "none"
        problem = f"the template needs a value that is missing: {error.message}"
        raise InputError(f"{problem}; the input has: {has}") from error
    except Exception as error:  # a template can raise anything
        raise InputError(f"the template cannot be filled ({type(error).__name__}: {error}): change it") from error
    return "".join(pieces)
