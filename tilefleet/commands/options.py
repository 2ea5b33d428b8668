"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernels.numerics import Numerics

ModelFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="An ONNX or TFLite file.")
]
TargetName = Annotated[str, typer.Option("--target", help="The target; `host` is this machine.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads a kernel may use.")]
NumericsOption = Annotated[
    Numerics, typer.Option("--numerics", help="Allow relaxed configs: none, for floats, or for all.")
]
DataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        exists=True,
        dir_okay=False,
        help="A file that the model keeps weights in and that is not beside it. Repeatable.",
    ),
]
ValueOption = Annotated[
    list[str] | None,
    typer.Option("--value", help="Value that an input shall always have: sr=16000. Repeatable."),
]


def read_values(texts: list[str] | None) -> dict[str, list[float]]:
    """Values of --value by input name."""
    return dict(_read_value(text) for text in texts or [])


def _read_value(text: str) -> tuple[str, list[float]]:
    name, _, numbers = text.rpartition("=")
    try:
        values = [_number(number) for number in numbers.split(",")]
    except ValueError:
        values = []
    if not name or not values:
        raise typer.BadParameter(f"{text!r} is not like name=16000 or name=0.5,1", param_hint="--value")
    return name, values


def _number(text: str) -> float:
    """An integer as such, whatever its size."""
    try:
        return int(text)
    except ValueError:
        return float(text)
