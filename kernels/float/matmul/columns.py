"""The columns of a product's right side as vectors: packed into panels, or read where they lie."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.open_rows import held, quotient
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Expr, Index, Vector
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
            self._gather(source, view, first, columns, depth)

    def fill_rows(self, source: Buffer, view: View, first: Index, columns: int, depth: Expr) -> None:
        """``fill`` of a ``depth`` that is known only at run time, and at most what there is room for."""
        if isinstance(view.column, int) and view.column == 1:
            self._copy(source, first, view.row, columns, depth)
        else:
            self._gather(source, view, first, columns, depth)

    def fill_columns(self, source: Buffer, view: View, first: Index, columns: Expr, depth: int) -> None:
        """``fill`` of as many ``columns`` as are known at run time; anything fills the last vector."""
        lanes = self._lanes
        neighbours = isinstance(view.column, int) and view.column == 1
        if not neighbours and isinstance(view.row, int) and view.row == 1 and depth >= lanes >= 4:
            with tir.loop(held(quotient(columns + (lanes - 1), lanes))) as block:
                column = T.Bind(block * lanes)
                last = T.Bind(columns - 1)
                lines = [held(first + tir.least(column + lane, last) * view.column) for lane in range(lanes)]
                self._squares(source, lines, column, depth)
            return
        vectors = held(quotient(columns, lanes) if neighbours else tir.index(0))
        whole = held(vectors * lanes)
        with tir.loop(depth) as at:
            line = T.Bind(first + at * view.row)
            with tir.loop(vectors) as vector:
                column = T.Bind(vector * lanes)
                place = self._place(column // self._width, column % self._width, at)
                tir.store(self._buffer, source[tir.vector(line + column, lanes)], tir.vector(place, lanes))
            with T.serial(whole, columns) as column:
                place = self._place(column // self._width, column % self._width, at)
                tir.store(self._buffer, source[line + column * view.column], place)

    def _gather(self, source: Buffer, view: View, first: Index, columns: int, depth: Index) -> None:
        """One element after another."""
        self._clear(columns, depth)
        with tir.loop(depth) as at, tir.loop(columns) as column:
            place = self._place(column // self._width, 0, at) + column % self._width
            tir.store(self._buffer, source[first + at * view.row + column * view.column], place)

    def _copy(self, source: Buffer, first: Index, pitch: Index, columns: int, depth: Index) -> None:
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
            self._squares(source, [first + (column + lane) * pitch for lane in range(count)], column, depth)

        with tir.loop(columns // lanes) as block:
            square(T.Bind(block * lanes), lanes)
        if rest := columns % lanes:
            square(tir.index(columns - rest), rest)

    def _squares(self, source: Buffer, lines: list[Index], column: Index, depth: int) -> None:
        """A vector of columns from ``column`` on, of which those of ``lines`` begin there in ``source``."""
        lanes = self._lanes
        with tir.loop(ceil_div(depth, lanes)) as block:
            at = T.Bind(tir.least(block * lanes, depth - lanes))
            rows = [
                T.Bind(source[tir.vector(lines[lane] + at, lanes)]) if lane < len(lines) else tir.zeros(lanes)
                for lane in range(lanes)
            ]
            place = T.Bind(self._place(column // self._width, 0, at) + column % self._width)
            for lane, value in enumerate(transpose(rows)):
                tir.store(self._buffer, value, tir.vector(place + lane * self._width, lanes))

    def _clear(self, columns: int, depth: Index) -> None:
        """Zeros into the partial vector at the end."""
        if rest := columns % self._lanes:
            last = columns - rest
            with tir.loop(depth) as at:
                place = self._place(last // self._width, last % self._width, at)
                tir.store(self._buffer, tir.zeros(self._lanes), tir.vector(place, self._lanes))

    def _place(self, panel: Index, start: int, at: Index) -> Index:
        return (panel * self._depth + at) * self._width + start
