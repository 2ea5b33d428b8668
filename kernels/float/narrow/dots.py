"""How a target multiplies four bytes a lane: data of int8 by quanta, which are no more than 8 bits."""

from __future__ import annotations

from typing import Protocol

from kernels.emit import tir
from kernels.emit.tir import of_type, reinterpret
from kernels.emit.tvm import tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.x86.instructions import WAYS, why_not_x86
from kernels.target import Target
from kernels.targets.x86_features import has
from kernels.workload.narrow import NarrowGemm


class Dot(Protocol):
    """One way."""

    @property
    def cycles(self) -> float:
        """What one vector of quanta takes."""

    def add(self, total: Vector, data: Vector, weights: Vector, bits: int) -> Vector:
        """``total`` (int32 lanes) and the products of quanta, ``data``, by int8, ``weights``."""


class _Sdot:
    """AArch64's dot product of signed bytes, for quanta that are below 128."""

    cycles = 0.5

    def add(self, total: Vector, data: Vector, weights: Vector, bits: int) -> Vector:
        """As ``Dot`` has it."""
        name, quanta = "llvm.aarch64.neon.sdot", reinterpret(data, "int8", bits // 8)
        return tirx.call_llvm_pure_intrin(of_type("int32", bits // 32), name, total, quanta, weights)


def dot_of(gemm: NarrowGemm, target: Target) -> Dot | None:
    """The way of a product whose data are rounded; None where they are floats again."""
    if not gemm.rounded:
        return None
    if target.triple.startswith("aarch64") and target.vector_bits == 128:
        return _Sdot() if gemm.bits == 4 and target.has("dotprod") else None
    if why_not_x86(target):
        return None
    if has(target, "avx512vnni" if target.vector_bits == 512 else "avxvnni"):
        return WAYS["vnni"]
    # Two products of quanta of 4 bits fit int16, those of 8 bits need not.
    return WAYS["bytes"] if gemm.bits == 4 else None


def four_at(data: Buffer, at: Index, lanes: int) -> Vector:
    """Four bytes from ``at`` on, in each of ``lanes`` lanes."""
    word = tir.splat(reinterpret(data[tir.vector(at, 4)], "int32", 1), lanes)
    return reinterpret(word, "int8", 4 * lanes)
