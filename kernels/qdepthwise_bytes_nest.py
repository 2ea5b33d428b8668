"""The loops of ``qdepthwise_bytes``: bands, rows, blocks of windows, vectors of channels.

TVM objects are Any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import code_shape, tir
from kernels.qband import emit_band
from kernels.qdepthwise_bytes_block import Block, Place
from kernels.qdepthwise_bytes_plan import CHANNELS, PIXELS, Part, Plan
from kernels.qtir import QArguments, scratch

Windows = tuple[Any, int, int | None]
"""The number of the first window of a block, how many there are, and the column of the data where the first
begins if one of them reaches into the padding."""


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args

    def emit(self, threads: int) -> None:
        """Bands of rows, copied first where they are."""
        plan, conv = self.plan, self.conv
        bands = -(-conv.out_h // plan.rows)
        with code_shape.linked(), tir.loop(conv.n * bands, threads) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * plan.rows)
            if bands * plan.rows != conv.out_h:
                first = T.Bind(tir.least(first, conv.out_h - plan.rows))  # the last ends with the plane
            self.out = T.Bind(image * (conv.out_h * conv.out_w * conv.out_c))
            if plan.staged:
                self.source = scratch(plan.band.elements, "uint8")
                emit_band(plan.band, self.args.data, self.source, image, first, plan.lanes)
                self.origin = T.Bind(first * (-plan.step[0] * plan.pitch))
            else:
                self.source = self.args.data
                corner = (conv.pad[0] * conv.in_w + conv.pad[1]) * conv.in_c
                self.origin = T.Bind(image * (conv.in_h * conv.in_w * conv.in_c) - corner)
            if plan.order == CHANNELS:
                for part in plan.parts:
                    with tir.loop(part.count) as vector:
                        self._rows(first, [(part, vector)])
            else:
                self._rows(first, [(part, None) for part in plan.parts])

    def _rows(self, first: Any, vectors: list[tuple[Part, Any]]) -> None:
        """All rows of a band; those that reach into the padding have code of their own."""
        plan, conv = self.plan, self.conv
        down = plan.inside[0]
        edges = [y for y in range(conv.out_h) if y not in down]
        with tir.loop(plan.rows) as index:
            y = T.Bind(first + index)

            def kind(edges: list[int], y: Any = y) -> None:
                if not edges:
                    if down:
                        self._row(y, None, vectors)
                    return
                edge, *others = edges
                if not others and not down:  # nothing else is left
                    self._row(y, edge * conv.stride[0] - conv.pad[0], vectors)
                    return
                tir.choose(
                    y == edge,
                    lambda: self._row(y, edge * conv.stride[0] - conv.pad[0], vectors),
                    lambda: kind(others),
                )

            kind(edges)

    def _row(self, y: Any, top: int | None, vectors: list[tuple[Part, Any]]) -> None:
        """One row of windows, which begins at row ``top`` of the data if it reaches into the padding."""
        plan = self.plan
        start = T.Bind(self.origin + y * (plan.step[0] * plan.pitch))
        out = T.Bind(self.out + y * (self.conv.out_w * self.conv.out_c))

        edge = top is not None

        def block(windows: Windows, part: Part, vector: Any) -> None:
            self._block(start, out, windows, top, part, vector)

        if plan.order == PIXELS:
            self._windows(edge, lambda windows: _each(vectors, lambda part, v: block(windows, part, v)))
        else:
            _each(vectors, lambda part, v: self._windows(edge, lambda windows: block(windows, part, v)))

    def _windows(self, edge: bool, emit: Callable[[Windows], None]) -> None:
        """All blocks of a row."""
        across = self.plan.inside[1]
        for block, count in self.plan.runs(edge):
            inside = block.start in across and block[-1] in across
            left = None if inside else block.start * self.conv.stride[1] - self.conv.pad[1]
            with tir.loop(count) as number:
                emit((T.Bind(block.start + number * len(block)), len(block), left))

    def _block(
        self, start: Any, out: Any, windows: Windows, top: int | None, part: Part, vector: Any
    ) -> None:
        """One block of one vector of channels."""
        plan, conv = self.plan, self.conv
        x, size, left = windows
        width = plan.lanes // part.windows
        last = max(0, conv.out_c - width)
        channel = tir.index(last) if part.first else T.Bind(tir.least(vector * width, last))
        place = Place(
            at=T.Bind(start + x * (plan.step[1] * conv.in_c) + channel),
            out=T.Bind(out + x * conv.out_c + channel),
            vector=T.Bind(part.first + vector),
            top=top,
            left=left,
        )
        Block(plan, self.args, self.source, place, size, part.windows).emit()


def _each(vectors: list[tuple[Part, Any]], emit: Callable[[Part, Any], None]) -> None:
    """``emit`` for vectors that are given, and for all of the parts where none is."""
    for part, vector in vectors:
        if vector is not None:
            emit(part, vector)
            continue
        with tir.loop(part.count) as number:
            emit(part, number)
