"""The input transform of the quantized matrix product: im2col and interleaving in one pass (seed 000).

A tile of windows is stored step by step as its block wants to read it: the step's ``depth`` elements of each
window, one window after the other. Where a step's elements do not come from one tap, a window is put together
in a line first. TVM objects are Any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import qtir, tir
from kernels.qblocks import Block
from kernels.qgemm_plan import Plan

_FLIP = 128
"""Flipping the highest bit of a byte adds 128 to a signed one and takes it from an unsigned one."""


class RowTransform:
    """Emits the transform of one plan; ``line`` is scratch of ``plan.padded_depth`` of the data's type."""

    def __init__(self, plan: Plan, data: Any) -> None:
        self.plan, self.conv, self.data = plan, plan.conv, data
        self.whole_steps = self.conv.in_c % plan.block.depth == 0

    def line(self) -> Any:
        """The scratch for one window, its end filled; None when none is needed."""
        if self.whole_steps:
            return None
        line = qtir.scratch(self.plan.padded_depth, self.conv.data_dtype)
        for at in range(self.plan.depth, self.plan.padded_depth):
            tir.store(line, tirx.const(0, self.conv.data_dtype), tir.index(at))
        return line

    def tile(self, block: Block, first: Any, target: Any, at: Any, line: Any) -> None:
        """Store the windows from number ``first`` on, ``block.rows`` of them, to ``target`` from ``at``."""
        conv = self.conv
        with T.serial(0, block.rows) as row:
            window = T.Bind(first + row)
            image = T.Bind(window // (conv.out_h * conv.out_w))
            top = T.Bind(window // conv.out_w % conv.out_h * conv.stride[0] - conv.pad[0])
            left = T.Bind(window % conv.out_w * conv.stride[1] - conv.pad[1])
            start = T.Bind(at + row * block.depth)
            if line is None:
                self._taps(image, top, left, _Spread(self, block, target, start))
                return
            self._taps(image, top, left, _Gather(self, line))
            with T.serial(0, self.plan.steps) as step:
                value = self.converted(line[tir.vector(step * block.depth, block.depth)], block)
                tir.store(target, value, tir.vector(start + step * block.rows * block.depth, block.depth))

    def _taps(self, image: Any, top: Any, left: Any, copy: _Copy) -> None:
        """Every tap of one window: the channels of a pixel, or padding."""
        conv = self.conv
        padded = max(conv.pad) > 0
        with T.serial(0, conv.kh) as i, T.serial(0, conv.kw) as j:
            y, x = T.Bind(top + i * conv.dilation[0]), T.Bind(left + j * conv.dilation[1])
            source = ((image * conv.in_h + y) * conv.in_w + x) * conv.in_c
            tap = i * conv.kw + j
            inside = tirx.all(y >= 0, y < conv.in_h, x >= 0, x < conv.in_w) if padded else None
            tir.choose(inside, lambda: copy.pixel(tap, source), lambda: copy.padding(tap))

    def converted(self, value: Any, block: Block) -> Any:
        """Elements of the data as the block multiplies them."""
        if block.dtype == "int16":
            return qtir.convert(value, "int16", block.depth)
        if not self.plan.offset:
            return value
        flipped = qtir.reinterpret(value, "uint8", block.depth) ^ qtir.const(_FLIP, "uint8", block.depth)
        return qtir.reinterpret(flipped, block.dtype, block.depth)


class _Copy(ABC):
    """What happens to the channels of one tap."""

    def __init__(self, transform: RowTransform) -> None:
        self.transform, self.conv = transform, transform.conv

    @abstractmethod
    def pixel(self, tap: Any, source: Any) -> None:
        """Copy those of tap number ``tap`` from element ``source`` of the data on."""

    @abstractmethod
    def padding(self, tap: Any) -> None:
        """Fill in what padding holds."""


class _Spread(_Copy):
    """Straight to the tile: the channels are whole steps."""

    def __init__(self, transform: RowTransform, block: Block, target: Any, start: Any) -> None:
        super().__init__(transform)
        self.block, self.target, self.start = block, target, start
        self.steps = self.conv.in_c // block.depth

    def pixel(self, tap: Any, source: Any) -> None:
        depth = self.block.depth
        self._each(
            tap,
            lambda step: self.transform.converted(
                self.transform.data[tir.vector(source + step * depth, depth)], self.block
            ),
        )

    def padding(self, tap: Any) -> None:
        value = self.conv.data_zero + self.transform.plan.offset
        self._each(tap, lambda _: qtir.const(value, self.block.dtype, self.block.depth))

    def _each(self, tap: Any, value: Callable[[Any], Any]) -> None:
        pitch = self.block.rows * self.block.depth
        at = T.Bind(self.start + tap * (self.steps * pitch))
        with tir.loop(self.steps) as step:
            tir.store(self.target, value(step), tir.vector(at + step * pitch, self.block.depth))


class _Gather(_Copy):
    """To the line, byte for byte."""

    def __init__(self, transform: RowTransform, line: Any) -> None:
        super().__init__(transform)
        self.line = line

    def pixel(self, tap: Any, source: Any) -> None:
        at = T.Bind(tap * self.conv.in_c)
        self._each(lambda first, width: (self.transform.data[tir.vector(source + first, width)], at + first))

    def padding(self, tap: Any) -> None:
        at = T.Bind(tap * self.conv.in_c)
        zero = self.conv.data_zero
        self._each(lambda first, width: (qtir.const(zero, self.conv.data_dtype, width), at + first))

    def _each(self, piece: Callable[[Any, int], tuple[Any, Any]]) -> None:
        whole = self.conv.in_c // 16
        first = whole * 16
        if whole:
            with tir.loop(whole) as turn:
                value, at = piece(turn * 16, 16)
                tir.store(self.line, value, tir.vector(at, 16))
        for width in (8, 4, 2, 1):
            if (self.conv.in_c - first) & width:
                value, at = piece(first, width)
                tir.store(self.line, value, tir.vector(at, width))
                first += width
