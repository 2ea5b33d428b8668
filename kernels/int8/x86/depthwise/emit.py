"""The loops of the depthwise convolution of bytes: bands, rows, blocks of windows, vectors of channels."""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit import code_shape, tir
from kernels.emit.tir import scratch
from kernels.emit.tvm import T
from kernels.emit.types import Expr
from kernels.int8.band import emit_band
from kernels.int8.tir import QArguments
from kernels.int8.x86.depthwise.block import Block, Place
from kernels.int8.x86.depthwise.channels import Part
from kernels.int8.x86.depthwise.plan import CHANNELS, PIXELS, Plan

Windows = tuple[Expr, int, int | None]
"""The number of the first window of a block, how many there are, and the column of the data where the first
begins if one of them reaches into the padding."""
Vectors = list[tuple[Part, Expr | None]]
"""A vector of each part, or None for all of them."""


def emit(plan: Plan, args: QArguments) -> None:
    """Bands, rows, vectors of channels and blocks of windows around the taps."""
    with code_shape.linked():
        Nest(plan, args).emit()


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args

    def emit(self) -> None:
        """Bands of rows, copied first where they are."""
        plan, conv = self.plan, self.conv
        rows, bands = plan.knobs.rows, plan.bands // conv.n
        with tir.loop(plan.bands, plan.threads) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * rows)
            if bands * rows != conv.out_h:
                first = T.Bind(tir.least(first, conv.out_h - rows))  # the last ends with the plane
            self.out = T.Bind(image * (conv.out_h * conv.out_w * conv.out_c))
            if plan.staged:
                self.source = scratch(plan.band.elements, "uint8")
                emit_band(plan.band, self.args.data, self.source, image, first, plan.lanes)
                self.origin = T.Bind(first * (-plan.step[0] * plan.pitch))
            else:
                self.source = self.args.data
                corner = (conv.pad[0] * conv.in_w + conv.pad[1]) * conv.in_c
                self.origin = T.Bind(image * (conv.in_h * conv.in_w * conv.in_c) - corner)
            if plan.knobs.order == CHANNELS:
                for part in plan.channels.parts:
                    with tir.loop(part.count) as vector:
                        self._rows(first, [(part, vector)])
            else:
                self._rows(first, [(part, None) for part in plan.channels.parts])

    def _rows(self, first: Expr, vectors: Vectors) -> None:
        """All rows of a band; those that reach into the padding have code of their own."""
        plan, conv = self.plan, self.conv
        down = plan.inner[0]
        edges = [y for y in range(conv.out_h) if y not in down]
        with tir.loop(plan.knobs.rows) as index:
            y = T.Bind(first + index)

            def kind(edges: list[int], y: Expr = y) -> None:
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

    def _row(self, y: Expr, top: int | None, vectors: Vectors) -> None:
        """One row of windows, which begins at row ``top`` of the data if it reaches into the padding."""
        plan = self.plan
        start = T.Bind(self.origin + y * (plan.step[0] * plan.pitch))
        out = T.Bind(self.out + y * (self.conv.out_w * self.conv.out_c))

        edge = top is not None

        def block(windows: Windows, part: Part, vector: Expr) -> None:
            self._block(start, out, windows, top, part, vector)

        if plan.knobs.order == PIXELS:
            self._windows(edge, lambda windows: _each(vectors, lambda part, v: block(windows, part, v)))
        else:
            _each(vectors, lambda part, v: self._windows(edge, lambda windows: block(windows, part, v)))

    def _windows(self, edge: bool, emit: Callable[[Windows], None]) -> None:
        """All blocks of a row."""
        across = self.plan.inner[1]
        for block, count in self.plan.runs(edge):
            inside = block.start in across and block[-1] in across
            left = None if inside else block.start * self.conv.stride[1] - self.conv.pad[1]
            with tir.loop(count) as number:
                emit((T.Bind(block.start + number * len(block)), len(block), left))

    def _block(
        self, start: Expr, out: Expr, windows: Windows, top: int | None, part: Part, vector: Expr
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


def _each(vectors: Vectors, emit: Callable[[Part, Expr], None]) -> None:
    """``emit`` for vectors that are given, and for all of the parts where none is."""
    for part, vector in vectors:
        if vector is not None:
            emit(part, vector)
            continue
        with tir.loop(part.count) as number:
            emit(part, number)
