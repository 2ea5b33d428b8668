"""``calibrate``: the figures of a board, by measurements on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tilefleet import render
from tilefleet.commands.common import Json, show, working
from tilefleet.errors import TilefleetError

if TYPE_CHECKING:
    from tilefleet.calibrating import Calibration


def calibrate(
    board: Annotated[str, typer.Option(help="A board of --fleet, or one that this machine can start.")],
    fleet: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, envvar="TILEFLEET_FLEET", help="The fleet file that has the board."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", dir_okay=False, help="Write [board.figures] for a fleet file into this file."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Write into --output the board's target instead, with what was found, by this name."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure caches, memory and pipes of a board, in about a minute.

    They are the figures of a simulated board like it, or of a target of its own, by which kernels are chosen.
    Kernels of our own run there as candidates do. What a board does not tell is a line with the reason.
    """
    if output is not None and not output.absolute().parent.is_dir():
        raise TilefleetError(f"{output}: there is no folder {output.parent}; make it first")
    if target is not None and output is None:
        raise TilefleetError(f"--target {target} needs --output, the file that it is written into")
    with working(f"measuring {board}"):
        # Here, because it brings much along, which no other command should wait for.
        from tilefleet.calibrating import calibrated

        found = calibrated(board, fleet)
    if output is not None:
        output.write_text(found.toml() if target is None else found.target_toml(target))
    value = {"board": found.board, "target": found.target, "clock": found.clock}
    show({**value, "figures": [each.to_json() for each in found.figures]}, as_json, _table(found))


def _table(found: Calibration) -> Table:
    table = render.table("figure", "measured", "unit", "spread", "how", left=1)
    table.columns[-1].justify = table.columns[2].justify = "left"
    table.columns[-1].no_wrap = False
    for each in found.figures:
        value = (
            "-" if each.value is None else f"{each.value:,.0f}" if each.value >= 1000 else f"{each.value:.4g}"
        )
        spread = "-" if each.value is None else render.percent(each.spread)
        table.add_row(each.name, value, each.unit if each.value is not None else "", spread, each.how)
    return table
