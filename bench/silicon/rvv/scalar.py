"""Scalar instructions of RV64GC with Zba and Zbb. LLVM's model of the X60 has their costs.

``llvm/lib/Target/RISCV/RISCVSchedSpacemitX60.td`` has pipes and latencies; where it takes the longest of
several, its comments tell each. Encodings: RISC-V Unprivileged ISA, "RV32/64G Instruction Set Listings" and
"C". Operands are as in ``worker/simclock/prices.h``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """A kind of instructions: its encoding, operands, pipe (with more than one cycle after an asterisk), and
    the cycles of its result."""

    name: str
    mask: int
    value: int
    operands: str
    pipe: str = "I"
    latency: float = 1
    cycles: float = 1

    @property
    def loads(self) -> bool:
        """Whether it reads memory."""
        return self.pipe == "L" and ("w" in self.operands or "atomic" in self.name)

    @property
    def stores(self) -> bool:
        """Whether it writes memory."""
        return self.pipe == "L" and (not self.loads or "atomic" in self.name)


_FUNCT3 = 0x707F
_FUNCT7 = 0xFE00707F
_MADE = "xw7 xr15 xr20"


def _op(name: str, opcode: int, funct7: int, funct3: int, latency: float, cycles: float = 1) -> Scalar:
    value = opcode | funct3 << 12 | funct7 << 25
    return Scalar(name, _FUNCT7, value, _MADE, "A" if cycles > 1 else "I", latency, cycles)


def _integers() -> Iterator[Scalar]:
    for funct3 in range(8):
        latency, cycles = ((5, 1), (6, 1), (6, 1), (6, 1), *[(20, 20)] * 4)[funct3]
        yield _op("mul, div", 0x33, 1, funct3, latency, cycles)
    yield _op("mulw", 0x3B, 1, 0, 3)
    for funct3 in (4, 5, 6, 7):
        yield _op("divw", 0x3B, 1, funct3, 12, 12)
    for funct3 in (2, 4, 6):
        yield _op("sh1add", 0x33, 0x10, funct3, 2)
        yield _op("sh1add.uw", 0x3B, 0x10, funct3, 2)
    yield _op("add.uw", 0x3B, 4, 0, 2)
    for opcode in (0x13, 0x1B):
        yield Scalar("cpop", 0xFFF0707F, 0x60201000 | opcode, "xw7 xr15", "I", 2)
        yield Scalar("with an immediate", 0x7F, opcode, "xw7 xr15")
    for opcode in (0x33, 0x3B):
        yield Scalar("of two registers", 0x7F, opcode, _MADE)
    for opcode in (0x37, 0x17):
        yield Scalar("lui, auipc", 0x7F, opcode, "xw7")
    yield Scalar("b", 0x7F, 0x63, "xr15 xr20", "A")
    yield Scalar("jal", 0x7F, 0x6F, "xw7", "A")
    yield Scalar("jalr", 0x7F, 0x67, "xw7 xr15", "A")
    yield Scalar("l", 0x7F, 0x03, "xw7 xr15", "L", 4)
    yield Scalar("s", 0x7F, 0x23, "xr15 xr20", "L", 4)
    yield Scalar("atomic", 0x7F, 0x2F, _MADE, "L", 12)
    yield Scalar("fence", 0x7F, 0x0F, "")
    yield Scalar("system", 0x7F, 0x73, "xw7 xr15")
    yield Scalar("vsetvli", 0x8000707F, 0x00007057, "xw7 xr15", "A")
    yield Scalar("vsetivli", 0xC000707F, 0xC0007057, "xw7", "A")


def _floats() -> Iterator[Scalar]:
    for width in (1, 2, 3, 4):
        yield Scalar("fl", _FUNCT3, 0x07 | width << 12, "sw7 xr15", "L", 4)
        yield Scalar("fs", _FUNCT3, 0x27 | width << 12, "xr15 sr20", "L", 4)
    for form, (products, others, divisions) in enumerate(((5, 4, 15), (6, 5, 22), (5, 4, 12))):
        bits = (0, 1, 2)[form]  # single, double, half
        for opcode in (0x43, 0x47, 0x4B, 0x4F):
            yield Scalar("fmadd", 0x0600007F, opcode | bits << 25, "sw7 sr15 sr20 sr27", "F", products)
        for operation, operands, pipe, latency, cycles in (
            *((each, "sw7 sr15 sr20", "F", others, 1) for each in (0, 1, 2, 4)),
            *((each, "sw7 sr15 sr20", "F", divisions, divisions) for each in (3, 11)),
            (5, "sw7 sr15 sr20", "F", 4, 1),
            (8, "sw7 sr15", "F", 4, 1),
            (20, "xw7 sr15 sr20", "F", 6, 1),
            (24, "xw7 sr15", "I", 6, 1),
            (26, "sw7 xr15", "I", 4, 1),
            (28, "xw7 sr15", "I", 4 if bits == 1 else 6, 1),
            (30, "sw7 xr15", "I", 4, 1),
        ):
            code = 0x53 | operation << 27 | (0, 1, 2)[form] << 25
            yield Scalar(f"f {operation}", 0xFE00007F, code, operands, pipe, latency, cycles)


def _compressed() -> Iterator[Scalar]:
    for kind, operands, pipe in (
        *((0x0000, "xwq2", "I"), (0x2000, "swq2 xrq7", "L"), (0x4000, "xwq2 xrq7", "L")),
        *((0x6000, "xwq2 xrq7", "L"), (0xA000, "srq2 xrq7", "L"), (0xC000, "xrq2 xrq7", "L")),
        *((0xE000, "xrq2 xrq7", "L"), (0x0001, "xw7 xr7", "I"), (0x2001, "xw7 xr7", "I")),
        *((0x4001, "xw7", "I"), (0x6001, "xw7", "I"), (0xA001, "", "A"), (0xC001, "xrq7", "A")),
        *((0xE001, "xrq7", "A"), (0x0002, "xw7 xr7", "I"), (0x2002, "sw7", "L"), (0x4002, "xw7", "L")),
        *((0x6002, "xw7", "L"), (0xA002, "sr2", "L"), (0xC002, "xr2", "L"), (0xE002, "xr2", "L")),
    ):
        yield Scalar("compressed", 0xE003, kind, operands, pipe, 4 if pipe == "L" else 1)
    for bits in (0x0000, 0x0400, 0x0800):
        yield Scalar("c.srli and the like", 0xEC03, 0x8001 | bits, "xwq7 xrq7")
    yield Scalar("c.sub and the like", 0xEC03, 0x8C01, "xwq7 xrq7 xrq2")
    yield Scalar("c.jr", 0xF07F, 0x8002, "xr7", "A")
    yield Scalar("c.jalr", 0xF07F, 0x9002, "xr7", "A")
    yield Scalar("c.mv", 0xF003, 0x8002, "xw7 xr2")
    yield Scalar("c.add", 0xF003, 0x9002, "xw7 xr7 xr2")


def scalars() -> list[Scalar]:
    """All of them, the most special encodings first."""
    found = [*_integers(), *_floats(), *_compressed()]
    return sorted(found, key=lambda each: -each.mask.bit_count())
