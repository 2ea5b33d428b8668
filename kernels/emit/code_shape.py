"""What a micro-kernel asks of LLVM that TVM has no words for: loops that stay, loads that wait, prefetches.

Functions in LLVM's language are linked into the kernel, where they are inlined; no instruction comes of them
but a loop's bound, the prefetches and the loads of ``touch``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index

SMALLEST_LOOP = 24
"""Multiply-adds from which on a body is not unrolled: a loop costs little beside so many, while LLVM's
scheduler starts the loads of unrolled bodies so early that the sums no longer fit in the registers."""
SMALLEST_WIDE_LOOP = 12
"""The same with vectors of 512 bits: on a Zen 5, unrolled bodies of 12 to 22 in Winograd's products took up
to 1.8 times as long as loops, and loops were never slower."""
EXTENT, ORDER, PREFETCH = "tilefleet_extent", "tilefleet_order", "tilefleet_prefetch"
TOUCH, FRESH = "tilefleet_touch", "tilefleet_fresh"
"""The functions' names."""

_LLVM = f"""
define linkonce_odr i32 @{EXTENT}(i32 %extent) {{
  %same = call i32 asm "", "=r,0"(i32 %extent)
  ret i32 %same
}}
define linkonce_odr void @{ORDER}() {{
  fence syncscope("singlethread") seq_cst
  ret void
}}
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define linkonce_odr void @{PREFETCH}(ptr %at) {{
  call void @llvm.prefetch.p0(ptr %at, i32 0, i32 3, i32 1)
  ret void
}}
define linkonce_odr i32 @{FRESH}(i32 %value, i32 %turn) {{
  %same = call i32 asm "", "=r,0,r"(i32 %value, i32 %turn)
  ret i32 %same
}}
define linkonce_odr void @{TOUCH}(ptr %at) {{
  %unused = load volatile i8, ptr %at
  ret void
}}
"""


def linked() -> AbstractContextManager[Expr]:
    """Within it, what is emitted may use the rest of this file."""
    return tir.with_llvm(_LLVM)


def keeps_loop(multiply_adds: int, vector_bits: int) -> bool:
    """Whether a loop over bodies of so many is better kept than unrolled."""
    return multiply_adds >= (SMALLEST_WIDE_LOOP if vector_bits >= 512 else SMALLEST_LOOP)


def kept_loop(extent: int) -> AbstractContextManager[Expr]:
    """A loop over ``range(extent)`` that LLVM does not unroll, as it is not told the extent."""
    if extent == 1:
        return tir.loop(1)
    bound = T.Bind(tirx.call_extern("int32", EXTENT, tir.index(extent)))
    frame: AbstractContextManager[Expr] = T.serial(0, bound)
    return frame


def order() -> None:
    """Let no load cross this point, and no value loaded before it serve for one loaded behind it."""
    T.evaluate(tirx.call_extern("void", ORDER))


def fresh(value: Index, turn: Index) -> Index:
    """``value``, of which LLVM does not know that it is: so nothing loaded from there is kept from one
    ``turn`` to the next. The fence of ``order`` does not do that for buffers that are only read."""
    return T.Bind(tirx.call_extern("int32", FRESH, tir.index(value), tir.index(turn)))


def prefetch(buffer: Buffer, at: Index) -> None:
    """Let the cache line of element ``at`` come to L1; the element need not exist."""
    element = tirx.address_of(tirx.BufferLoad(buffer, [tir.index(at)]))
    T.evaluate(tirx.call_extern("void", PREFETCH, element))


def touch(buffer: Buffer, at: Index) -> None:
    """Load the byte of element ``at``, so that its cache line comes to L1 now and in this order."""
    element = tirx.address_of(tirx.BufferLoad(buffer, [tir.index(at)]))
    T.evaluate(tirx.call_extern("void", TOUCH, element))
