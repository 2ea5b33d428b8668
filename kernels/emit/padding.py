"""A copy of the input in which every window is reached by unit strides and without bounds checks.

The copy is padded, and its columns are split by phase: column ``q * stride + p`` of a row goes to position
``q`` of phase ``p``, so windows that are neighbours in a row are neighbours in memory whatever the stride.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import inside
from kernels.emit import tir
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index
from kernels.workload.base import Conv2d


@dataclass(frozen=True)
class InputLayout:
    """Where a window's elements are. All sizes and offsets are in elements.

    ``slack`` is how far past the last element a kernel may read; above zero it forces the copy. Without
    ``split`` the columns keep their order, and neighbouring windows are a stride apart.
    """

    conv: Conv2d
    slack: int = 0
    split: bool = True

    @property
    def copied(self) -> bool:
        """Whether the windows need the copy; without it the layout describes the input as it is."""
        conv = self.conv
        last_row = (conv.out_h - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0]
        last_column = (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1]
        inside = max(conv.pad[:2]) == 0 and last_row < conv.in_h and last_column < conv.in_w
        return self.slack > 0 or not inside or (self.split and conv.stride[1] > 1 and conv.out_w > 1)

    @property
    def phases(self) -> tuple[int, ...]:
        """The column phases that some tap uses."""
        return tuple(sorted({s * self.conv.dilation[1] % self.stretch for s in range(self.conv.kw)}))

    @property
    def stretch(self) -> int:
        """Columns of the input between neighbouring columns of a plane."""
        return self.conv.stride[1] if self.copied and self.split else 1

    @property
    def column_step(self) -> int:
        """Elements between neighbouring windows of a row."""
        return self.conv.stride[1] // self.stretch

    @property
    def rows(self) -> int:
        """Rows of one phase's plane."""
        return self._rows if self.copied else self.conv.in_h

    @property
    def columns(self) -> int:
        """Columns of one phase's plane."""
        return self._columns if self.copied else self.conv.in_w

    @property
    def row_step(self) -> int:
        """Rows between the windows of neighbouring output rows."""
        return 1 if self._skips_rows and self.copied else self.conv.stride[0]

    @property
    def row_pitch(self) -> int:
        """Elements between the windows of neighbouring output rows."""
        return self.row_step * self.columns

    @property
    def channel_pitch(self) -> int:
        """Elements between neighbouring channels."""
        return len(self.phases) * self.rows * self.columns

    @property
    def tap_pitch(self) -> int:
        """Elements between a filter's neighbouring rows."""
        return self.conv.dilation[0] * self.columns

    @property
    def flat(self) -> bool:
        """Whether window ``w`` starts at element ``w``, across rows as well."""
        rows_join = self.row_pitch == self.conv.out_w or self.conv.out_h == 1
        return rows_join and (self.column_step == 1 or self.conv.out_w == 1)

    @property
    def elements(self) -> int:
        """Size of the copy of one image."""
        return self.conv.in_c * self.channel_pitch + self.slack

    def tap(self, column: int) -> int:
        """Offset from a window's start to the tap at ``column`` of the filter's first row."""
        at = column * self.conv.dilation[1]
        phase = self.phases.index(at % self.stretch)
        return phase * self.rows * self.columns + at // self.stretch

    def window(self, w: Index) -> Index:
        """Offset of window ``w`` (counted along rows of the output) from its channel's start."""
        if self.flat:
            return w
        width = self.conv.out_w
        return w // width * self.row_pitch + w % width * self.column_step

    @property
    def copy_cycles(self) -> float:
        """Roughly what the copy of one image costs an element, copied as it is or split by shuffles."""
        if not self.copied:
            return 0.0
        return self.elements * (0.4 if self.stretch > 1 else 0.15)

    @property
    def _skips_rows(self) -> bool:
        # A filter of one row uses every stride-th row only.
        return self.conv.kh == 1

    @property
    def _rows(self) -> int:
        conv = self.conv
        if self._skips_rows:
            return conv.out_h
        return (conv.out_h - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def _columns(self) -> int:
        conv = self.conv
        reach = (conv.kw - 1) * conv.dilation[1] // self.stretch
        return (conv.out_w - 1) * self.column_step + reach + 1


def emit_copy(
    layout: InputLayout, lanes: int, data: Buffer, copy: Buffer, image: Index, threads: int = 1
) -> None:
    """Fill ``copy`` (of ``layout.elements``) from image number ``image`` of ``data``, all but the slack."""
    conv = layout.conv
    plane = conv.in_h * conv.in_w
    row_step = conv.stride[0] if layout._skips_rows else 1
    first_row, last_row = inside(conv.pad[0], row_step, layout.rows, conv.in_h)
    with tir.loop(conv.in_c, threads) as c:
        source_channel = (image * conv.in_c + c) * plane
        for number, phase in enumerate(layout.phases):
            target = c * layout.channel_pitch + number * layout.rows * layout.columns
            first, last = inside(conv.pad[1] - phase, layout.stretch, layout.columns, conv.in_w)
            _zero(copy, target, first_row * layout.columns)
            with tir.loop(last_row - first_row) as h:
                row = target + (h + first_row) * layout.columns
                source = source_channel + ((h + first_row) * row_step - conv.pad[0]) * conv.in_w
                _zero(copy, row, first)
                start = T.Bind(source + first * layout.stretch + phase - conv.pad[1])
                copy_row(copy, T.Bind(row + first), data, start, last - first, layout.stretch, lanes)
                _zero(copy, row + last, layout.columns - last)
            _zero(copy, target + last_row * layout.columns, (layout.rows - last_row) * layout.columns)


def _zero(buffer: Buffer, start: Index, count: int) -> None:
    if count:
        with T.serial(0, count) as i:
            tir.store(buffer, tir.number(0.0), start + i)
