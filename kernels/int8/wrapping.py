"""Arithmetic of int32 vectors modulo 2^32.

TVM tells LLVM that no sum, difference or product of 32 bits overflows, of signed numbers (``nsw``) nor of
unsigned ones (``nuw``), so one that does is undefined. LLVM's operations on the lanes of a mask, here all of
them, promise nothing, and become the same instructions.
"""

from __future__ import annotations

from kernels.emit.tir import of_type
from kernels.emit.tvm import tirx
from kernels.emit.types import Vector


def added(one: Vector, other: Vector, lanes: int) -> Vector:
    """``one + other``."""
    return _call("add", one, other, lanes)


def subtracted(one: Vector, other: Vector, lanes: int) -> Vector:
    """``one - other``."""
    return _call("sub", one, other, lanes)


def multiplied(one: Vector, other: Vector, lanes: int) -> Vector:
    """``one * other``."""
    return _call("mul", one, other, lanes)


def _call(operation: str, one: Vector, other: Vector, lanes: int) -> Vector:
    every = tirx.Broadcast(tirx.const(1, "bool"), lanes)
    count = tirx.const(lanes, "uint32")
    return tirx.call_llvm_pure_intrin(
        of_type("int32", lanes), f"llvm.vp.{operation}", one, other, every, count
    )
