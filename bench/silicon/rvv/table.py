"""The table of vector instructions that were measured on a SpacemiT X60.

Figures of github.com/camel-cdr/rvv-bench-results (Banana Pi BPI-F3, September 2025), by rvv-bench: cycles an
instruction, where copies of it write other registers in turn, by element width and register group (LMUL).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BOARDS = {"riscv-k1-sim": "X60"}
"""Whose table a simulated board is compared with."""
_FILE = Path(__file__).parent / "x60_instructions.csv"
_TYPE = re.compile(r"e(?P<bits>8|16|32|64)(?P<length>m[f1248]+)")
_OF_MASKS = re.compile(r"\.mm$|^vcpop|^vfirst")
_WIDER = re.compile(r"v(f?w(?!red)|f?n)")


@dataclass(frozen=True)
class Type:
    """How vectors are divided: ``bits`` an element, ``length`` registers in a group."""

    name: str

    @property
    def bits(self) -> int:
        """Of an element."""
        return int(self._parts["bits"])

    @property
    def group(self) -> str:
        """The group as assembly has it."""
        return self._parts["length"]

    @property
    def length(self) -> float:
        """Registers of a group, less than one for a part of one."""
        text = self.group
        return 1 / int(text[2:]) if text[1] == "f" else float(text[1:])

    @property
    def _parts(self) -> re.Match[str]:
        found = _TYPE.fullmatch(self.name)
        if found is None:
            raise ValueError(f"{self.name} is no type of vectors")
        return found


@dataclass(frozen=True, eq=False)
class Row:
    """An instruction as the table writes it, with cycles by type; what is not there was not measured."""

    text: str
    cycles: dict[Type, float]

    @property
    def mnemonic(self) -> str:
        """Its first word."""
        return self.text.split()[0]

    def copies(self, type_: Type) -> int:
        """How many destinations the measured copies used in turn. They shared eight registers, so it depends
        on the longest operand; masks used four."""
        length = type_.length * (2 if _WIDER.match(self.mnemonic) else 1)
        return 4 if _OF_MASKS.search(self.mnemonic) else int(8 / max(1.0, length))


@cache
def rows() -> tuple[Row, ...]:
    """All of the table, in its order."""
    with _FILE.open(newline="") as file:
        return tuple(_row(each) for each in csv.DictReader(file))


@cache
def types() -> tuple[Type, ...]:
    """The table's columns."""
    with _FILE.open(newline="") as file:
        return tuple(Type(name) for name in next(csv.reader(file))[1:])


def _row(texts: dict[str, str]) -> Row:
    found = {Type(name): text for name, text in texts.items() if name != "instruction"}
    return Row(texts["instruction"], {type_: float(text) for type_, text in found.items() if text not in "-"})
