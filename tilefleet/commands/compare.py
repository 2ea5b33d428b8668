"""``compare``: a model by every runtime that is installed, and by ours, in one table."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from kernels.numerics import Numerics
from tilefleet import render
from tilefleet.commands.common import Url, show, working
from tilefleet.commands.known_records import known_by_logs, known_by_server
from tilefleet.commands.local import resolve_target
from tilefleet.commands.options import (
    DataOption,
    ModelFile,
    NumericsOption,
    Threads,
    ValueOption,
    read_values,
)
from tilefleet.commands.shape_options import ShapeOption, read_sets
from tilefleet.errors import TilefleetError, named
from worker.fleet.drivers.sim_models import SIM_MODELS

if TYPE_CHECKING:
    from tilefleet.comparing import Comparison, Row

COLUMNS = ("runtime", "version", "ms", "p90", "times best", "start-up ms", "resident MB", "file MB", "error")


def compare(
    model: ModelFile,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log",
            exists=True,
            dir_okay=False,
            help="A tuning log, for ours; without, what the server knows. Repeatable.",
        ),
    ] = None,
    threads: Threads = 1,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    board: Annotated[
        str | None,
        typer.Option(
            help="A simulated board, rpi4-sim, on which all run by its clock; without, this machine.",
            show_default=False,
        ),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download what --board needs, where it is not there yet.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=3, help="Turns that each runtime gets at the most.")] = 21,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write all figures into this file.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", dir_okay=False, help="Write the table into this file.")
    ] = None,
    url: Url = None,
) -> None:
    """Run a model by every runtime that is installed, and by ours, in turns; the fastest is said.

    onnxruntime, LiteRT, OpenVINO, ncnn, MNN, TVM's default, and ours untuned, tuned (by --log, or by what a
    server knows of the model's layers) and as a C library. One that cannot do it is a row with its reason;
    exit code 1 when none can.
    With --board all run in an emulated Python by the board's simulated clock, TVM's default and ours as C
    libraries.
    """
    with working(f"{model.name}: looking for runtimes") as say:
        # Here, because they bring TVM along, which no other command should wait for.
        from compiler.intake.assemble import assembled
        from tilefleet import comparing_simulated
        from tilefleet.comparing import Wanted
        from tilefleet.comparing import compare as run

        sets = read_sets(shape)
        if len(sets) > 1:
            raise TilefleetError("compare takes one set of shapes")
        guest = None if board is None else comparing_simulated.guest_for(board, fetch, threads)
        target = resolve_target("host" if board is None else SIM_MODELS[board].target)
        try:
            with assembled(model, read_values(value), data or ()) as whole:
                wanted = Wanted(whole, target, threads, numerics, sets[0] if sets else None, [], [], rounds)
                known = known_by_logs(log) if log else known_by_server(url, wanted)
                wanted = replace(wanted, records=known.records, relayouts=known.relayouts)
                if guest is None:
                    found = run(wanted, say)
                else:
                    found = comparing_simulated.compare_simulated(wanted, guest, say)
        except ValueError as error:
            raise TilefleetError(named(model, error)) from None
    title = f"{model.name}, {'1 thread' if threads == 1 else f'{threads} threads'}"
    title += "" if board is None else f", {board} (simulated)"
    words = [*verdict(found), *([f"tuned by {known.where}"] if known.records else [])]
    table = render.table(*COLUMNS, left=2)
    for row in found.rows:
        if not row.why:
            table.add_row(*figures(row, found))
    failed = [f"{row.name} {row.version}: {row.why}" for row in found.rows if row.why]
    if json_file is not None:
        report = {"model": model.name, "board": board, "threads": threads, **_json(found)}
        json_file.write_text(json.dumps(report, indent=1) + "\n")
    if markdown is not None:
        markdown.write_text(as_markdown(title, found, words))
    show(None, False, Group(title, table, *failed, *words))
    if found.winner is None:
        ours = next((row.why for row in found.rows if _ours(row)), "")
        raise TilefleetError(f"{model}: nobody computes it{ours and f': {ours}'}")


def figures(row: Row, found: Comparison) -> list[str]:
    """A row's cells."""
    best = found.winner.seconds if found.winner else None
    return [
        row.name,
        row.version,
        render.milliseconds(row.seconds),
        render.milliseconds(row.p90_s),
        f"{row.seconds / best:.2f}" if row.seconds and best else "-",
        render.number(row.start_s and 1e3 * row.start_s, 0),
        render.number(row.resident_bytes and row.resident_bytes / 1e6, 0),
        render.number(row.file_bytes and row.file_bytes / 1e6, 2),
        "-" if row.error is None else f"{row.error:.0e}",
    ]


def verdict(found: Comparison) -> list[str]:
    """Who wins, by how much, and what else is to be said."""
    winner, lines = found.winner, []
    if winner is None or winner.seconds is None:
        lines.append("nobody computes it")
    else:
        ours = next((row for row in found.rows if row.right and _ours(row)), None)
        other = next((row for row in found.rows if row.right and not _ours(row)), None)
        best, second = (ours, other) if _ours(winner) else (other, ours)
        against = "nobody else computes it"
        if best and second and best.seconds and second.seconds:
            against = f"{second.seconds / best.seconds:.2f} times as fast as {second.name}"
        lines.append(f"{winner.name} wins: {against}")
    if found.undefined:
        lines.append(f"errors are not known: {found.undefined}")
    elif found.by:
        lines.append(f"errors are against what {found.by} computes without optimisations")
    if any(row.alone for row in found.rows):
        lines.append("in one process they did not run: each was timed in its own")
    if found.missing:
        lines.append(f"not installed: {', '.join(found.missing)}")
    return lines


def as_markdown(title: str, found: Comparison, words: list[str]) -> str:
    """The table as Markdown."""
    lines = [f"# {title}", "", f"| {' | '.join(COLUMNS)} |", f"| --- | --- |{' ---: |' * (len(COLUMNS) - 2)}"]
    lines += [f"| {' | '.join(figures(row, found))} |" for row in found.rows if not row.why]
    lines += [f"| {row.name} | {row.version} | {row.why} |{' |' * 6}" for row in found.rows if row.why]
    return "\n".join([*lines, "", *(f"- {each}" for each in words)]) + "\n"


def _ours(row: Row) -> bool:
    from tilefleet.comparing import OURS

    return row.name.startswith(OURS)


def _json(found: Comparison) -> dict[str, Any]:
    winner = found.winner
    return {
        "winner": winner and winner.name,
        "defined_by": found.by,
        "undefined": found.undefined,
        "not_installed": list(found.missing),
        "rows": [asdict(row) for row in found.rows],
    }
