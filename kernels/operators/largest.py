"""TopK: the largest or the smallest elements along an axis, the best first, and where they were.

A heap has the best that were seen, with the worst of them on top; most elements are no better than that one,
which is found out for a vector of them at a time. Taking the heap apart puts what it has in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc
from kernels.emit.vectors import shuffle
from kernels.operators.wide import lanes_of


@dataclass(frozen=True)
class Largest:
    """``count`` elements along ``axis`` of an array of ``shape``; the ``smallest`` ones perhaps.

    Of equal ones the first counts as better. NaN is larger than all numbers, as in onnx's reference.
    """

    shape: tuple[int, ...]
    axis: int
    count: int
    dtype: str
    smallest: bool = False

    @property
    def out(self) -> tuple[int, ...]:
        """Shape of either result."""
        return (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])


def build_largest(it: Largest, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of the array, the elements and their places along the axis (int64)."""
    shapes = {"data": it.shape, "values": it.out, "places": it.out}
    function = Function(name, shapes, {"data": it.dtype, "values": it.dtype, "places": "int64"}, results=2)
    with function as (data, values, places):
        _Heap(it, data).run(values, places)
    return function.result()


class _Heap:
    def __init__(self, it: Largest, data: Buffer) -> None:
        self.it, self.data = it, data
        self.extent, self.inner = it.shape[it.axis], prod(it.shape[it.axis + 1 :])
        self.values, self.places = tir.scratch(it.count, it.dtype), tir.scratch(it.count, "int32")
        self.at = tir.registers(1, "int32")
        self.held, self.origin = tir.registers(1, it.dtype), tir.registers(1, "int32")

    def run(self, values: Buffer, places: Buffer) -> None:
        it, count = self.it, self.it.count
        with tir.loop(prod(it.shape[: it.axis])) as block, tir.loop(self.inner) as column:
            base = T.Bind(block * (self.extent * self.inner) + column)
            with tir.loop(count) as first:
                self._put(first, self.data[base + first * self.inner], first)
            with tir.loop(count // 2) as turn:
                top = T.Bind(count // 2 - 1 - turn)
                self._sink(top, count, self.values[top], self.places[top])
            self._rest(base)
            with tir.loop(count - 1) as turn:
                end = T.Bind(count - 1 - turn)
                value, place = T.Bind(self.values[end]), T.Bind(self.places[end])
                self._put(end, self.values[0], self.places[0])
                self._sink(tir.index(0), end, value, place)
            start = T.Bind(block * (count * self.inner) + column)
            with tir.loop(count) as number:
                tir.store(values, self.values[number], start + number * self.inner)
                tir.store(places, self.places[number].astype("int64"), start + number * self.inner)

    def _rest(self, base: Index) -> None:
        """All elements behind those that the heap began with."""
        rest, block = self.extent - self.it.count, lanes_of(self.it.dtype)
        blocks = rest // block if self.inner == 1 else 0
        with tir.loop(blocks) as number:
            first = T.Bind(self.it.count + number * block)
            # Stored, as an expression would be computed again for each time that it is named.
            tir.store(self.held, self._best(base + first), 0)
            worth = self._better(self.held[0], self.values[0])
            if "float" in self.it.dtype and self.it.smallest:
                worth = worth | tirx.isnan(self.held[0])  # it hides what else there is
            with tir.when(worth):
                self._each(base, first, first + block)
        self._each(base, self.it.count + blocks * block, self.extent)

    def _each(self, base: Index, first: Index, end: Index) -> None:
        with T.serial(first, end) as place:
            value = T.Bind(self.data[base + place * self.inner])
            with tir.when(self._better(value, self.values[0])):
                self._sink(tir.index(0), self.it.count, value, place)

    def _best(self, start: Index) -> Expr:
        """The best element of a vector; NaN where one is."""
        lanes = lanes_of(self.it.dtype)
        extreme: Callable[[Expr, Expr], Expr] = tirx.Min if self.it.smallest else tirx.Max
        best = T.Bind(self.data[tir.vector(start, lanes)])
        while lanes > 1:
            lanes //= 2
            best = T.Bind(extreme(shuffle([best], range(lanes)), shuffle([best], range(lanes, 2 * lanes))))
        return best

    def _better(self, one: Expr, other: Expr) -> Expr:
        if "float" not in self.it.dtype:
            return one < other if self.it.smallest else one > other
        # Not by comparisons the other way round, negated: TVM turns those as if there were no NaN.
        if self.it.smallest:
            return (one < other) | (tirx.isnan(other) & tirx.Not(tirx.isnan(one)))
        return (one > other) | (tirx.isnan(one) & tirx.Not(tirx.isnan(other)))

    def _put(self, at: Index, value: Expr, place: Expr) -> None:
        tir.store(self.values, value, at)
        tir.store(self.places, place, at)

    def _sink(self, top: Expr, end: Index, value: Expr, place: Expr) -> None:
        """Put an element into the heap of ``end`` ones from ``top`` on, where nothing above is better."""
        tir.store(self.held, value, 0)
        tir.store(self.origin, place, 0)
        tir.store(self.at, top, 0)
        with T.While(self.at[0] * 2 + 1 < end):
            above, left = T.Bind(self.at[0]), T.Bind(self.at[0] * 2 + 1)
            right = T.Bind(tirx.Min(left + 1, tir.index(end) - 1))
            worse = self._worse(self.values[right], self.places[right], self.values[left], self.places[left])
            child = T.Bind(tirx.Select(worse, right, left))
            found, where = T.Bind(self.values[child]), T.Bind(self.places[child])

            def rise() -> None:
                self._put(above, found, where)
                tir.store(self.at, child, 0)

            def rest() -> None:
                self._put(above, self.held[0], self.origin[0])
                tir.store(self.at, end, 0)

            tir.choose(self._worse(found, where, self.held[0], self.origin[0]), rise, rest)
        with tir.when(self.at[0] < end):
            self._put(self.at[0], self.held[0], self.origin[0])

    def _worse(self, value: Expr, place: Expr, other: Expr, second: Expr) -> Expr:
        return self._better(other, value) | (tir.negation(self._better(value, other)) & (place > second))
