"""From a row of the table to copies with other registers, and to its encoding.

The table writes what the first copy writes and reads: v8, v16 and v24, t0, ft0. The others count on from
there, as in its source (rvv-bench's ``instructions/rvv``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.silicon.encode import RISCV, assembled
from bench.silicon.rvv.table import Row

_SCALARS = ("t0", "t1", "t2", "t3", "t4", "t5", "t6", "a6")
_TOKEN = re.compile(r"(?<![\w(])(v8|v16|v24|ft0|t0)\b")
_OTHER = {
    "v8": "v23",
    "v16": "v15",
    "v24": "v7",
    "ft0": "ft11",
    "t0": "s10",
    "t2": "s8",
    "t3": "gp",
    "13": "-14",
    "3": "28",
}
"""Registers with numbers that differ in all bits, and immediates."""
_OPERAND = re.compile(r"v8|v16|v24|ft0|t0|t2|t3|13|3")
_SHIFTS = re.compile(r"v(n?s(ll|r[la])|ss(rl|ra)|nclipu?)\.[vw]i")
_MULTIPLE_REGISTERS = re.compile(r"vmv([1248])r")
_SEGMENTS = re.compile(r"v[ls]s?seg(\d)")
_MEMORY = re.compile(r"v[ls](s?seg\d)?s?e(?P<bits>\d+)(ff)?\.v")
_MASKS = re.compile(r"vm(s(?!bc\.|bf\.|if\.|of\.)\w+|f\w+|adc|sbc|sbf|sif|sof)\.|vm\w+\.mm|v[ls]m\.v")
_REDUCTIONS = re.compile(r"v\w*red\w+\.vs")
_ONE_ELEMENT = re.compile(r"vf?mv\.(s|x|f)\.")
_ONE_SOURCE = re.compile(r"(vcpop|vfirst|vms[bio]f|viota)\.m")
_WIDE_RESULT = re.compile(r"vf?w(?!red)")
_WIDE_SOURCE = re.compile(r".*\.w[vxfi]?$")
_EXTENDS = re.compile(r"v[sz]ext\.vf(\d)")
_ACCUMULATES = re.compile(r"v\w*(macc\w*|msac|madd|msub|nmsac|nmsub|nmacc|nmadd)\.\w\w")

STOPS_QEMU = re.compile(r"vf[wn]?cvt\.rtz\.")
"""QEMU 7.2 ends with an assertion where it translates these."""


@dataclass(frozen=True)
class Encoding:
    """The bits that stay, as a mask, with their value, and the operands as the clock's table has them."""

    mask: int
    value: int
    operands: str


def loads(row: Row) -> bool:
    """Whether it reads memory."""
    return _in_memory(row) and row.mnemonic.startswith("vl")


def stores(row: Row) -> bool:
    """Whether it writes memory."""
    return _in_memory(row) and row.mnemonic.startswith("vs")


def _in_memory(row: Row) -> bool:
    return bool(_MEMORY.match(row.mnemonic)) or row.mnemonic in {"vlm.v", "vsm.v"}


def copy(row: Row, number: int) -> str:
    """The row's text with the registers that come ``number`` after those it has."""

    def later(found: re.Match[str]) -> str:
        name = found[0]
        if name == "t0":
            return _SCALARS[number]
        bank = "ft" if name == "ft0" else "v"
        return f"{bank}{int(name.removeprefix(bank)) + number}"

    return _TOKEN.sub(later, row.text)


def encodings(rows: Sequence[Row]) -> list[Encoding]:
    """Of each row. Raises AssemblyError."""
    lines: list[str] = []
    for row in rows:
        names = _names(row)
        lines.append(row.text)
        lines += [_with_other(row, [name]) for name in names]
    words = iter(assembled(lines, RISCV))
    return [_encoding(row, next(words), [next(words) for _ in _names(row)]) for row in rows]


def _names(row: Row) -> list[str]:
    operands = row.text.partition(" ")[2]
    return list(dict.fromkeys(_OPERAND.findall(operands.replace("v0.t", ""))))


def _with_other(row: Row, names: Sequence[str]) -> str:
    mnemonic, _, operands = row.text.partition(" ")

    def other(found: re.Match[str]) -> str:
        name = found[0]
        if name not in names:
            return name
        if name == "13" and _SHIFTS.match(mnemonic):
            return "18"
        if several := _MULTIPLE_REGISTERS.match(mnemonic):
            number, step = int(name[1:]), int(several[1])
            return f"v{(31 - number) // step * step}"
        return _OTHER[name]

    return f"{mnemonic} {_OPERAND.sub(other, operands)}"


def _encoding(row: Row, word: int, others: Sequence[int]) -> Encoding:
    mask = 0xFFFFFFFF
    operands = []
    for name, other in zip(_names(row), others, strict=True):
        differs = word ^ other
        mask &= ~(31 << _field(differs))
        if name not in {"13", "3"}:
            operands.append(_operand(row, name, _field(differs)))
    if "v0" in row.text.replace("v0.t", "v0").split(",")[-1]:
        operands.append("vr32")
    return Encoding(mask, word & mask, " ".join(operands))


def _field(differs: int) -> int:
    return next(low for low in (7, 15, 20) if differs >> low & 31 and not differs & ~(31 << low))


def _operand(row: Row, name: str, low: int) -> str:
    target = low == 7 and not stores(row)
    use = "w" if target else "r"
    bank = "v" if name[0] == "v" else "s" if name[0] == "f" else "x"
    if target and _ACCUMULATES.match(row.mnemonic):
        use = "a"
    return f"{bank}{use}{low}" + (_length(row, name, low) if bank == "v" else "")


def _length(row: Row, name: str, low: int) -> str:
    """How many registers an operand has: the type's length times a factor, or of elements of other bits."""
    word = row.mnemonic
    if several := _MULTIPLE_REGISTERS.match(word):
        return f"+{several[1]}"
    if _MASKS.match(word) and (name == "v8" or word.endswith(".mm")):
        return ""
    if _ONE_ELEMENT.match(word) or (_ONE_SOURCE.match(word) and not (word.startswith("viota") and low == 7)):
        return ""
    if (_REDUCTIONS.match(word) and name != "v16") or (word == "vcompress.vm" and name == "v24"):
        return ""
    if memory := _MEMORY.match(word):
        fields = _SEGMENTS.match(word)
        return f"*{fields[1] if fields else 1}@{memory['bits']}"
    if word == "vrgatherei16.vv" and name == "v24":
        return "*1@16"
    if (wide := _EXTENDS.match(word)) and low != 7:
        return f"*{1 / int(wide[1])}"
    double = (low == 7 and _WIDE_RESULT.match(word)) or (low == 20 and _WIDE_SOURCE.match(word))
    return "*2" if double else "*1"
