"""Indices that data say are within what they are for, or the run ends before anything is read by them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

import numpy as np

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.open_rows import held
from kernels.emit.refusal import TEXTS, Refusal
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc, Vector
from kernels.operators.wide import lanes_of

NOTHING = -1


@dataclass(frozen=True)
class Bounds:
    """An array of ``shape`` of which every element is from ``low`` to ``high``; where ``low`` is above
    ``high``, any but those between them.

    There is a pair for each place of the last axis, or one for all. ``needs`` say so for those who are given
    something else.
    """

    shape: tuple[Index, ...]
    dtype: str
    limits: tuple[tuple[Index, Index], ...]
    needs: tuple[str, ...]


def build_bounds(arrays: Sequence[Bounds], name: str) -> PrimFunc:
    """The PrimFunc ``name`` of the arrays and a zero, int64, which it leaves where all are in their bounds.

    Else it refuses one that is not, which is in the place of the zero then.
    """
    shapes: dict[str, tuple[Index, ...]] = {f"p{at}": each.shape for at, each in enumerate(arrays)}
    dtypes = {f"p{at}": each.dtype for at, each in enumerate(arrays)}
    function = Function(name, {**shapes, "zero": ()}, {**dtypes, "zero": "int64"})
    refusals = list(dict.fromkeys(needs for each in arrays for needs in each.needs))
    with function as (*places, zero), ExitStack() as known:
        made = {needs: Refusal(needs) for needs in refusals}
        for each in made.values():
            known.enter_context(each.known())
        found = tir.registers(1, "int32")
        tir.store(found, tir.const(NOTHING), 0)
        tir.store(zero, tir.const(0, "int64"), 0)
        for array, buffer in zip(arrays, places, strict=True):
            _Looking(array, buffer, zero, found, [refusals.index(needs) for needs in array.needs]).emit()
        for number, needs in enumerate(refusals):
            with tir.when(found[0].equal(tir.const(number))):
                made[needs].emit(zero[0])
    return function.result().with_attr(TEXTS, refusals)


class _Looking:
    def __init__(
        self, array: Bounds, data: Buffer, zero: Buffer, found: Buffer, refusals: Sequence[int]
    ) -> None:
        self.array, self.data, self.zero, self.found, self.refusals = array, data, zero, found, refusals
        count = prod(array.shape)
        self.count = count if isinstance(count, int) else held(count.astype("int32"))

    def emit(self) -> None:
        """Look at all elements; nothing is read of none."""
        none = isinstance(self.count, int) and self.count == 0
        if none:
            return
        with tir.when(None if isinstance(self.count, int) else self.count > tir.const(0)):
            if len(self.array.limits) == 1:
                self._all()
            else:
                self._columns()

    def _all(self) -> None:
        """One pair of limits: a lane keeps what it has found outside, by vectors."""
        dtype, lanes = self.array.dtype, lanes_of(self.array.dtype)
        if isinstance(self.count, int) and self.count < lanes:
            lanes = 1
        found = tir.registers(lanes, dtype)
        tir.store(found, tir.splat(self.data[0], lanes), tir.vector(0, lanes))
        blocks = self.count // lanes if isinstance(self.count, int) else tirx.floordiv(self.count, lanes)

        def look(at: Index, width: int) -> None:
            value, slot = T.Bind(self.data[tir.vector(at, width)]), tir.vector(0, width)
            tir.store(found, tirx.Select(self._outside(value, 0, width), value, found[slot]), slot)

        with tir.loop(blocks) as block:
            look(block * lanes, lanes)
        with T.serial(blocks * lanes, self.count) as last:
            look(last, 1)
        value = T.Bind(found[0])
        for lane in range(1, lanes):
            other = T.Bind(found[lane])
            value = T.Bind(tirx.Select(self._outside(other, 0, 1), other, value))
        self._note(value, 0)

    def _columns(self) -> None:
        """A pair of limits for each place of the last axis."""
        many = len(self.array.limits)
        with tir.loop(self.count // many) as row:
            for column in range(many):
                self._note(T.Bind(self.data[row * many + column]), column)

    def _outside(self, value: Vector, column: int, lanes: int) -> Vector:
        """Whether numbers are not in their bounds; what the type cannot hold is never found."""
        dtype, info = self.array.dtype, np.iinfo(self.array.dtype)
        low, high = self.array.limits[column]
        if isinstance(low, int) and isinstance(high, int) and low > high + 1:
            first, last = (self._limit(limit, lanes) for limit in (max(high + 1, info.min), low - 1))
            return value.equal(first) if low - high == 2 else tirx.And(value >= first, value <= last)
        if isinstance(high, int) and high < info.min:
            return tir.splat(tir.truth(True), lanes)
        found = []
        if not isinstance(low, int) or low > info.min:
            found.append(value < self._limit(low, lanes))
        if not isinstance(high, int) or high < info.max:
            found.append(value > self._limit(high, lanes))
        if not found:
            return tir.splat(tir.truth(False), lanes)
        assert dtype == self.array.dtype
        return found[0] if len(found) == 1 else tirx.Or(*found)

    def _limit(self, limit: Index, lanes: int) -> Vector:
        dtype = self.array.dtype
        one = tirx.const(limit, dtype) if isinstance(limit, int) else tirx.Cast(dtype, limit)
        return tir.splat(one, lanes)

    def _note(self, value: Expr, column: int) -> None:
        """Note the first number that is not in its bounds, and which refusal it is for."""
        # Bound, because TVM solves a condition for its numbers, and makes -1 of an unsigned type for that.
        outside = T.Bind(self._outside(value, column, 1))
        with tir.when(tirx.And(self.found[0].equal(tir.const(NOTHING)), outside)):
            tir.store(self.zero, value.astype("int64"), 0)
            tir.store(self.found, tir.const(self.refusals[column]), 0)
