"""From the table of vector instructions to the prices of the clock of ``riscv-k1-sim``.

The table has cycles an instruction. The copies it measured write other registers in turn, of groups of eight
registers only one: there, and where a result comes late, a figure is that of the wait for the register that
is written again. So some rows tell a latency. The others have those of LLVM's model
(``RISCVSchedSpacemitX60.td``): 4 cycles, 5 for products of floats and of integers of 32 bits, 7 of 64 bits,
and for all as long as the pipe is taken.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bench.silicon.rvv.forms import encodings, loads, stores
from bench.silicon.rvv.scalar import Scalar, scalars
from bench.silicon.rvv.table import Row, Type, rows, types

_PRODUCTS = re.compile(r"vf?w?n?m(ul\w*|acc\w*|add|sub|sac)\.|vsmul\.")
_WIDE = re.compile(r"vf?w")
_FLOATS = re.compile(r"vf|vmf")
_ON_INTEGERS_PIPE = re.compile(r"vfmv\.(f\.s|s\.f)")
_ONE_REGISTER = re.compile(r"vf?mv\.(s|x|f)\.[sxf]|vms[bio]f\.m|vmv[1248]r\.v|vlm\.v|vcpop|vfirst")
"""These take their pipe as long for a whole group as for one register."""
_COMPARES = re.compile(r"vm(s(?![bio]f)\w+|f\w+|adc)\.")
_TO_OTHER_BANK = re.compile(r"vmv\.x\.s|vcpop|vfirst")
_NARROWED = re.compile(r"(vf?)n(msub|msac|macc|madd)(\.\w\w)")
"""The table measures these as if they narrowed: up to four registers, not of 64 bits, and the copies write
fewer registers in turn. They take their pipe as the products that they negate."""
_NEGATED = {"msub": "madd", "msac": "macc", "macc": "macc", "madd": "madd"}
_LOAD_LATENCY = 3.5
"""The latency of VLM. The table has none for loads of whole vectors, so they get the same (assumed)."""
_MEMORY = re.compile(r"v[ls](?:s?seg\d)?s?e(\d+)(?:ff)?\.v")


@dataclass(frozen=True)
class Cost:
    """How many cycles an instruction takes its pipe, and after how many its result is there."""

    cycles: float
    latency: float


@dataclass(frozen=True)
class Price:
    """An encoding with its costs: by type, or of all vectors (``any``)."""

    name: str
    mask: int
    value: int
    operands: str
    pipe: str
    loads: int = 0
    stores: int = 0
    any: Cost | None = None
    by_type: Mapping[Type, Cost] = field(default_factory=dict)
    measured: bool = True


def prices() -> list[Price]:
    """All, in order of precedence."""
    found: dict[tuple[int, int], Price] = {}
    by_text = {row.text: row for row in rows()}
    for row, each in zip(rows(), encodings(rows()), strict=True):
        costs = _costs(row, by_text)
        price = Price(
            *(row.text, each.mask, each.value, each.operands, pipe(row)),
            *(int(loads(row)), int(stores(row))),
            by_type=costs,
        )
        found.setdefault((each.mask, each.value), price)
    vectors = [*found.values(), *_whole_registers(by_text)]
    vectors.sort(key=lambda price: -price.mask.bit_count())
    return [*map(_of_scalar, scalars()), *vectors, *_others(by_text)]


def _of_scalar(one: Scalar) -> Price:
    made = (one.name, one.mask, one.value, one.operands, one.pipe, int(one.loads), int(one.stores))
    return Price(*made, Cost(one.cycles, one.latency))


def pipe(row: Row) -> str:
    """By LLVM's model."""
    if loads(row) or stores(row):
        return "VL"
    floats = _FLOATS.match(row.mnemonic) and not _ON_INTEGERS_PIPE.match(row.mnemonic)
    return "VF" if floats else "VI"


def _costs(row: Row, by_text: Mapping[str, Row]) -> dict[Type, Cost]:
    cycles = dict(row.cycles)
    if memory := _MEMORY.fullmatch(row.mnemonic):
        cycles |= _of_other_elements(row, int(memory[1]))
    if negates := _NARROWED.match(row.mnemonic):
        plain = row.text.replace(negates[0], f"{negates[1]}{_NEGATED[negates[2]]}{negates[3]}")
        cycles = by_text[plain].cycles
    return {type_: _cost(row, type_, taken) for type_, taken in cycles.items()}


def _of_other_elements(row: Row, bits: int) -> Iterator[tuple[Type, float]]:
    """Types that have not been measured, of as many registers as one that has: the elements that are loaded
    or stored are the same."""
    for type_ in types():
        registers = type_.length * bits / type_.bits
        alike = (each for each in row.cycles if each.length * bits / each.bits == registers)
        same = next(alike, None)
        if type_ not in row.cycles and same:
            yield type_, row.cycles[same]


def _cost(row: Row, type_: Type, taken: float) -> Cost:
    copies = row.copies(type_)
    if _ONE_REGISTER.match(row.mnemonic):
        least = min(row.cycles.values())
        return Cost(least, taken * copies if taken > 1.05 * least else _latency(row, type_, least))
    if _COMPARES.match(row.mnemonic):
        return Cost(taken - 2, taken) if copies == 1 else Cost(taken, max(4, taken + 2))
    return Cost(taken, max(taken, _latency(row, type_, taken)))


def _latency(row: Row, type_: Type, taken: float) -> float:
    if loads(row):
        return _LOAD_LATENCY
    if _TO_OTHER_BANK.match(row.mnemonic):
        return 6
    if _ONE_REGISTER.match(row.mnemonic):
        return 4
    long = type_.length >= (2 if _WIDE.match(row.mnemonic) else 4)
    if _PRODUCTS.match(row.mnemonic):
        floats = row.mnemonic.startswith("vf")
        return 5 if floats or type_.bits == 32 else 7 if type_.bits == 64 else 5 if long else 4
    return 5 if taken == 4 and long else 4


def _whole_registers(by_text: Mapping[str, Row]) -> Iterator[Price]:
    """VL1R to VL8R and VS1R to VS8R: as loads and stores of bytes of as many registers, whatever the type."""
    for count in (1, 2, 4, 8):
        for store, word in ((0, "vle8.v v8,(t0)"), (1, "vse8.v v8,(t0)")):
            row = by_text[word]
            cost = _cost(row, Type(f"e8m{count}"), row.cycles[Type(f"e8m{count}")])
            value = (0x27 if store else 0x07) | 0x02800000 | (count - 1) << 29
            name = f"v{'ls'[store]}{count}r"
            operands = f"v{'wr'[store]}7+{count} xr15"
            yield Price(name, 0xFFF0007F, value, operands, "VL", 1 - store, store, cost)


def _others(by_text: Mapping[str, Row]) -> Iterator[Price]:
    """What nobody measured: vectors as the strided loads and stores of bytes (a cycle an element) or the
    additions of their type, scalars as additions."""
    kinds = (
        ("vlse8.v v8,(t2),t3", 0x07, "VL"),
        ("vsse8.v v8,(t2),t3", 0x27, "VL"),
        ("vadd.vv v8,v16,v24", 0x57, "VI"),
    )
    # VSETVL sets a type that is not seen: what comes after it is charged as one register of 32 bits.
    yield Price("vsetvl", 0xFE00707F, 0x80007057, "xw7 xr15 xr20", "A", any=Cost(1, 1), measured=False)
    for text, opcode, where in kinds:
        row = by_text[text]
        costs = {type_: _cost(row, type_, taken) for type_, taken in row.cycles.items()}
        load, store = int(opcode == 0x07), int(opcode == 0x27)
        operands = "vr7" if store else "vw7 vr20"
        yield Price("vectors", 0x7F, opcode, operands, where, load, store, None, costs, measured=False)
    yield Price("scalars", 0, 0, "", "I", any=Cost(1, 1), measured=False)


def table(made: list[Price]) -> str:
    """The clock's table (``worker/fleet/drivers/sim_vectors.py``)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["name", "measured", "mask", "value", "operands", "loads", "stores", "pipe", "any"]
    writer.writerow([*names, *(type_.name for type_ in types())])
    for price in made:
        costs = [price.any, *(price.by_type.get(type_) for type_ in types())]
        cells = [f"{cost.cycles:g} {cost.latency:g}" if cost else "" for cost in costs]
        head = [price.name, int(price.measured), f"{price.mask:08x}", f"{price.value:08x}", price.operands]
        writer.writerow([*head, price.loads, price.stores, price.pipe, *cells])
    return text.getvalue()
