"""A copy of some rows of a quantized input: padded, in the type that the code multiplies.

Windows of the copy are reached without bounds checks, by one offset a window and one a run of the filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.arithmetic import ceil_div, inside
from kernels.emit import tir
from kernels.emit.tir import const, convert, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import pieces
from kernels.workload.qconv2d import QConv2d


@dataclass(frozen=True)
class Band:
    """Where the windows of ``rows`` rows of output lie. All sizes are in elements.

    Without ``copied`` they lie in the input itself. A run is a part of the filter whose elements are
    neighbours: a row of taps, or one tap where taps are dilated or channels grouped.
    """

    conv: QConv2d
    rows: int
    dtype: str
    offset: int
    unit: int
    """A run is read in whole units, so up to a unit less one past its end."""

    @property
    def joined(self) -> bool:
        """Whether a row of taps is one run."""
        return self.conv.groups == 1 and (self.conv.dilation[1] == 1 or self.conv.kw == 1)

    @property
    def run(self) -> int:
        """Elements of a run."""
        conv = self.conv
        return conv.kw * conv.in_c if self.joined else conv.in_c // conv.groups

    @property
    def steps(self) -> int:
        """Units of a run, the last one filled up with what meets weights of zero."""
        return ceil_div(self.run, self.unit)

    @property
    def runs(self) -> tuple[int, int]:
        """How many runs a filter has, down and across."""
        return self.conv.kh, 1 if self.joined else self.conv.kw

    @property
    def copied(self) -> bool:
        """Whether the input is of the wrong type or its edges are not inside it."""
        conv = self.conv
        rows = (conv.out_h - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] < conv.in_h
        columns = (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] < conv.in_w
        inside = max(conv.pad[:2]) == 0 and rows and columns
        as_it_is = self.dtype == conv.data_dtype and self.offset == 0 and self.run % self.unit == 0
        return not (inside and as_it_is)

    @property
    def skip(self) -> tuple[int, int]:
        """The stride of the copy against the input, in rows and columns: what no tap uses is left out."""
        conv = self.conv
        if not self.copied:
            return (1, 1)
        return conv.stride[0] if conv.kh == 1 else 1, conv.stride[1] if conv.kw == 1 else 1

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns between neighbouring windows."""
        return self.conv.stride[0] // self.skip[0], self.conv.stride[1] // self.skip[1]

    @property
    def columns(self) -> int:
        """Columns of the copy, or of the input."""
        conv = self.conv
        if not self.copied:
            return conv.in_w
        return (conv.out_w - 1) * self.step[1] + (conv.kw - 1) * conv.dilation[1] + 1

    @property
    def height(self) -> int:
        """Rows of the copy."""
        return (self.rows - 1) * self.step[0] + (self.conv.kh - 1) * self.conv.dilation[0] + 1

    @property
    def pitch(self) -> int:
        """Elements of a row."""
        return self.columns * self.conv.in_c

    @property
    def elements(self) -> int:
        """Size of the copy."""
        return self.height * self.pitch + self.unit

    def window(self, row: Index, column: Index) -> Index:
        """Where a window starts, from that of the band."""
        return row * (self.step[0] * self.pitch) + column * (self.step[1] * self.conv.in_c)

    def numbered(self, number: Index) -> Index:
        """Where window ``number``, counted along rows, starts."""
        width = self.conv.out_w
        if self.window(1, 0) == self.window(0, width):
            return self.window(0, number)  # rows follow each other as windows do
        return self.window(number // width, number % width)

    def tap(self, row: Index, column: Index) -> Index:
        """Where a run starts, from its window."""
        conv = self.conv
        return row * (conv.dilation[0] * self.pitch) + column * (conv.dilation[1] * conv.in_c)


def emit_band(band: Band, data: Buffer, copy: Buffer, image: Index, first: Index, lanes: int) -> None:
    """Fill ``copy`` with what output rows from ``first`` on use, ``lanes`` elements at a time."""
    conv, pitch, in_c = band.conv, band.pitch, band.conv.in_c
    left, right = inside(conv.pad[1], band.skip[1], band.columns, conv.in_w)

    def fill(at: Index, count: int) -> None:
        def one(i: Index, width: int) -> None:
            zero = const(conv.data_zero + band.offset, band.dtype, width)
            tir.store(copy, zero, tir.vector(at + i, width))

        by_vectors(count, lanes, one)

    def take(at: Index, source: Buffer, count: int) -> None:
        def one(i: Index, width: int) -> None:
            value = _converted(data[tir.vector(source + i, width)], band, width)
            tir.store(copy, value, tir.vector(at + i, width))

        by_vectors(count, lanes, one)

    with tir.loop(band.height) as row:
        at = T.Bind(row * pitch)
        source = T.Bind(first * conv.stride[0] + row * band.skip[0] - conv.pad[0])

        def within(at: Index = at, source: Buffer = source) -> None:
            column = left * band.skip[1] - conv.pad[1]
            start = T.Bind(((image * conv.in_h + source) * conv.in_w + column) * in_c)
            fill(at, left * in_c)
            if band.skip[1] == 1:
                take(at + left * in_c, start, (right - left) * in_c)
            else:
                with tir.loop(right - left) as x:
                    target = T.Bind(at + (left + x) * in_c)
                    take(target, T.Bind(start + x * (band.skip[1] * in_c)), in_c)
            fill(at + right * in_c, (band.columns - right) * in_c)

        def outside(at: Index = at) -> None:
            fill(at, pitch)

        tir.choose(tirx.all(source >= 0, source < conv.in_h), within, outside)
    fill(tir.index(band.height * pitch), band.unit)


def _converted(value: Vector, band: Band, width: int) -> Vector:
    if band.dtype == band.conv.data_dtype:
        return value
    if band.dtype == "int16":
        words = convert(value, "int16", width)
        return words + const(band.offset, "int16", width) if band.offset else words
    # int8 as uint8 with 128 added: the upper bit flips.
    return tirx.bitwise_xor(reinterpret(value, "uint8", width), const(128, "uint8", width))


def by_vectors(count: int, lanes: int, one: Callable[[Index, int], None]) -> None:
    """``one(at, width)`` over ``range(count)`` by whole vectors; the last may overlap the one before."""
    whole = count // lanes
    if whole:
        with tir.loop(whole) as turn:
            one(T.Bind(turn * lanes), lanes)
        if count % lanes:
            one(tir.index(count - lanes), lanes)
    elif count:
        for start, width in pieces(count):
            one(tir.index(start), width)
