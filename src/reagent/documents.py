"""Documents that a question is asked about, and the prompt that is made of them.

Documents come as texts, as a mapping of ids to texts, as objects of LangChain, LlamaIndex or Haystack (recognised by
their attributes), or from files. The prompt is a template with the fields `{documents}` and `{question}`. Fields are
filled once: braces in a document or in the question are plain text.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reagent.errors import FileError, InputError
from reagent.segmentation import Span, split_sentences

TEMPLATE = "Answer the question with the help of the documents.\n\n{documents}\n\nQuestion: {question}"
DOCUMENT_TEMPLATE = "Document {number}:\n{text}"
PLAIN_ENDING = "\nAnswer:"  # after the template, for a model without a chat template
SEPARATOR = "\n\n"
TEXT_FILES = (".txt", ".md")
RECORD_FILES = (".jsonl",)
_TEXT_NAMES = ("page_content", "text", "content")
_ID_NAMES = ("id", "id_", "node_id", "doc_id")
_METADATA_NAMES = ("metadata", "meta")
_TITLE_NAMES = ("id", "title", "source", "file_name", "file_path", "name", "url")
_FIELD = re.compile(r"\{(documents|question)\}")
_DOCUMENT_FIELD = re.compile(r"\{(number|id|text)\}")


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id."""

    id: str
    text: str


class Sentence(NamedTuple):
    """A sentence of a document: characters `start` to `end` of its text."""

    document: int
    start: int
    end: int


class Layout(NamedTuple):
    """A prompt, and the place of each sentence in it."""

    prompt: str
    sentences: tuple[Sentence, ...]
    spans: tuple[Span, ...]  # characters of the prompt


# --- reading ---


def read_documents(documents: Any) -> tuple[Document, ...]:
    """Documents from a list of texts, a mapping of ids to texts, or a list of objects that have a text.

    >>> read_documents(["One.", "Two."])
    (Document(id='1', text='One.'), Document(id='2', text='Two.'))
    >>> read_documents({"a.txt": "One."})
    (Document(id='a.txt', text='One.'),)
    >>> read_documents([{"text": "One.", "metadata": {"title": "A"}}, {"id": "A", "text": "Two."}])
    (Document(id='A', text='One.'), Document(id='A (2)', text='Two.'))
    """
    if isinstance(documents, Mapping):
        pairs = [(str(name), _text_of(item, f"document {name!r}")) for name, item in documents.items()]
    elif isinstance(documents, Iterable) and not isinstance(documents, str | bytes):
        listed = list(documents)
        pairs = [
            (_id_of(item) or str(number), _text_of(item, f"document {number}")) for number, item in enumerate(listed, 1)
        ]
    else:
        raise InputError(
            "`documents` must be a list of texts, a mapping of ids to texts, or a list of objects with a text, "
            f"got a {type(documents).__name__}: put a single text into a list"
        )
    if not pairs:
        raise InputError("`documents` is empty: give at least one document")
    return tuple(_with_unique_ids(pairs))


def _text_of(item: Any, name: str) -> str:
    text = item if isinstance(item, str) else _find(item, _TEXT_NAMES)
    if not isinstance(text, str):
        raise InputError(
            f"{name} has no text: give a text, or an object with 'page_content', 'text' or 'content' that is a text, "
            f"got a {type(item).__name__}"
        )
    if not text.strip():
        raise InputError(f"{name} is empty: leave it out")
    return _check_unicode(text, name)


def _check_unicode(text: str, name: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is not valid Unicode text: {error.reason}") from error
    return text


def _id_of(item: Any) -> str | None:
    """The id of an object, or a title from its metadata."""
    if isinstance(item, str):
        return None
    known = _find(item, _ID_NAMES)
    metadata = _find(item, _METADATA_NAMES)
    if isinstance(metadata, Mapping):
        known = next((metadata[name] for name in _TITLE_NAMES if metadata.get(name) not in (None, "")), known)
    return None if known in (None, "") else str(known)


def _find(item: Any, names: Sequence[str]) -> Any:
    """The first of these entries or attributes that an object has."""
    if isinstance(item, Mapping):
        return next((item[name] for name in names if name in item), None)
    return next((value for name in names if (value := getattr(item, name, None)) is not None), None)


def _with_unique_ids(pairs: Iterable[tuple[str, str]]) -> Iterator[Document]:
    seen: set[str] = set()
    for number, (name, text) in enumerate(pairs, 1):
        unique, copy = _check_unicode(name, f"the id of document {number}"), 1
        while unique in seen:
            copy += 1
            unique = f"{name} ({copy})"
        seen.add(unique)
        yield Document(unique, text)


def load_documents(paths: Sequence[str | Path]) -> tuple[Document, ...]:
    """Documents from files and folders: .txt and .md are one document each, each line of .jsonl is one document."""
    pairs: list[Any] = []
    for path in map(Path, paths):
        for file in _files(path):
            pairs += _records(file) if file.suffix in RECORD_FILES else [{"id": _name(file), "text": _read(file)}]
    return read_documents(pairs)


def _name(file: Path) -> str:
    """The name of a file as valid Unicode text."""
    return os.fsencode(file.name).decode("utf-8", "replace")


def _files(path: Path) -> list[Path]:
    allowed = (*TEXT_FILES, *RECORD_FILES)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in allowed and file.is_file())
        if not files:
            raise FileError(f"the folder {str(path)!r} has no documents: put {', '.join(allowed)} files into it")
        return files
    if path.suffix not in allowed:
        raise FileError(f"cannot read documents from {str(path)!r}: give {', '.join(allowed)} files, or a folder")
    return [path]


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileError(f"cannot read the document {str(file)!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise FileError(f"the document {str(file)!r} is not text in UTF-8: convert it, or leave it out") from error
    if not text.strip():
        raise FileError(f"the document {str(file)!r} is empty: leave it out")
    return text.rstrip()


def _records(file: Path) -> list[Any]:
    records = []
    for number, line in enumerate(_read(file).split("\n"), 1):
        if not line.strip():
            continue
        where = f"line {number} of {str(file)!r}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(f'{where} is not JSON: give one object for each line, as {{"text": "…"}}') from error
        if not isinstance(record, Mapping | str):
            raise FileError(f'{where} is not a document: give an object, as {{"text": "…"}}')
        _text_of(record, where)
        records.append(record)
    return records


# --- the prompt ---


def check_templates(template: str, document_template: str) -> None:
    """Raise an error if a template lacks a field."""
    for name, text, fields in (
        ("template", template, ("documents", "question")),
        ("document_template", document_template, ("text",)),
    ):
        for field in fields:
            count = text.count(f"{{{field}}}") if isinstance(text, str) else 0
            if count != 1:
                raise InputError(f"`{name}` must contain {{{field}}} exactly once, found {count} times")


def layout_prompt(
    question: str,
    documents: Sequence[Document],
    template: str = TEMPLATE,
    document_template: str = DOCUMENT_TEMPLATE,
) -> Layout:
    """Fill the templates, and find the place of every sentence of every document.

    >>> layout = layout_prompt("Who?", [Document("1", "It is Ann. She left {question}.")], "{documents}|{question}")
    >>> layout.prompt
    'Document 1:\\nIt is Ann. She left {question}.|Who?'
    >>> [layout.prompt[start:end] for start, end in layout.spans]
    ['It is Ann.', ' She left {question}.']
    """
    check_templates(template, document_template)
    prompt, starts = "", [0] * len(documents)
    for part in _split(_FIELD, template):
        if part == "{question}":
            prompt += question
        elif part == "{documents}":
            for number, document in enumerate(documents):
                prompt += SEPARATOR if number else ""
                for piece in _split(_DOCUMENT_FIELD, document_template):
                    if piece == "{text}":
                        starts[number] = len(prompt)
                    fields = {"{text}": document.text, "{id}": document.id, "{number}": str(number + 1)}
                    prompt += fields.get(piece, piece)
        else:
            prompt += part
    sentences = tuple(split_documents(documents))
    spans = tuple((starts[s.document] + s.start, starts[s.document] + s.end) for s in sentences)
    return Layout(prompt, sentences, spans)


def split_documents(documents: Sequence[Document]) -> Iterator[Sentence]:
    """The sentences of all documents, in order."""
    for number, document in enumerate(documents):
        for start, end in split_sentences(document.text):
            yield Sentence(number, start, end)


def _split(field: re.Pattern[str], template: str) -> Iterator[str]:
    """The fields of a template and the texts between them.

    >>> list(_split(_FIELD, "a {question} b"))
    ['a ', '{question}', ' b']
    """
    end = 0
    for match in field.finditer(template):
        yield template[end : match.start()]
        yield match[0]
        end = match.end()
    yield template[end:]
