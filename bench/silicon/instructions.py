"""Each row of the table of instructions, as it was measured and as a simulated board's clock has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.silicon.chains import Chain, chain
from bench.silicon.forms.sections import form
from bench.silicon.jumps import jumps
from bench.silicon.loops import Loop, throughput
from bench.silicon.places import elsewhere
from bench.silicon.programs import measured
from bench.silicon.reasons import why_none
from bench.silicon.table import CORES, Row

SHARE = 0.05
"""How far a figure may be from the measured one."""
_ROUNDED = 0.005
"""Half of the table's last digit, which matters where a figure is small."""


@dataclass(frozen=True)
class Figure:
    """One that was measured, and what the simulated board takes."""

    real: float
    simulated: float

    @property
    def within(self) -> bool:
        """Whether they agree."""
        return abs(self.simulated - self.real) <= SHARE * self.real + _ROUNDED


@dataclass(frozen=True)
class Result:
    """A row of the table on a simulated board; ``why_not`` tells why it has no figures."""

    row: Row
    latency: Figure | None = None
    per_cycle: Figure | None = None
    why_not: str = ""

    @property
    def outside(self) -> bool:
        """Whether a figure is too far from the measured one."""
        return any(figure and not figure.within for figure in (self.latency, self.per_cycle))


@dataclass(frozen=True)
class _Plan:
    """What is run for a row; an empty part is not compared."""

    row: Row
    throughput: Sequence[Loop]
    latency: Chain | None
    why_not: str = ""

    @property
    def loops(self) -> Iterable[Loop]:
        yield from self.throughput
        if self.latency:
            yield from (self.latency.loop, *self.latency.others)


def compared(rows: Sequence[Row], board: str, folder: Path) -> list[Result]:
    """The result of each row on ``board``.

    ``folder`` gets the program. Raises AssemblyError, or EmulationError where the emulator does not run it.
    """
    plans = [_plan(row, CORES[board]) for row in rows]
    loops = list(dict.fromkeys(loop for plan in plans for loop in plan.loops))
    cycles = measured(loops, board, folder) if loops else {}
    return [_result(plan, CORES[board], cycles) for plan in plans]


def _plan(row: Row, core: str) -> _Plan:
    found = form(row.section, row.name)
    latency, per_cycle = row.latency[core], row.per_cycle[core]
    if latency is None and per_cycle is None:
        return _Plan(row, (), None, f"was not measured on {core}")
    if row.section == "Branch" and (loop := jumps(row.name)):
        # A jump's latency in the table is what its loop takes, so one loop shows both figures.
        return _Plan(row, (loop,), Chain(loop))
    if moved := elsewhere(row.section, row.name):
        return _Plan(row, moved if per_cycle is not None else (), None)
    if found is None:
        return _Plan(row, (), None, why_none(row.section, row.name))
    if "(pc+4" in row.name:  # a branch has no result to wait for: the row's latency is what one takes
        loops = throughput(found, row.name)
        return _Plan(row, loops, Chain(loops[0]))
    way = chain(found) if latency is not None or "chain" in row.name else None
    if "chain" in row.name and way:
        return _Plan(row, (way.loop,), None)
    return _Plan(row, throughput(found, row.name) if per_cycle is not None else (), way)


def _result(plan: _Plan, core: str, cycles: dict[Loop, float | None]) -> Result:
    if plan.why_not:
        return Result(plan.row, why_not=plan.why_not)
    known = {loop: taken for loop in plan.loops if (taken := cycles[loop]) is not None}
    if not all(loop in known for loop in plan.loops):
        return Result(plan.row, why_not="the emulated processor does not know it")
    latency, per_cycle = plan.row.latency[core], plan.row.per_cycle[core]
    found_latency = found_rate = None
    if plan.latency and latency is not None:
        found_latency = Figure(latency, known[plan.latency.loop] - plan.latency.less(known))
    if plan.throughput and per_cycle is not None:
        least = min(known[loop] for loop in plan.throughput)
        found_rate = Figure(per_cycle, 1 / least if least else 0.0)
    return Result(plan.row, found_latency, found_rate)
