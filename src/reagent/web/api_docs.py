"""The page /docs: the OpenAPI description as plain HTML that loads nothing from other sites."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from starlette.responses import HTMLResponse


def render_api_docs(description: Mapping[str, Any]) -> HTMLResponse:
    """Show every route with its body and its responses."""
    info = description["info"]
    routes = "\n".join(_render_routes(description["paths"]))
    schemas = "\n".join(_render_schemas(description.get("components", {}).get("schemas", {})))
    return HTMLResponse(
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(info["title"])} API</title>
<link rel="stylesheet" href="/assets/api_docs.css">
</head>
<body>
<main>
<h1>{escape(info["title"])} {escape(info["version"])}</h1>
<p>{escape(info.get("summary", ""))}</p>
<p>OpenAPI description: <a href="/openapi.json">openapi.json</a>. Web page: <a href="/">reagent</a>.</p>
{routes}
<h2>Schemas</h2>
{schemas}
</main>
</body>
</html>
"""
    )


def _render_routes(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, route in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(route.get('description') or route.get('summary', ''))}</p>"
            if "requestBody" in route:
                yield f"<p>Body: {_link_schema(route['requestBody'])}</p>"
            rows = (
                f"<tr><td>{escape(code)}</td><td>{escape(response.get('description', ''))}</td>"
                f"<td>{_link_schema(response)}</td></tr>"
                for code, response in sorted(route["responses"].items())
            )
            yield f"<table><tr><th>code</th><th>meaning</th><th>content</th></tr>{''.join(rows)}</table>"


def _link_schema(content: Mapping[str, Any]) -> str:
    """Link to a schema on this page, or name the media type."""
    for media_type, entry in content.get("content", {}).items():
        schema = entry.get("schema", {})
        name = (schema.get("$ref") or schema.get("items", {}).get("$ref", "")).rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else f"<code>{escape(media_type)}</code>"
    return ""


def _render_schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
        yield f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
