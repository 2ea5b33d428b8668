"""Biases and scales of a pair of convolutions, copied side by side.

The arrays that they come in begin with a page each, as rows do, and of so many beginnings of pages an L1 of
two ways keeps few.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index
from kernels.int8.arm.operands import by_parts
from kernels.int8.arm.separable.plan import QSeparablePlan
from kernels.int8.chain.pair import CONSTANTS, Buffers

SCALES = CONSTANTS[1:]
"""What is not weights."""
LINE = 16
"""Elements of these in a line of most caches."""


class Near:
    """The memory for them, and what emits the copies."""

    def __init__(self, plan: QSeparablePlan, args: Buffers) -> None:
        self.args, self.sizes = args, plan.near
        self.apart = ceil_div(max(map(max, plan.near)), LINE) * LINE
        self.kept = tir.scratch(len(plan.near) * len(SCALES) * self.apart, "int32")

    def constants(self, stage: int, first: Index = 0, number: Index = 0) -> dict[str, Buffer]:
        """All constants of a convolution. Biases and scales from element ``first`` on are copied, and the
        code has that element as number ``number``; a scale of all channels is one element."""
        found = dict(self.args.constants[stage])
        for place, (name, size) in enumerate(zip(SCALES, self.sizes[stage], strict=True)):
            start = (stage * len(SCALES) + place) * self.apart
            begin, shift = (first, number) if size > 1 else (0, 0)
            self._copy(found[name], T.Bind(tir.index(begin)), start, size)
            found[name] = tir.From(self.kept, T.Bind(start - tir.index(shift)))
        return found

    def _copy(self, source: Buffer, begin: Index, start: int, size: int) -> None:
        def copy(at: Index, width: int) -> None:
            tir.store(self.kept, source[tir.vector(begin + at, width)], tir.vector(start + at, width))

        by_parts(size, copy)
