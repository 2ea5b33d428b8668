"""A hook of MkDocs: the page of every operation of the REST API, made from the API's own document."""

from __future__ import annotations

import json
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = "api-reference.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those of the site."""
    from server.app import create_app
    from server.settings import Settings

    files.append(File.generated(config, PAGE, content=reference(create_app(Settings()).openapi())))
    return files


def reference(document: dict[str, Any]) -> str:
    """The page: operations by tag, then the schemas that they name, each field with its type and text."""
    parts = ["# REST API: every operation", "[What they mean](api.md) is a page of its own.\n"]
    for tag in document["tags"]:
        parts.append(f"## {tag['name'].capitalize()}\n{tag['description']}\n")
        for path, methods in document["paths"].items():
            parts += [
                _operation(f"{method.upper()} {path}", operation)
                for method, operation in methods.items()
                if tag["name"] in operation.get("tags", ())
            ]
    parts.append("## Schemas")
    parts += [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts) + "\n"


def _operation(name: str, operation: dict[str, Any]) -> str:
    lines = [f"### {name}", operation.get("summary", "") + "\n", operation.get("description", "") + "\n"]
    rows = [
        (f"`{each['name']}`", _type(each["schema"]), _words(each))
        for each in operation.get("parameters", ())
        if each["in"] != "header"
    ]
    lines += _table(("parameter", "type", "meaning"), rows)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"Body (`{kind}`): {_type(content.get('schema', {}))}\n")
    for code, answer in operation.get("responses", {}).items():
        if code.startswith("2"):
            types = {_type(content.get("schema", {})) for content in answer.get("content", {}).values()}
            lines.append(f"Answer {code}: {', '.join(sorted(types)) or 'nothing'}\n")
    return "\n".join(lines)


def _schema(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {name}", schema.get("description", "") + "\n"]
    rows = [
        (f"`{field}`", _type(facts), _words(facts)) for field, facts in schema.get("properties", {}).items()
    ]
    lines += _table(("field", "type", "meaning"), rows)
    if "enum" in schema:
        lines.append(", ".join(f"`{value}`" for value in schema["enum"]) + "\n")
    return "\n".join(lines)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [" | ".join(("", *cells, "")).strip() for cells in (head, ("---",) * len(head), *rows)]
    return [*lines, ""] if rows else []


def _words(facts: dict[str, Any]) -> str:
    text = " ".join(facts.get("description", "").split()).replace("|", "\\|")
    default = facts.get("default", facts.get("schema", {}).get("default"))
    return text if default is None else f"{text} Default: `{json.dumps(default)}`.".strip()


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words, with a link where it has a name."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{re.sub(r'[^a-z0-9_-]', '', name.lower())})"
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, several)))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", schema.get("const", "anything")))
