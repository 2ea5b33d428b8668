"""``export``: records for other tools."""

from __future__ import annotations

import importlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilefleet.commands.common import Url, connect, console, working
from tilefleet.commands.local import read_log_file
from tilefleet.errors import TilefleetError

if TYPE_CHECKING:
    from tuner.log.record import Record


class Format(StrEnum):
    """What other tools read."""

    CSV = "csv"
    PARQUET = "parquet"
    T4 = "t4"


def export(
    job: Annotated[int | None, typer.Argument(metavar="JOB", help="Number of the job.")] = None,
    target: Annotated[str | None, typer.Option(help="All of a target's records instead of a job's.")] = None,
    log: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Records of a tuning log, without a server."),
    ] = None,
    format: Annotated[Format, typer.Option(help="csv, parquet (needs pyarrow) or t4.")] = Format.CSV,
    workload: Annotated[str | None, typer.Option(help="Only this workload's records, by its key.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    url: Url = None,
) -> None:
    """Write all records of a job, a target or a log, failed trials too, as a table or as T4."""
    from tuner.log.record import read_log
    from tuner.log.rows import rows, to_csv

    if sum(given is not None for given in (job, target, log)) != 1:
        raise typer.BadParameter("give one of JOB, --target and --log", param_hint="JOB")
    if format is Format.PARQUET and output is None:
        raise typer.BadParameter("a Parquet file needs a name", param_hint="--output")
    pyarrow = _pyarrow() if format is Format.PARQUET else None
    with working("reading records"):
        if log is not None:
            found, _ = read_log_file(log)
        else:
            with connect(url) as client:
                every = (
                    client.job_log(job, "all") if job is not None else client.target_log(str(target), "all")
                )
                found = list(read_log(every))
    if workload is not None:
        found = [record for record in found if record.workload.key == workload]
    if not found:
        raise TilefleetError("there is no record to export")
    if pyarrow is not None and output is not None:
        table, parquet = pyarrow
        parquet.write_table(table.Table.from_pylist(rows(found)), output)
    else:
        text = _t4(found) if format is Format.T4 else to_csv(found)
        if output is None:
            sys.stdout.write(text)
            return
        output.write_text(text)
    console().print(f"{len(found)} records in {output}")


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise TilefleetError("Parquet needs pyarrow: pip install pyarrow; or take --format csv") from None


def _t4(found: list[Record]) -> str:
    from tuner.log import t4

    try:
        return t4.dumps(found)
    except ValueError as error:
        keys = {record.workload.key: str(record.workload) for record in found}
        listed = "\n".join(f"  --workload {key}  ({text})" for key, text in keys.items())
        raise TilefleetError(f"{error}; choose with\n{listed}") from None
