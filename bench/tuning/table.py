"""The bench's figures as a table of Markdown, and what they come to for each board and budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.timing import geomean

HEADS = (
    "model", "board", "threads", "budget s", "used s", "load", "trials", "job states", "stopwatch",
    "its error", "estimate / built", "peer / delivered", "seconds by phase",
)  # fmt: skip
SHOWN = ("searching", "remeasuring", "comparing", "building")


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print all rows, the machines they are of, and the means over models of each board and budget."""
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for row in rows:
        print(f"| {' | '.join(_cells(row))} |")
    kinds = sorted({_kind(row) for row in rows})
    for kind in kinds:
        stated = [row["verdict"]["gain"] for row in rows if _kind(row) == kind and row["verdict"]]
        timed = [row["stopwatch"]["gain"] for row in rows if _kind(row) == kind and row.get("stopwatch")]
        if stated:
            machine, board, threads, budget_s = kind
            told = f", by the stopwatch {geomean(timed):.3f} ({min(timed):.3f} at the least)" if timed else ""
            print(
                f"{board}, {threads} thread(s), {budget_s:g} s, {machine}: {len(stated)} models, untuned "
                f"over delivered {geomean(stated):.3f} ({min(stated):.3f} at the least){told}"
            )


def _kind(row: Mapping[str, Any]) -> tuple[str, str, int, float]:
    return row["machine"], row["board"], row["threads"], row["budget_s"]


def _cells(row: Mapping[str, Any]) -> list[str]:
    verdict, watch = row["verdict"], row.get("stopwatch")
    estimate, built = row["estimated_ms"], row["built_ms"]
    peer = verdict and verdict["peer_ms"] and f"{verdict['peer_ms'] / verdict['delivered_ms']:.2f}"
    return [
        row["model"],
        row["board"],
        str(row["threads"]),
        f"{row['budget_s']:g}",
        f"{row['elapsed_s']:.1f}",
        f"{row['load']:.0f}",
        str(row["trials"]),
        _span(verdict) + (" same" if verdict["same"] else "") if verdict else f"{row['state']}, no verdict",
        _span(watch) if watch else "",
        f"{watch['error']:.3f}" if watch else "",
        f"{estimate / built:.2f}" if estimate and built else "",
        peer or "",
        "/".join(f"{row['phases'].get(phase, 0):.0f}" for phase in SHOWN),
    ]


def _span(found: Mapping[str, float]) -> str:
    return f"{found['gain']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
