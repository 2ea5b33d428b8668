"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernels.numerics import Numerics
from tilefleet.errors import TilefleetError

if TYPE_CHECKING:
    from kernels.target import Target

ModelFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="An ONNX or TFLite file.")
]
TargetName = Annotated[str, typer.Option("--target", help="The target; `host` is this machine.")]
TargetFile = Annotated[
    Path | None, typer.Option("--targets", help="A fleet file, or one of targets, with more targets.")
]
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


def named_target(name: str, file: Path | None) -> Target:
    """The target called ``name`` of the catalogue or of ``file``; raises TilefleetError."""
    # Here, because they bring much along, which no other command should wait for.
    from kernels.target import CATALOGUE
    from worker.fleet.fleet_file import FleetError, read_targets

    try:
        known = {**CATALOGUE, **(read_targets(file) if file else {})}
    except FleetError as error:
        raise TilefleetError(str(error)) from None
    if name not in known:
        there_are = ", ".join(sorted(["host", *known]))
        raise TilefleetError(f"unknown target {name!r}; there are: {there_are}; others by --targets FILE")
    return known[name]
