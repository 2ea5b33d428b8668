"""What instructions cost on the cores of simulated boards, as the clock's plugin reads it.

``worker/simclock/aarch64_prices.csv`` has a row for each instruction: the bits that tell it (``mask``,
``value``), its operands (``worker/simclock/prices.h``), and for each core the pipes that it can run in, how
many run a cycle, after how many cycles the result is there, and after how many for an accumulator. It is made
by ``python -m bench.silicon prices`` from measurements of others, named there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PRICES = Path(__file__).parents[2] / "simclock" / "aarch64_prices.csv"

TICKS = 240
"""A cycle's (``worker/agent/simulation_page.h``)."""


@dataclass(frozen=True)
class Core:
    """A core's pipes: ``pipes`` has for each group of pipes how many there are, ``within`` the groups that
    contain another one. ``width`` is instructions a cycle, ``window`` those in flight, ``taken`` the cycles
    of a turn of a loop at least. ``others`` has pipes, instructions a cycle and latency for each kind of
    instruction that no row has, in the order of ``Class`` in ``prices.h``."""

    width: int
    window: int
    taken: float
    pipes: Mapping[str, int]
    within: Mapping[str, tuple[str, ...]]
    others: tuple[tuple[str, float, float], ...]

    def use(self, pipes: str, per_cycle: float) -> list[int]:
        """Ticks of each resource, the front end first, that an instruction takes."""
        taken = dict.fromkeys(self.pipes, 0.0)
        for group in pipes.split("+"):
            name, _, slots = group.partition("*")
            # With a number of slots, that many of the group; else what its measured rate leaves to others.
            cycles = float(slots) / self.pipes[name] if slots else 1 / per_cycle
            for each in (name, *self.within.get(name, ())):
                taken[each] += cycles * self.pipes[name] / self.pipes[each]
        return [TICKS // self.width, *(round(TICKS * cycles) for cycles in taken.values())]


# Widths, windows and pipes: Arm's software optimization guides of the cores (Cortex-A72, Neoverse N1, which
# has the A76's pipes, Neoverse V1), section 2. Jumps: as the instructions (`b (pc+8)`).
CORES: Mapping[str, Core] = {
    "a72": Core(
        width=3,
        window=128,
        taken=3.0,
        pipes={"B": 1, "I": 2, "M": 1, "L": 1, "S": 1, "F0": 1, "F1": 1, "F": 2},
        within={"F0": ("F",), "F1": ("F",)},
        others=(("I", 2, 1), ("B", 1, 1), ("L", 1, 4), ("S", 1, 1), ("F", 1, 4), ("F0", 1 / 17, 17)),
    ),
    "n1": Core(
        width=4,
        window=128,
        taken=2.76,
        pipes={"B": 1, "I": 3, "M": 1, "L": 2, "S": 2, "V0": 1, "V1": 1, "V": 2},
        within={"M": ("I",), "V0": ("V",), "V1": ("V",)},
        others=(("I", 3, 1), ("B", 1, 1), ("L", 2, 4), ("S+L*1", 2, 1), ("V", 2, 4), ("V0", 1 / 7, 10)),
    ),
    "v1": Core(
        width=8,
        window=256,
        taken=1.0,
        pipes={"B": 2, "I": 4, "M": 2, "M0": 1, "L": 3, "S": 2, "V01": 2, "V02": 2, "V13": 2, "V": 4},
        within={"M": ("I",), "M0": ("M", "I"), "V01": ("V",), "V02": ("V",), "V13": ("V",)},
        others=(("I", 4, 1), ("B", 2, 1), ("L", 3, 4), ("S+L*1", 2, 1), ("V", 4, 4), ("V02", 2 / 7, 10)),
    ),
}

_OTHERS_OPERANDS = ("xw0 xr5 xr16", "xr0", "", "", "vw0 vr5 vr16", "")


@cache
def price_table(core: str) -> str:
    """The table of a core in CORES, as the plugin reads it."""
    return "".join(f"{line}\n" for line in _lines(core))


def _lines(core: str) -> Iterator[str]:
    known = CORES[core]
    yield " ".join(("resources", "D", *known.pipes))
    yield f"window {known.window}"
    yield f"taken {round(TICKS * known.taken)}"
    with PRICES.open(newline="") as file:
        for row in csv.DictReader(file):
            if pipes := row[f"{core}_pipes"]:
                figures = [float(row[f"{core}_{name}"] or 0) for name in ("per_cycle", "latency", "forward")]
                ticks = [round(TICKS * figure) for figure in figures[1:]]
                yield _line(known, row, pipes, figures[0], ticks)
    for number, (pipes, per_cycle, latency) in enumerate(known.others):
        loads, stores = number == 2, number == 3
        row = {"mask": "0", "value": "0", "family": str(number), "loads": str(int(loads))}
        row |= {"stores": str(int(stores)), "operands": _OTHERS_OPERANDS[number]}
        yield _line(known, row, pipes, per_cycle, [round(TICKS * latency), 0])


def _line(core: Core, row: Mapping[str, str], pipes: str, per_cycle: float, ticks: list[int]) -> str:
    words = ["price", row["mask"], row["value"], *ticks, row["family"], row["loads"], row["stores"]]
    return " ".join(map(str, [*words, *core.use(pipes, per_cycle), ":", row["operands"]]))
