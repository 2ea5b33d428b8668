"""What instructions cost on the cores of simulated boards, as the clock's plugin reads it.

``worker/simclock/aarch64_prices.csv`` has a row for each instruction: the bits that tell it (``mask``,
``value``), its operands (``worker/simclock/prices.h``), and for each core the pipes that it can run in, how
many run a cycle, after how many cycles the result is there, and after how many for an accumulator. It is made
by ``python -m bench.silicon prices`` from measurements of others, named there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from worker.fleet.drivers.sim_core import TICKS, Core
from worker.fleet.drivers.sim_vectors import VECTOR_CORES, vector_lines

PRICES = Path(__file__).parents[2] / "simclock" / "aarch64_prices.csv"

# Widths, windows and pipes: Arm's software optimization guides of the cores (Cortex-A72, Neoverse N1, which
# has the A76's pipes, Neoverse V1), section 2. Jumps: as the instructions (`b (pc+8)`, `bl-ret`,
# `adds -> b.eq`, `adr -> br`, `blr-ret`); a wrong guess: what those take of which half are guessed wrong
# (`and -> cbz (full random)`).
CORES: Mapping[str, Core] = {
    "a72": Core(
        width=3,
        window=128,
        split=True,
        queues={"B": 10, "I0": 8, "I1": 8, "M": 8, "L": 8, "S": 8, "F0": 8, "F1": 8},
        taken=(3.02, 3.46, 3.02, 3.02, 8.52),
        guess=15.0,
        pipes={"B": 1, "I": 2, "I0": 1, "I1": 1, "M": 1, "L": 1, "S": 1, "F0": 1, "F1": 1, "F": 2},
        within={"I0": ("I",), "I1": ("I",), "F0": ("F",), "F1": ("F",)},
        kinds={"integer": "I", "branch": "B", "load": "L", "store": "S", "vector": "F"},
    ),
    "n1": Core(
        width=4,
        window=128,
        taken=(2.76, 3.5, 2.76, 2.76, 6.84),
        guess=10.0,
        pipes={"B": 1, "I": 3, "M": 1, "L": 2, "S": 2, "V0": 1, "V1": 1, "V": 2},
        within={"M": ("I",), "V0": ("V",), "V1": ("V",)},
        kinds={"integer": "I", "branch": "B", "load": "L", "store": "S", "vector": "V"},
    ),
    "v1": Core(
        width=8,
        window=256,
        taken=(1.01, 6.46, 2.01, 2.01, 3.32),
        guess=11.0,
        pipes={"B": 2, "I": 4, "M": 2, "M0": 1, "L": 3, "S": 2, "V01": 2, "V02": 2, "V13": 2, "V": 4},
        within={"M": ("I",), "M0": ("M", "I"), "V01": ("V",), "V02": ("V",), "V13": ("V",)},
        kinds={"integer": "I", "branch": "B", "load": "L", "store": "S", "vector": "V"},
    ),
}

_KINDS = {
    "integer": ("xw0 xr5 xr16", ((0, 0),)),
    "branch": ("xr0", ((0x1C000000, 0x14000000),)),
    "store": ("", ((0x0A000000, 0x08000000),)),
    "load": ("", ((0x3A000000, 0x18000000), (0x0A400000, 0x08400000))),
    "vector": ("vw0 vr5 vr16", ((0x0E000000, 0x0E000000),)),
    "divide": (
        "",
        (
            *((0xBFA0FC00, 0x2E20FC00), (0xBFBFFC00, 0x2EA1F800), (0xFF20FC00, 0x1E201800)),
            *((0xFF3FFC00, 0x1E21C000), (0x7FE0F800, 0x1AC00800)),
        ),
    ),
}
"""Kinds of instructions that no row has: operands, and masks with their values. Arm Architecture Reference
Manual for A-profile, C4.1 "A64 instruction set encoding". The last ones are looked at first."""


_OTHERS = {
    "a72": (("I", 2, 1), ("B", 1, 1), ("S", 1, 1), ("L", 1, 4), ("F", 1, 4), ("F0", 1 / 17, 17)),
    "n1": (("I", 3, 1), ("B", 1, 1), ("S+L*1", 2, 1), ("L", 2, 4), ("V", 2, 4), ("V0", 1 / 7, 10)),
    "v1": (("I", 4, 1), ("B", 2, 1), ("S+L*1", 2, 1), ("L", 3, 4), ("V", 4, 4), ("V02", 2 / 7, 10)),
}
"""Pipes, instructions a cycle and latency of each of these kinds, by core."""


@cache
def price_table(core: str, width: int = 0, pipes: tuple[tuple[str, int], ...] = ()) -> str:
    """The table of a core in CORES or VECTOR_CORES, as the plugin reads it, ``Core.changed`` as is said."""
    known = {**CORES, **VECTOR_CORES}[core].changed(width, pipes)
    lines = vector_lines(known) if core in VECTOR_CORES else _lines(core, known)
    return "".join(f"{line}\n" for line in lines)


def _lines(core: str, known: Core) -> Iterator[str]:
    yield from known.head()
    with PRICES.open(newline="") as file:
        for row in csv.DictReader(file):
            if pipes := row[f"{core}_pipes"]:
                figures = [float(row[f"{core}_{name}"] or 0) for name in ("per_cycle", "latency", "forward")]
                yield known.line(row, pipes, figures[0], [round(TICKS * figure) for figure in figures[1:]])
    for kind, (pipes, per_cycle, latency) in reversed([*zip(_KINDS, _OTHERS[core], strict=True)]):
        operands, encodings = _KINDS[kind]
        for mask, value in encodings:
            row = {"mask": f"{mask:x}", "value": f"{value:x}", "family": "0", "operands": operands}
            row |= {"loads": str(int(kind == "load")), "stores": str(int(kind == "store"))}
            yield known.line(row, pipes, per_cycle, [round(TICKS * latency), 0], measured=False)
