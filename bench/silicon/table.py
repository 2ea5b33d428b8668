"""The table of instructions that were measured on real processors.

Figures of github.com/ocxtal/insn_bench_aarch64 (results of an LX2160A with Cortex-A72, of Graviton 2 with
Neoverse N1, and of Graviton 3 with Neoverse V1), gathered in November 2026. The Cortex-A76 has the
pipes of the N1.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CORES = {"rpi4-sim": "A72", "rpi5-sim": "N1", "graviton3-sim": "V1"}
"""Whose column a simulated board is compared with."""
_FILE = Path(__file__).parent / "a64_instructions.csv"


@dataclass(frozen=True)
class Row:
    """An instruction; figures that are None were not measured."""

    section: str
    name: str
    latency: dict[str, float | None]
    """Cycles, by core."""
    per_cycle: dict[str, float | None]
    """Instructions a cycle, by core."""


@cache
def rows() -> tuple[Row, ...]:
    """All of the table, in its order."""
    with _FILE.open(newline="") as file:
        return tuple(_row(each) for each in csv.DictReader(file))


def _row(texts: dict[str, str]) -> Row:
    latency, per_cycle = (
        {core: _figure(texts[f"{core}_{kind}"]) for core in CORES.values()}
        for kind in ("latency", "per_cycle")
    )
    return Row(texts["section"], texts["instruction"], latency, per_cycle)


def _figure(text: str) -> float | None:
    return None if text in {"", "-"} else float(text)
