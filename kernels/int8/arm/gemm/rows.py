"""The input transform of the quantized matrix product: im2col and interleaving in one pass (seed 000).

A tile of windows is stored step by step as its block wants to read it: the step's ``depth`` elements of each
window, one window after the other; for ``fours`` window by window. Where a step's elements do not come from
one tap, a window is put together in a line first.
"""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index
from kernels.int8.arm.blocks.block import Block
from kernels.int8.arm.gemm.plan import Plan
from kernels.int8.arm.operands import by_parts, multiplied

Copy = Callable[[Index, Index | None], None]
"""Takes the channels of a tap from an element of the data on, or what padding holds when None."""


class RowTransform:
    """Emits the transform of one plan; ``line`` is scratch of ``plan.padded_depth`` of the data's type."""

    def __init__(self, plan: Plan, data: Buffer) -> None:
        self.plan, self.conv, self.data = plan, plan.conv, data
        self.whole_steps = self.conv.in_c % plan.block.unit == 0

    def line(self) -> Buffer:
        """The scratch for one window, its end filled; None when none is needed."""
        if self.whole_steps:
            return None
        line = tir.scratch(self.plan.padded_depth, self.conv.data_dtype)
        for at in range(self.plan.depth, self.plan.padded_depth):
            tir.store(line, tirx.const(0, self.conv.data_dtype), tir.index(at))
        return line

    def tile(self, block: Block, first: Index, target: Buffer, at: Index, line: Buffer) -> None:
        """Store the windows from number ``first`` on, ``block.rows`` of them, to ``target`` from ``at``."""
        conv = self.conv
        apart, pitch = self.plan.strides(block)
        with T.serial(0, block.rows) as row:
            window = T.Bind(first + row)
            start = T.Bind(at + row * apart)
            copy = self._spread(block, target, start) if line is None else self._gather(line)
            if conv.is_pointwise:
                copy(tir.index(0), T.Bind(window * conv.in_c))
            else:
                image = T.Bind(window // (conv.out_h * conv.out_w))
                top = T.Bind(window // conv.out_w % conv.out_h * conv.stride[0] - conv.pad[0])
                left = T.Bind(window % conv.out_w * conv.stride[1] - conv.pad[1])
                self._taps(image, top, left, copy)
            if line is None:
                return
            with T.serial(0, self.plan.steps) as step:
                value = multiplied(line, step * block.depth, block.dtype, block.depth)
                tir.store(target, value, tir.vector(start + step * pitch, block.depth))

    def _taps(self, image: Index, top: Index, left: Index, copy: Copy) -> None:
        """Every tap of one window: the channels of a pixel, or padding."""
        conv = self.conv
        padded = max(conv.pad) > 0
        with T.serial(0, conv.kh) as i, T.serial(0, conv.kw) as j:
            y, x = T.Bind(top + i * conv.dilation[0]), T.Bind(left + j * conv.dilation[1])
            source = ((image * conv.in_h + y) * conv.in_w + x) * conv.in_c
            tap = i * conv.kw + j
            inside = tirx.all(y >= 0, y < conv.in_h, x >= 0, x < conv.in_w) if padded else None
            tir.choose(inside, lambda: copy(tap, source), lambda: copy(tap, None))

    def _spread(self, block: Block, target: Buffer, start: Index) -> Copy:
        """Straight to the tile: the channels are whole steps."""
        depth, (_, pitch) = block.depth, self.plan.strides(block)
        if self.conv.in_c % depth:
            depth = pitch = block.unit  # its elements lie side by side
        steps = self.conv.in_c // depth

        def copy(tap: Index, source: Index | None) -> None:
            value = tir.const(self.conv.data_zero + self.plan.offset, block.dtype, depth)
            at = T.Bind(start + tap * (steps * pitch))
            with tir.loop(steps) as step:
                if source is not None:
                    value = multiplied(self.data, source + step * depth, block.dtype, depth)
                tir.store(target, value, tir.vector(at + step * pitch, depth))

        return copy

    def _gather(self, line: Buffer) -> Copy:
        """To the line, byte for byte."""

        def copy(tap: Index, source: Index | None) -> None:
            at = T.Bind(tap * self.conv.in_c)

            def part(first: Index, width: int) -> None:
                value = tir.const(self.conv.data_zero, self.conv.data_dtype, width)
                if source is not None:
                    value = self.data[tir.vector(source + first, width)]
                tir.store(line, value, tir.vector(at + first, width))

            by_parts(self.conv.in_c, part)

        return copy
