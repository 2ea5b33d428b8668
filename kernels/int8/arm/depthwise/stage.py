"""The copy of a band of the input of the quantized depthwise convolution: padded, as products want it."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index
from kernels.int8.arm.depthwise.plan import Plan
from kernels.int8.arm.operands import by_parts, multiplied


class Stage:
    """Emits the copy from ``data`` to ``stage``."""

    def __init__(self, plan: Plan, data: Buffer, stage: Buffer) -> None:
        self.plan, self.conv, self.data, self.stage = plan, plan.conv, data, stage

    def fill(self, image: Index, top: Index, channel: Index) -> None:
        """Copy a chunk of the rows from ``top`` on, with padding around them."""
        plan, conv, chunk = self.plan, self.conv, self.plan.knobs.chunk
        pitch = plan.columns * chunk
        left = min(conv.pad[1], plan.columns)
        inside = min(conv.in_w, plan.columns - left)
        right = plan.columns - left - inside
        with tir.loop(plan.rows) as row:
            y, at = T.Bind(top + row), T.Bind(row * pitch)
            with T.If(tirx.all(y >= 0, y < conv.in_h)):
                with T.Then():
                    source = T.Bind((image * conv.in_h + y) * (conv.in_w * conv.in_c) + channel)
                    begin = T.Bind(at + left * chunk)
                    self._pad(at, left * chunk)
                    if chunk == conv.in_c:
                        self._copy(begin, source, inside * chunk)
                    else:
                        with tir.loop(inside) as column:
                            self._copy(begin + column * chunk, source + column * conv.in_c, chunk)
                    self._pad(begin + inside * chunk, right * chunk)
                with T.Else():
                    self._pad(at, pitch)

    def _copy(self, at: Index, source: Index, count: int) -> None:
        def copy(start: Index, width: int) -> None:
            value = multiplied(self.data, source + start, self.plan.packed_dtype, width)
            tir.store(self.stage, value, tir.vector(at + start, width))

        by_parts(count, copy)

    def _pad(self, at: Index, count: int) -> None:
        value = self.conv.data_zero + self.plan.offset
        by_parts(
            count,
            lambda start, width: tir.store(
                self.stage, tir.const(value, self.plan.packed_dtype, width), tir.vector(at + start, width)
            ),
        )
