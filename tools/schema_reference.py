"""Print docs/reference/schemas.md: the fields of the JSON files, from the schemas of the package.

python tools/schema_reference.py > docs/reference/schemas.md
"""

import json
from collections.abc import Iterator
from typing import Any

from reagent.schemas import DOCUMENTS, read_schema

HEAD = """# JSON

`why.save("why.json")`, `citations.save(…)` and `reagent evaluate --json F` write these files; `reagent.load` and
`reagent show` read them. They contain no NaN and no Infinity. A file of an earlier version is still read. The JSON
Schemas are in the package:

```python
from reagent.schemas import read_schema

read_schema("explanation")  # or "evaluation", "citations"
```

A field in *italics* is optional. `tools/schema_reference.py` writes this page from the schemas.
"""


def main() -> None:
    print(render(), end="")


def render() -> str:
    return "\n".join([HEAD, *(describe(name) for name in DOCUMENTS)])


def describe(name: str) -> str:
    schema = read_schema(name)
    parts = [section(f"## {schema['title']}: `{schema['$id']}`", schema, name)]
    parts += [section(f"### {name.title()}: {part}", definition, name) for part, definition in schema["$defs"].items()]
    return "\n".join(parts)


def section(heading: str, schema: dict[str, Any], document: str) -> str:
    text = [schema["description"], ""] if "description" in schema else []
    return "\n".join([heading, "", *text, "| field | type | |", "|---|---|---|", *rows(schema, document, ""), ""])


def rows(schema: dict[str, Any], document: str, parent: str) -> Iterator[str]:
    """A row for each field, and for each field of an object inside."""
    for name, field in schema["properties"].items():
        path = f"`{parent}{name}`"
        shown = path if name in schema.get("required", ()) else f"*{path}*"
        text = " ".join(field.get("description", "").replace("|", "\\|").split())
        yield f"| {shown} | {type_of(field, document)} | {text} |"
        inner = field.get("items", field)
        if "properties" in inner:
            yield from rows(inner, document, f"{parent}{name}{'[]' if 'items' in field else ''}.")


def type_of(field: dict[str, Any], document: str) -> str:
    """A short form of a type, as `list of number, or null`."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{document}-{name.lower()})"
    if "anyOf" in field:
        return " or ".join(type_of(one, document) for one in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    kinds = field.get("type", "any")
    return " or ".join(_kind(kind, field, document) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _kind(kind: str, field: dict[str, Any], document: str) -> str:
    if kind != "array" or "items" not in field:
        return kind
    inner = type_of(field["items"], document)
    return f"list of ({inner})" if " or " in inner else f"list of {inner}"


if __name__ == "__main__":
    main()
