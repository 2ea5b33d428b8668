"""What users call: the help of every command, and the API."""

from __future__ import annotations

import json
from typing import Any

import typer
from typer.main import get_command

from server.app import create_app
from server.settings import Settings
from tilefleet.cli import COMMANDS, app

API = "openapi"


def keys(_: object = None) -> list[str]:
    """The commands and the API."""
    return [API, "tilefleet", *COMMANDS]


def text(key: str) -> str:
    """The help of a command and of those below it, or the OpenAPI document."""
    if key == API:
        return json.dumps(create_app(Settings()).openapi(), indent=1) + "\n"
    command: Any = get_command(app)
    top = typer.Context(command, info_name="tilefleet")
    if key == "tilefleet":
        return str(command.get_help(top)) + "\n"
    return "\n".join(_help(command.get_command(top, key), key, top)) + "\n"


def _help(command: Any, name: str, above: Any) -> list[str]:
    context = type(above)(command, info_name=name, parent=above)
    lines = [command.get_help(context)]
    for below in getattr(command, "commands", {}):
        lines += _help(command.get_command(context, below), below, context)
    return lines
