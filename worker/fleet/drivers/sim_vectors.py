"""What instructions cost on cores whose vectors have a type: an element width and a group of registers.

``worker/simclock/riscv64_prices.csv`` has a row for each instruction: the bits that tell it, its operands,
its pipe, and cells of two figures, the cycles that it takes its pipe and those of its result, for ``any``
vectors or by type. It is made by ``python -m bench.silicon prices``. An operand ends in ``*N`` where it has N
registers for each of a group, and in ``*N@BITS`` where it has elements of another width than the type's.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from worker.fleet.drivers.sim_core import TICKS, Core

VECTOR_PRICES = Path(__file__).parents[2] / "simclock" / "riscv64_prices.csv"
_LENGTHS = ("mf8", "mf4", "mf2", "m1", "m2", "m4", "m8")
"""In the order of their numbers in ``worker/simclock/classify_riscv64.c``."""
_TYPE = re.compile(r"e(\d+)(m\w+)")
_LENGTH = re.compile(r"\*([\d.]+)(?:@(\d+))?")

# Pipes and width: LLVM's scheduling model (llvm/lib/Target/RISCV/RISCVSchedSpacemitX60.td): two instructions
# a cycle in their order; IEU 2, of which A takes jumps, divisions and VSETVLI; LS 2, FP, VFP, VIEU and VLS
# one each. A jump back that costs no more than its slot is assumed.
VECTOR_CORES: Mapping[str, Core] = {
    "x60": Core(
        width=2,
        window=0,
        taken=(1.0, 1.0, 1.0, 1.0, 1.0),
        guess=9.0,
        pipes={"A": 1, "I": 2, "L": 2, "F": 1, "VF": 1, "VI": 1, "VL": 1},
        within={"A": ("I",)},
        zero=0,
    ),
}


def vector_lines(known: Core) -> Iterator[str]:
    """The lines of the table of a core like those of VECTOR_CORES."""
    yield from known.head()
    with VECTOR_PRICES.open(newline="") as file:
        for row in csv.DictReader(file):
            for when, one in _by_type(row):
                cycles, latency = map(float, one["cost"].split())
                ticks = [round(TICKS * latency), 0]
                yield f"when {when:x}"
                yield known.line(one, row["pipe"], 1 / cycles, ticks, measured=row["measured"] == "1")


def _by_type(row: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The row once for each of its costs, with the set of types that have it, as bits; 0 stands for all."""
    head = {"mask": row["mask"], "value": row["value"], "family": "0"}
    head |= {"loads": row["loads"], "stores": row["stores"]}
    if row["any"]:
        yield 0, {**head, "cost": row["any"], "operands": row["operands"]}
    found: dict[tuple[str, str], int] = {}
    for name, cost in row.items():
        type_ = _TYPE.fullmatch(name)
        if type_ and cost:
            bits, length = int(type_[1]), type_[2]
            operands = _LENGTH.sub(partial(_registers, bits=bits, length=length), row["operands"])
            number = (bits.bit_length() - 4) * len(_LENGTHS) + _LENGTHS.index(length)
            found[cost, operands] = found.get((cost, operands), 0) | 1 << number
    for (cost, operands), when in found.items():
        yield when, {**head, "cost": cost, "operands": operands}


def _registers(found: re.Match[str], bits: int, length: str) -> str:
    group = 2.0 ** (_LENGTHS.index(length) - _LENGTHS.index("m1"))
    whole, fields = group * float(found[1]), 1
    if found[2]:
        whole, fields = group * int(found[2]) / bits, int(found[1])
    return f"+{max(1, math.ceil(whole)) * fields}"
