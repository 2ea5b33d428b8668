"""``explain``: what a config makes of a workload, down to the instructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilefleet.commands.common import Json, Url, connect, show, working
from tilefleet.commands.options import TargetFile, TargetName, Threads, named_target
from tilefleet.errors import ServerUnreachable, TilefleetError

if TYPE_CHECKING:
    from kernels.target import Target
    from tilefleet.measured import Measured
    from tuner.log.record import Record
    from worker.children.nursery import Nursery

_TIMEOUT_S = 120.0
_MEMORY_BYTES = 6 << 30


def explain(
    workload: Annotated[
        str,
        typer.Argument(help="A workload: its key or text, where it is known, or JSON.", show_default=False),
    ],
    config: Annotated[
        str | None,
        typer.Option(help="JSON, `best` (the fastest record) or `analysis`; by default the first there is."),
    ] = None,
    target: TargetName = "host",
    threads: Threads = 1,
    log: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Take records from this tuning log, not the server."),
    ] = None,
    target_file: TargetFile = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show the loops of a config, what they keep in which cache, its time, and its hottest instructions."""
    # Here, because they bring numpy along, which no other command should wait for.
    from kernels import target as targets
    from kernels.workload import base as workloads
    from tilefleet.explain_view import view
    from worker.children.nursery import Nursery

    with (
        Nursery(("tvm", "tuner.explain.explain")) as nursery,
        working("looking for what is known of the workload") as say,
    ):
        known, machine = _known(nursery, workload, target, target_file, log, url)
        versions = _call(nursery, "tuner.explain.explain:versions_in_child", None)
        records = known.of(machine, threads, versions)
        given, origin = _chosen(config, records, log)
        payload = {
            "workload": workloads.to_json(known.workload),
            "target": targets.to_json(machine),
            "threads": threads,
            "config": given,
        }
        say(f"compiling {known.workload}")
        explained = _call(nursery, "tuner.explain.explain:explain_in_child", payload)
    record = next((each for each in records if each.config.to_json() == explained["config"]), None)
    peak = known.peaks.get((machine.key, threads, record.clock)) if record else None
    result = {
        "workload": payload["workload"],
        "text": str(known.workload),
        "key": known.workload.key,
        "target": payload["target"],
        "threads": threads,
        "origin": origin,
        **explained,
        "measured_s": record.ranking_s if record else None,
        "clock": record.clock if record else None,
        "peak_gflops": peak,
    }
    show(result, as_json, view(known.workload, machine, threads, origin, explained, record, peak))


def _known(
    nursery: Nursery, wanted: str, target: str, file: Path | None, log: Path | None, url: str | None
) -> tuple[Measured, Target]:
    """What is known of the workload, and the target: the server's, else this machine's or a built-in."""
    from tilefleet import measured

    if log is not None:
        return measured.from_log(log, wanted), _local_target(nursery, target, file)
    try:
        with connect(url) as client:
            served = None if file else measured.server_target(client, target)
            machine = served or _local_target(nursery, target, file)
            return measured.from_server(client, wanted), machine
    except ServerUnreachable as error:
        workload = measured.parsed(wanted)
        if workload is None:
            raise TilefleetError(f"{error}; a workload given as JSON needs none") from None
        if url is not None:
            raise
        return measured.Measured(workload), _local_target(nursery, target, file)


def _local_target(nursery: Nursery, name: str, file: Path | None) -> Target:
    from kernels import target as targets

    if name == "host":
        return targets.from_json(_call(nursery, "worker.measure.host:host_target_in_child", None))
    return named_target(name, file)


def _chosen(wanted: str | None, records: list[Record], log: Path | None) -> tuple[dict[str, Any] | None, str]:
    """The config (None for the analysis's), and where it comes from in words."""
    from tilefleet import measured

    if wanted in (None, "best") and records:
        return records[0].config.to_json(), f"the best of {len(records)} measured configs"
    if wanted == "best":
        where = str(log) if log else "the server"
        raise TilefleetError(
            f"{where} has no record of this workload for this target and threads; try --config analysis"
        )
    if wanted in (None, "analysis"):
        return None, "the analysis's choice" + (", as nothing is measured" if wanted is None else "")
    try:
        return measured.json_object(wanted), "given"
    except ValueError as error:
        raise TilefleetError(f"--config is JSON, `best` or `analysis`: {error}") from None


def _call(nursery: Nursery, function: str, payload: Any) -> Any:
    """Call a function in a child; whatever ends it badly is one line."""
    from worker.children.nursery import ChildCrashed, ChildRaised, ChildTimeout

    try:
        return nursery.call(function, payload, timeout_s=_TIMEOUT_S, memory_bytes=_MEMORY_BYTES)
    except ChildRaised as raised:
        raise TilefleetError(raised.message) from None
    except ChildTimeout:
        raise TilefleetError(f"compiling took more than {_TIMEOUT_S:g} s") from None
    except ChildCrashed as crash:
        raise TilefleetError(f"the compiler died: {crash}") from None
