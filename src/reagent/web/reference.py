"""The page /docs: the OpenAPI description as plain HTML, without anything from outside."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from starlette.responses import HTMLResponse


def reference(description: Mapping[str, Any]) -> HTMLResponse:
    """Every route, what it takes and what it answers."""
    about = description["info"]
    routes = "\n".join(_routes(description["paths"]))
    schemas = "\n".join(_schemas(description.get("components", {}).get("schemas", {})))
    return HTMLResponse(
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(about["title"])} API</title>
<link rel="stylesheet" href="/assets/reference.css">
</head>
<body>
<main>
<h1>{escape(about["title"])} {escape(about["version"])}</h1>
<p>{escape(about.get("summary", ""))}</p>
<p>For programs: <a href="/openapi.json">openapi.json</a>. For people: <a href="/">the page</a>.</p>
{routes}
<h2>Schemas</h2>
{schemas}
</main>
</body>
</html>
"""
    )


def _routes(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, route in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(route.get('description') or route.get('summary', ''))}</p>"
            if "requestBody" in route:
                yield f"<p>Body: {_schema_name(route['requestBody'])}</p>"
            rows = (
                f"<tr><td>{escape(code)}</td><td>{escape(answer.get('description', ''))}</td>"
                f"<td>{_schema_name(answer)}</td></tr>"
                for code, answer in sorted(route["responses"].items())
            )
            yield f"<table><tr><th>code</th><th>meaning</th><th>answer</th></tr>{''.join(rows)}</table>"


def _schema_name(content: Mapping[str, Any]) -> str:
    """A link to a schema of this page, or what kind of content it is."""
    for kind, entry in content.get("content", {}).items():
        schema = entry.get("schema", {})
        name = (schema.get("$ref") or schema.get("items", {}).get("$ref", "")).rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else f"<code>{escape(kind)}</code>"
    return ""


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
        yield f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
