"""The columns of a product's right side as vectors: packed into panels, or read where they lie."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import pieces, transpose
from kernels.workload.view import View


class Panels:
    """Room for ``depth`` x ``columns`` of a matrix, in panels of ``width`` columns of whole vectors."""

    def __init__(self, depth: int, columns: int, width: int, lanes: int) -> None:
        self._depth, self._columns, self._width, self._lanes = depth, columns, width, lanes
        self._buffer = tir.scratch(ceil_div(columns, width) * width * depth)

    def read(self, panel: Index, start: int, at: Index) -> Vector:
        """The vector from column ``start`` of a panel, at place ``at`` of what is packed."""
        return self._buffer[tir.vector(self._place(panel, start, at), self._lanes)]

    def fill(self, source: Buffer, view: View, first: Index, columns: int, depth: int) -> None:
        """Pack ``depth`` x ``columns`` of the matrix that starts at ``first``; zeros fill the last vector."""
        if view.column == 1:
            self._copy(source, first, view.row, columns, depth)
        elif view.row == 1 and depth >= self._lanes >= 4:
            self._turn(source, first, view.column, columns, depth)
        else:
            self._clear(columns, depth)
            with tir.loop(depth) as at, tir.loop(columns) as column:
                place = self._place(column // self._width, 0, at) + column % self._width
                tir.store(self._buffer, source[first + at * view.row + column * view.column], place)

    def _copy(self, source: Buffer, first: Index, pitch: int, columns: int, depth: int) -> None:
        lanes, whole = self._lanes, columns // self._width

        def vectors(panel: Index, at: Index, spans: list[tuple[int, int]]) -> None:
            for start, size in spans:
                value = source[tir.vector(first + at * pitch + panel * self._width + start, size)]
                tir.store(self._buffer, value, tir.vector(self._place(panel, start, at), size))

        with tir.loop(whole) as panel, tir.loop(depth) as at:
            vectors(panel, at, [(start, lanes) for start in range(0, self._width, lanes)])
        if rest := columns % self._width:
            self._clear(columns, depth)
            spans = [(start, lanes) for start in range(0, rest - lanes + 1, lanes)]
            if part := rest % lanes:
                spans += [(rest - part + start, size) for start, size in pieces(part)]
            with tir.loop(depth) as at:
                vectors(tir.index(whole), at, spans)

    def _turn(self, source: Buffer, first: Index, pitch: int, columns: int, depth: int) -> None:
        """Squares of a vector of columns by as many places; the last ones overlap those before."""
        lanes = self._lanes

        def square(column: Index, count: int) -> None:
            with tir.loop(ceil_div(depth, lanes)) as block:
                at = T.Bind(tir.least(block * lanes, depth - lanes))
                rows = [
                    T.Bind(source[tir.vector(first + (column + lane) * pitch + at, lanes)])
                    if lane < count
                    else tir.zeros(lanes)
                    for lane in range(lanes)
                ]
                place = T.Bind(self._place(column // self._width, 0, at) + column % self._width)
                for lane, value in enumerate(transpose(rows)):
                    tir.store(self._buffer, value, tir.vector(place + lane * self._width, lanes))

        with tir.loop(columns // lanes) as block:
            square(T.Bind(block * lanes), lanes)
        if rest := columns % lanes:
            square(tir.index(columns - rest), rest)

    def _clear(self, columns: int, depth: int) -> None:
        """Zeros into the partial vector at the end."""
        if rest := columns % self._lanes:
            last = columns - rest
            with tir.loop(depth) as at:
                place = self._place(last // self._width, last % self._width, at)
                tir.store(self._buffer, tir.zeros(self._lanes), tir.vector(place, self._lanes))

    def _place(self, panel: Index, start: int, at: Index) -> Index:
        return (panel * self._depth + at) * self._width + start
