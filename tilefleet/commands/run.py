"""``run``: a model, built from what is known, run whole on a board of the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from kernels.numerics import Numerics
from tilefleet import render
from tilefleet.commands.common import Json, Url, show, working
from tilefleet.commands.options import (
    DataOption,
    ModelFile,
    NumericsOption,
    Threads,
    ValueOption,
    read_values,
)
from tilefleet.commands.shape_options import ShapeOption, read_fixed
from tilefleet.errors import TilefleetError

if TYPE_CHECKING:
    from server.profiles.schemas import Profile

PATIENCE_S = 1000.0
"""The server gives up before that, and says why."""


def run(
    model: ModelFile,
    board: Annotated[
        str | None, typer.Option(help="The board; see `tilefleet boards`.", show_default=False)
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Any free board of this target. Without this and --board: host.", show_default=False
        ),
    ] = None,
    threads: Threads = 1,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--input",
            exists=True,
            dir_okay=False,
            help="An .npz file with an array for every input, by name. Without, they are random.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs into this .npz file.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Run a model whole on a board: what it takes, in all and by operator, and whether it is right.

    The build takes the best configs that the server knows, and the analysis's for layers without any.
    """
    if board is not None and target is not None:
        raise TilefleetError("give either --board or --target")
    # Here, because numpy takes a while to import, which no other command should wait for.
    from tilefleet.client import Client
    from tilefleet.tensors import read_arrays, to_array, write_arrays

    fed = None if inputs is None else read_arrays(inputs)
    shapes = read_fixed(shape, "run")
    with Client(url, timeout_s=PATIENCE_S) as client, working(f"{model.name}: being built and run"):
        found = client.profile(
            model=client.upload_for(model, shapes, read_values(value), data or ()).hash,
            board=board,
            target=None if board else target or "host",
            threads=threads,
            shapes=shapes or None,
            numerics=numerics,
            inputs=fed,
            outputs=output is not None,
        )
    if output is not None:
        write_arrays(output, {name: to_array(each) for name, each in (found.outputs or {}).items()})
    shown = found.model_dump(mode="json", exclude={"outputs"})
    show(shown, as_json, _rendered(model.name, found, output))
    if found.check.wrong:
        raise TilefleetError(f"{model}: the built model is wrong: {found.check.wrong}")


def _rendered(name: str, found: Profile, output: Path | None) -> Group:
    from tuner.backend.check import Check

    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    marked = render.mark(found.clock)
    lines = [
        f"{name} on {found.board} ({found.target}, {threads}): "
        f"{render.number(found.measured_ms, 2)} ms{marked}, "
        f"spread {render.percent(found.spread)}; {render.number(found.estimated_ms, 2)} ms expected",
        f"{found.from_records} layers by records, {found.by_analysis} by the analysis; "
        f"{found.memory.weights_bytes / 1e6:.1f} MB of weights, "
        f"{found.memory.workspace_bytes / 1e6:.1f} MB between functions",
    ]
    operators = render.table("operator", "tuned", "calls", "ms", "share", left=2)
    for each in found.operators:
        figures = (f"{each.calls}", render.milliseconds(each.ms / 1e3), render.percent(each.share))
        operators.add_row(each.name, "yes" if each.workload_key else "no", *figures)
    return Group(
        *lines, operators, str(Check(**vars(found.check))), *([f"outputs in {output}"] if output else [])
    )
