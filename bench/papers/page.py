"""The rows of bench.papers as lines and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TITLES = {
    "000": "int8 convolution as a matrix product on Armv8",
    "001": "micro-kernels tuned with the schedule, NHWC, depthwise",
    "002": "the fixed-point multiply in Arm's instructions",
    "003": "SConv: slicing analysis, packing on demand, MMA",
    "004": "two convolutions in slices on Hexagon",
}


def shown(figure: float | str | None) -> str:
    """Our figure, to be read."""
    if figure is None:
        return "-"
    return figure if isinstance(figure, str) else f"{figure:.3g}"


def line(row: dict[str, Any]) -> str:
    """One row, to be printed."""
    note = f" ({row['note']})" if row["note"] else ""
    return (
        f"{row['paper']} {row['claim']}: {row['paper_figure']}, ours {shown(row['our_figure'])} "
        f"{row['unit']} on {row['target']}, {row['clock']}{note}: {row['command']}"
    )


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How many rows have a figure."""
    made = sum(row["our_figure"] is not None for row in rows)
    return f"{made} of {len(rows)} claims have a figure of ours"


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """All rows as a page, a table a paper, and the commands by number below."""
    commands = list(dict.fromkeys(row["command"] for row in rows))
    lines = [
        "# The papers, claim by claim",
        "",
        "Written by `python -m bench.papers`. What a paper claims is beside what this project reaches. "
        "The clock `simulated` is that of a simulated board ([simulated-clock.md](simulated-clock.md)): it "
        "compares code on the same board and forecasts no real one, so our figures and the paper's are of "
        "different machines. All are of 28 November, but paper 003 on x86 and all families on power10-sim, "
        "where memory has cost more since: these are of 24 to 26 November. A dash means that there "
        "is no figure yet, "
        "and the note says why. The number at the end of a row is its command, below. Where a note names "
        "fewer layers than there are, the bench was stopped there, and goes on when it is called again; "
        "tables of all layers by more configs are "
        "in [measured/simulated-2026-11.md](measured/simulated-2026-11.md).",
        "",
        summary(rows) + ".",
    ]
    for paper, title in TITLES.items():
        lines += ["", f"## {paper}: {title}", "", "| claim | paper | ours | unit | target | clock | note | |"]
        lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for row in (each for each in rows if each["paper"] == paper):
            cells = [row["claim"], row["paper_figure"], shown(row["our_figure"]), row["unit"], row["target"]]
            cells += [row["clock"], row["note"], str(commands.index(row["command"]) + 1)]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    lines += ["", "## Commands", ""]
    lines += [f"{number}. `{command}`" for number, command in enumerate(commands, 1)]
    return "\n".join(lines) + "\n"
