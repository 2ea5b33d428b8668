"""Each row of the table of vector instructions, as it was measured and as the board's clock has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.silicon.instructions import Figure
from bench.silicon.loops import Loop
from bench.silicon.programs import measured
from bench.silicon.rvv.forms import STOPS_QEMU, copy
from bench.silicon.rvv.table import Row, Type, types

_COPIES = 64
_SETUP = ("mv t0, s2", "mv t2, s2", "li t3, {bytes}")


@dataclass(frozen=True)
class Result:
    """A row on the board: cycles by type, or why it has none."""

    row: Row
    figures: dict[Type, Figure]
    why_not: str = ""

    @property
    def outside(self) -> dict[Type, Figure]:
        """Those too far from the measured ones."""
        return {type_: figure for type_, figure in self.figures.items() if not figure.within}


def compared(rows: Sequence[Row], board: str, folder: Path) -> list[Result]:
    """The result of each row on ``board``. ``folder`` gets the program; raises as ``programs.measured``."""
    runs = [row for row in rows if not STOPS_QEMU.match(row.text)]
    loops = {(row, type_): loop(row, type_) for row in runs for type_ in row.cycles}
    found = measured(list(dict.fromkeys(loops.values())), board, folder) if loops else {}
    known = {row: {type_: found[loops[row, type_]] for type_ in row.cycles} for row in runs}
    return [
        _result(row, known[row])
        if row in known
        else Result(row, {}, "QEMU ends with an assertion where it translates it")
        for row in rows
    ]


def loop(row: Row, type_: Type) -> Loop:
    """Copies that write other registers in turn, as the table's source has them."""
    count = row.copies(type_)
    lines = tuple(copy(row, number * 8 // count) for number in range(count))
    setup = [line.format(bytes=type_.bits // 8) for line in _SETUP]
    setup.append(f"vsetvli t1, zero, e{type_.bits}, {type_.group}, ta, ma")
    return Loop(lines, count, tuple(setup), _COPIES)


def _result(row: Row, cycles: dict[Type, float | None]) -> Result:
    known = {type_: Figure(row.cycles[type_], taken) for type_, taken in cycles.items() if taken is not None}
    return Result(row, known, "" if known else "the emulated processor does not know it")


def told(results: Sequence[Result], board: str, core: str) -> str:
    """By type, then what is outside, then what was not compared."""
    lines = [f"{board} beside {core}: rows with all figures within 5 %: {_rows(results)}; figures by type:"]
    for type_ in types():
        figures = [result.figures[type_] for result in results if type_ in result.figures]
        if figures:
            lines.append(f"  {type_.name:6} {sum(figure.within for figure in figures)}/{len(figures)}")
    every = [figure for result in results for figure in result.figures.values()]
    lines.append(f"  all    {sum(figure.within for figure in every)}/{len(every)}")
    outside = [result for result in results if result.outside]
    if outside:
        lines += ["", f"outside ({len(outside)}): measured -> simulated"]
    for result in outside:
        texts = (
            f"{type_.name} {figure.real:.2f} -> {figure.simulated:.2f}"
            for type_, figure in result.outside.items()
        )
        lines.append(f"{result.row.text}: {', '.join(texts)}")
    left = [result for result in results if result.why_not]
    partly = sum(len(result.row.cycles) - len(result.figures) for result in results if not result.why_not)
    if left or partly:
        lines += ["", f"not compared: {len(left)} rows, and {partly} figures of others"]
    lines += [f"{result.row.text}: {result.why_not}" for result in left]
    return "\n".join(lines)


def _rows(results: Sequence[Result]) -> str:
    compared_rows = [result for result in results if result.figures]
    return f"{sum(not result.outside for result in compared_rows)}/{len(compared_rows)}"
