"""``check`` and ``build``: a log applied to a model on this machine, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilefleet.commands.common import Json

Model = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An ONNX file.")]
Log = Annotated[Path, typer.Option("--log", exists=True, dir_okay=False, help="A tuning log.")]
TargetName = Annotated[str, typer.Option("--target", help="The target; `host` is this machine.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads a kernel may use.")]
ShapeOption = Annotated[
    list[str] | None, typer.Option("--shape", help="Shape of a dynamic input: name=1,3,224,224. Repeatable.")
]


def check(model: Model, log: Log, target: TargetName = "host", as_json: Json = False) -> None:
    """x."""


def build(model: Model, log: Log, target: TargetName = "host", as_json: Json = False) -> None:
    """x."""
