"""Reductions in vectors: of the elements that are kept, or as many sums of one as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr
from kernels.emit.wraps import combined
from kernels.loops.body import Axis, Body
from kernels.loops.chains import Scope, Span, body_of
from kernels.loops.expressions import dtype_of, substitute, variables_of
from kernels.loops.nest import nest
from kernels.loops.program import Stage

CHAINS = 4
"""Sums of one element that do not wait for each other, each a vector."""
MOST_SLOTS = 8
"""Vectors of kept elements that are summed side by side."""


def emit_sums(scope: Scope, stage: Stage, ranges: Sequence[Span | Expr], kept: bool) -> None:
    """Loops that combine ``stage``'s values; vectors go along its last axis if ``kept``."""
    summed_spans = map(scope.span, stage.reduced, stage.reduced_extents)
    body = body_of(scope, stage, [*ranges, *summed_spans])
    body.fuse()
    out = [axis for axis in body.axes if axis.variable in variables_of(body.at)]
    summed = [axis for axis in body.axes if axis not in out]
    made = _Sums(scope, stage, body, summed)
    if kept and out:
        nest(out[:-1], 1, lambda values: made.kept(values, out[-1]))
    else:
        nest(out, 1, made.reduced)


class _Sums:
    def __init__(self, scope: Scope, stage: Stage, body: Body, summed: Sequence[Axis]) -> None:
        self._stage, self._body, self._summed = stage, body, summed
        self._dtype = str(stage.buffer.dtype)
        self._out = scope.views[stage.buffer].data
        self._lanes = scope.lanes(body) if self._dtype != "bool" else 1

    def kept(self, values: dict[Any, Expr], axis: Axis) -> None:
        """A sum for each element along ``axis``, some vectors at a time."""
        width = min(self._lanes, 1 << (axis.extent.bit_length() - 1))
        size, dtype = min(axis.extent, MOST_SLOTS * width), dtype_of(axis.variable)
        slots = [min(first, size - width) for first in range(0, size, width)]

        def chunk(turns: dict[Any, Expr]) -> None:
            first = turns[axis.variable] * tirx.const(size, dtype)
            if axis.extent % size:
                first = T.Bind(tirx.Min(first, tirx.const(axis.extent - size, dtype)))
            sums = self._begin(len(slots) * width)

            def add(turn: dict[Any, Expr]) -> None:
                for slot, offset in enumerate(slots):
                    at = first + tirx.const(offset, dtype)
                    self._add(sums, slot, width, {**values, **turn}, axis.variable, at)

            nest(self._summed, 1, add)
            for slot, offset in enumerate(slots):
                with T.vectorized(tirx.const(0, dtype), tirx.const(width, dtype)) as lane:
                    where = {**values, axis.variable: first + tirx.const(offset, dtype) + lane}
                    self._leave(sums[slot * width + lane], where)

        if axis.extent == size:
            chunk({axis.variable: tirx.const(0, dtype)})
        else:
            nest([Axis(axis.variable, -(-axis.extent // size))], 1, chunk)

    def reduced(self, values: dict[Any, Expr]) -> None:
        """One sum, in lanes along the last axis that is summed."""
        if not self._summed:
            start = self._stage.start
            self._body.emit(
                1,
                "int32",
                lambda _: values,
                lambda _, __, value: self._leave(self._combined(start, value), values),
            )
            return
        *outer, inner = self._summed
        if inner.count is not None:
            self._open(values, outer, inner)
            return
        dtype = dtype_of(inner.variable)
        width = self._lanes if inner.extent >= self._lanes else 1
        chains = CHAINS if inner.extent >= CHAINS * width and width > 1 else 1
        whole = inner.extent // (width * chains)
        sums = self._begin(width * chains)
        rest = inner.extent % width
        single = self._begin(1) if rest else None

        def vector(slot: int, first: Expr, turn: dict[Any, Expr]) -> None:
            self._add(sums, slot, width, {**values, **turn}, inner.variable, first)

        def add(turn: dict[Any, Expr]) -> None:
            with T.serial(tirx.const(0, dtype), tirx.const(whole, dtype)) as index:
                for slot in range(chains):
                    first = index * tirx.const(width * chains, dtype) + tirx.const(slot * width, dtype)
                    vector(slot, first, turn)
            for slot in range(inner.extent % (width * chains) // width):
                vector(slot, tirx.const((whole * chains + slot) * width, dtype), turn)
            if single is not None:
                with T.serial(
                    tirx.const(inner.extent - rest, dtype), tirx.const(inner.extent, dtype)
                ) as index:
                    self._add(single, 0, 1, {**values, **turn}, inner.variable, index)

        nest(outer, 1, add)
        total = self._folded(sums, width, chains)
        if single is not None:
            total = self._combined(total, single[0])
        self._leave(total, values)

    def _open(self, values: dict[Any, Expr], outer: Sequence[Axis], inner: Axis) -> None:
        """``reduced`` where the last axis that is summed is as long as is known at run time."""
        dtype = dtype_of(inner.variable)
        width = tirx.const(self._lanes, dtype)
        sums, single = self._begin(self._lanes), self._begin(1)

        def add(turn: dict[Any, Expr]) -> None:
            whole = T.Bind(tirx.floordiv(inner.end, width))
            with T.serial(tirx.const(0, dtype), whole) as index:
                self._add(sums, 0, self._lanes, {**values, **turn}, inner.variable, index * width)
            with T.serial(tirx.const(0, dtype), inner.end - whole * width) as index:
                self._add(single, 0, 1, {**values, **turn}, inner.variable, whole * width + index)

        nest(outer, 1, add)
        self._leave(self._combined(self._folded(sums, self._lanes, 1), single[0]), values)

    def _begin(self, elements: int) -> Any:
        sums = tir.registers(elements, self._dtype)
        lanes = self._lanes if elements % self._lanes == 0 else 1
        for first in range(0, elements, lanes):
            tir.store(sums, tir.splat(self._stage.start, lanes), tir.vector(first, lanes))
        return sums

    def _add(
        self, sums: Any, slot: int, width: int, values: dict[Any, Expr], variable: Any, first: Expr
    ) -> None:
        """Add a vector of values, from where ``variable`` is ``first``."""

        def leave(lane: Expr, _: dict[Any, Expr], value: Expr) -> None:
            at = slot * width + lane
            tir.store(sums, self._combined(sums[at], value), at)

        self._body.emit(width, dtype_of(variable), lambda lane: {**values, variable: first + lane}, leave)

    def _folded(self, sums: Any, width: int, chains: int) -> Expr:
        """All sums as one, halves at a time."""
        combine = self._combined
        while chains > 1:
            chains //= 2
            for slot in range(chains):
                here, there = (tir.vector(first * width, width) for first in (slot, slot + chains))
                tir.store(sums, combine(sums[here], sums[there]), here)
        parts = [sums[lane] for lane in range(width)]
        while len(parts) > 1:
            parts = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _combined(self, one: Expr, other: Expr) -> Expr:
        return combined(self._stage.combiner, one, other)

    def _leave(self, total: Expr, values: dict[Any, Expr]) -> None:
        tir.store(self._out, total, substitute(self._body.at, values))
