"""``best``, ``log``, ``load``, ``baselines``: what the server knows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kernels.numerics import Numerics
from tilefleet import render
from tilefleet.commands.common import JobId, Json, Url, connect, console, print_json, show, working
from tilefleet.commands.options import NumericsOption, TargetName, Threads
from tilefleet.errors import TilefleetError

_SAID = 500
"""Lines of a log from one word on how many have come to the next."""


def best(
    workload: Annotated[str | None, typer.Argument(help="Key of a workload; without, all of them.")] = None,
    target: TargetName = "host",
    threads: Threads = 1,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    layouts: Annotated[
        str, typer.Option(help="What it reads and writes, such as nhwc or nchw8c>nchw; or any.")
    ] = "nchw",
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show the best config of a workload, or of every workload tuned for a target."""
    _check_layouts(layouts)
    with connect(url) as client:
        if workload:
            # As for a job: real boards come first, else records are of a simulated board's clock.
            clocks = [board.clock for board in client.boards() if board.target == target]
            clock = clocks[0] if clocks and "wall" not in clocks else "wall"
            found = [client.best(workload, target, threads, clock, numerics, layouts)]
        else:
            found = list(client.bests(target, threads, numerics, layouts))
    if not found and not as_json:
        raise TilefleetError(
            f"nothing was tuned for target {target!r} with threads {threads} and layouts {layouts} yet"
        )
    show(found[0] if workload else found, as_json, render.records(found))


def _check_layouts(layouts: str) -> None:
    if layouts in ("nchw", "any"):
        return
    # Here, because it brings all targets along, which no other command should wait for.
    from kernels.layout import Layouts

    try:
        Layouts.read(layouts)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--layouts") from None


def log(
    job: Annotated[int | None, typer.Argument(metavar="JOB", help="Number of the job.")] = None,
    target: Annotated[str | None, typer.Option(help="All of a target's records instead of a job's.")] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="What a build needs: the best of each workload and layouts, and recommended ones (default).",
        ),
    ] = False,
    top: Annotated[int | None, typer.Option(min=1, help="The N best of each workload and layouts.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All records, failed trials too.")] = False,
    numerics: Annotated[
        Numerics | None, typer.Option(help="Leave out what it does not allow; of a job nothing unless told.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the JSON Schema of a log's lines instead.")
    ] = False,
    url: Url = None,
) -> None:
    """Download the tuning log of a job or a target: JSON lines, one a record."""
    if json_schema:
        from tuner.log.schema import log_schema

        print_json(log_schema())
        return
    if (job is None) == (target is None):
        raise typer.BadParameter("give either a JOB or --target", param_hint="JOB")
    if best + (top is not None) + everything > 1:
        raise typer.BadParameter("--best, --top and --all exclude each other", param_hint="--best")
    select = "all" if everything else "top" if top else "best"
    with connect(url) as client:
        if job is not None:
            lines = client.job_log(job, select, top, numerics)
        else:
            lines = client.target_log(str(target), select, top, numerics)
        count = _write(lines, output)
    if output:
        console().print(f"{count} records in {output}")


def baselines(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Measure how long onnxruntime takes for each layer of a job, on this machine, for the dashboard."""
    # Here, because it brings numpy along, which no other command should wait for.
    from tilefleet import baselines as library

    with connect(url) as client, working("timing onnxruntime on each layer"):
        tasks = client.tasks(job)
        stored = library.store(client, client.job(job), tasks)
    table = render.table("workload", "best ms", "library ms", "library")
    for task in tasks:
        found = stored[task.workload_key]
        if isinstance(found, str):
            table.add_row(task.text, render.milliseconds(task.best_s), "-", found)
        else:
            figures = [render.milliseconds(seconds) for seconds in (task.best_s, found.seconds)]
            table.add_row(task.text, *figures, f"{found.library} {found.version}")
    show([each for each in stored.values() if not isinstance(each, str)], as_json, table)


def load(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A tuning log, or T4 of our kernels.")
    ],
    target: Annotated[str | None, typer.Option(help="Refuse records of any other target.")] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Add a tuning log's records to the server's, all or nothing; known ones are only counted."""
    # Here, because it brings numpy along, which no other command should wait for.
    from tuner.log.t4 import as_log

    with connect(url) as client, file.open() as text, working(f"{file.name}: being stored"):
        try:
            lines = as_log(text)
            result = client.import_log(lines, target)
        except ValueError as error:
            raise TilefleetError(f"{file}: {error}") from None
    show(result, as_json, f"{result.imported} records added, {result.duplicates} known before")


def forget(
    record: Annotated[int | None, typer.Argument(metavar="RECORD", help="Number of a record.")] = None,
    imported: Annotated[bool, typer.Option("--imported", help="All that came in logs.")] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="All that cannot be read.")] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Delete records that came in logs and were not measured here since, or that are damaged."""
    if (record is not None) + imported + damaged != 1:
        raise typer.BadParameter("give one of RECORD, --imported and --damaged", param_hint="RECORD")
    with connect(url) as client:
        if imported:
            count = client.forget_imported()
        else:
            numbers = [each.id for each in client.damaged()] if record is None else [record]
            for number in numbers:
                client.forget(number)
            count = len(numbers)
    from server.records.schemas import Forgotten

    show(Forgotten(records=count), as_json, f"{count} records deleted")


def _write(lines: Iterator[str], output: Path | None) -> int:
    """Write the lines, a file only when all have come; how many records there were."""
    if output is None:
        if sys.stdout.isatty():  # the lines themselves show that it goes on
            return sum(_is_record(line) for line in lines if sys.stdout.write(line))
        return sum(_is_record(line) for line in _clocked(lines) if sys.stdout.write(line))
    part = output.with_name(output.name + ".part")
    try:
        with part.open("w") as file:
            count = sum(_is_record(line) for line in _clocked(lines) if file.write(line))
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    return count


def _clocked(lines: Iterator[str]) -> Iterator[str]:
    """The lines; a terminal shows how many have come, and a clock."""
    with working("reading the log") as say:
        for number, line in enumerate(lines, start=1):
            yield line
            if number % _SAID == 0:
                say(f"reading the log: {number} lines")


def _is_record(line: str) -> bool:
    """Whether a line of a log is a record, and not the times of layout changes."""
    return '"relayouts"' not in line or "relayouts" not in json.loads(line)
