"""How x86 multiplies and adds 8-bit numbers: int16 pairs, byte pairs where they fit, VNNI."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tir import const, of_type, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.isa.x86 import X86
from kernels.target import Target
from kernels.targets.x86_features import has
from kernels.workload.qconv2d import LIMITS, QConv2d

LINE_BYTES = 64
INT16 = (-(1 << 15), (1 << 15) - 1)
FORK_CYCLES = 10_000
"""Starting threads on a loop and waiting for the last of them: some 3 microseconds."""

PARTS = {"twos": 1, "fours": 2, "sixes": 3, "eights": 4}
"""How many units are added in int16 by the ways of ``kernels/int8/x86/direct/short_sums.py``."""
WIDE = ("twos", "fours")
"""Those for weights of 8 bits, of which even two products may not fit."""


@dataclass(frozen=True)
class Multiply:
    """One way: ``unit`` neighbouring channels are multiplied and added into one 32-bit lane.

    ``data`` and ``packed`` are the types that data and weights must have; ``cycles`` is what one vector of
    weights takes, measured where nothing but arithmetic counts: two multiplications a cycle, a little less
    where additions are as many.
    """

    name: str
    unit: int
    data: str
    packed: str
    cycles: float
    registers: int = 0
    """How many there are for it, 0 where those are all."""

    def offset(self, conv: QConv2d) -> int:
        """What is added to the data so that it fits ``data``."""
        return 128 if self.data == "uint8" and conv.data_dtype == "int8" else 0

    def why_not(self, conv: QConv2d, target: Target) -> str | None:
        """Why this is no way to compute ``conv`` exactly on ``target``, or None when it is."""
        low, high = multiplied_range(conv)
        two_fit = INT16[0] <= 2 * 255 * low <= 2 * 255 * high <= INT16[1]
        if self.name in WIDE and (two_fit or not -128 <= low <= high <= 127):
            return f"weights from {low} to {high} are not of 8 bits"
        if self.name in ("bytes", *PARTS) and self.name not in WIDE and not two_fit:
            return f"two products of bytes by weights from {low} to {high} may not fit int16"
        if self.name in PARTS and target.vector_bits != 256:
            return "with 512 bits slower than bytes"
        if self.name == "vnni":
            if not -128 <= low <= high <= 127:
                return f"weights from {low} to {high} do not fit int8"
            feature = "avx512vnni" if target.vector_bits == 512 else "avxvnni"
            if not has(target, feature):
                return f"{target.name} has no {feature}"
        return None

    def add(self, total: Vector, data: Vector, weights: Vector, bits: int) -> Vector:
        """``total`` (int32 lanes) plus the products of one unit of data (in every lane) and of weights."""
        lanes = bits // 32
        if self.name == "words":
            return total + add_pairs(reinterpret(data, "int16", 2 * lanes), weights, bits)
        data = reinterpret(data, "uint8", 4 * lanes)
        if self.name == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            return tirx.call_llvm_pure_intrin(of_type("int32", lanes), name, total, data, weights)
        halves = add_products(data, weights, bits)
        return total + add_pairs(halves, const(1, "int16", 2 * lanes), bits)

    def unit_at(self, buffer: Buffer, at: Index, lanes: int) -> Vector:
        """One unit of data from element ``at`` on, in each of ``lanes`` int32 lanes."""
        return tir.splat(reinterpret(buffer[tir.vector(at, self.unit)], "int32", 1), lanes)


def multiplied_range(conv: QConv2d) -> tuple[int, int]:
    """The smallest and the largest weight that bytes are multiplied by.

    Of dynamic products that is without the zero point, which sums of the data take off.
    """
    if conv.is_dynamic and conv.weight_dtype == "int8":
        return conv.weight_range or LIMITS["int8"]
    return conv.centered_range


WAYS = {
    way.name: way
    for way in (
        Multiply("words", 2, "int16", "int16", 0.65),
        Multiply("bytes", 4, "uint8", "int8", 1.05),
        Multiply("twos", 4, "uint8", "int8", 1.1),
        Multiply("fours", 4, "uint8", "int8", 0.95),
        Multiply("sixes", 4, "uint8", "int8", 0.82),
        Multiply("eights", 4, "uint8", "int8", 0.8),
        Multiply("vnni", 4, "uint8", "int8", 0.5),
    )
}


def why_not_x86(target: Target) -> str | None:
    """Why none of this works on ``target``, or None when int16 pairs do."""
    if target.isa is not X86:
        return "for x86-64"
    needed = {256: "avx2", 512: "avx512bw"}.get(target.vector_bits)
    return None if needed and has(target, needed) else f"{target.name} has neither AVX2 nor AVX-512BW"


def ways(conv: QConv2d, target: Target) -> list[Multiply]:
    """The ways to compute ``conv`` exactly on ``target``; where there is VNNI, nothing beats it."""
    found = [way for way in WAYS.values() if way.why_not(conv, target) is None]
    return [way for way in found if way.name == "vnni"] or found


def prefetch(buffer: Buffer, at: Index, elements: int) -> None:
    """Ask for the lines of ``elements`` from ``at`` on to come to L2; they need not be in the buffer."""
    per_line = LINE_BYTES * 8 // int(buffer.dtype.bits)
    hints = [tirx.const(hint, "int32") for hint in (0, 2, 1)]  # a read, to L2, of data
    for first in range(0, elements, per_line):
        address = tirx.address_of(buffer[tir.index(at) + first])
        T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *hints))


def add_pairs(one: Vector, other: Vector, bits: int) -> Vector:
    """Products of int16 lanes, neighbours added into int32 lanes."""
    name = "llvm.x86.avx512.pmaddw.d.512" if bits == 512 else "llvm.x86.avx2.pmadd.wd"
    return tirx.call_llvm_pure_intrin(of_type("int32", bits // 32), name, one, other)


def add_products(data: Vector, weights: Vector, bits: int) -> Vector:
    """Products of uint8 by int8 lanes, neighbours added into int16 lanes (and saturated)."""
    name = "llvm.x86.avx512.pmaddubs.w.512" if bits == 512 else "llvm.x86.avx2.pmadd.ub.sw"
    return tirx.call_llvm_pure_intrin(of_type("int16", bits // 16), name, data, weights)
