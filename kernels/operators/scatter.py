"""ScatterND and ScatterElements: a copy of an array, of which some runs or elements are replaced, or met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod

from kernels.emit import tir
from kernels.emit.elements import each_vector
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc
from kernels.emit.wraps import combined
from kernels.operators.wide import lanes_of

MEET: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda _, new: new,
    "add": partial(combined, tirx.Add),
    "mul": partial(combined, tirx.Mul),
    "min": tirx.Min,
    "max": tirx.Max,
}
"""What becomes of an element and what comes to it, by ONNX's names."""


@dataclass(frozen=True)
class Scatter:
    """``rows`` runs come to places in an array of ``shape`` whose first ``depth`` coordinates are given."""

    shape: tuple[int, ...]
    rows: int
    depth: int
    dtype: str
    reduction: str = "none"

    @property
    def run(self) -> int:
        """Elements of a run, which lie side by side."""
        return prod(self.shape[self.depth :])


def build_scatter(it: Scatter, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of the array, the places (int64, from the end where negative), the runs, and the
    result. Runs come in their order; one whose place does not exist is left out."""
    shapes = {
        "data": it.shape,
        "places": (it.rows, it.depth),
        "runs": (it.rows, it.run),
        "out": it.shape,
    }
    dtypes = {"data": it.dtype, "places": "int64", "runs": it.dtype, "out": it.dtype}
    function = Function(name, shapes, dtypes)
    with function as (data, places, runs, out):
        _copy(data, out, prod(it.shape), lanes_of(it.dtype))
        with T.serial(0, it.rows) as row:
            _put(it, places, runs, out, row)
    return function.result()


@dataclass(frozen=True)
class Elements:
    """Elements of ``counts`` come to places in an array of ``shape``: where they are, but for ``axis``."""

    shape: tuple[int, ...]
    counts: tuple[int, ...]
    axis: int
    dtype: str
    reduction: str = "none"


def build_elements(it: Elements, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of the array, the places along the axis and what comes there, as
    ``build_scatter`` has them."""
    shapes = {"data": it.shape, "places": it.counts, "new": it.counts, "out": it.shape}
    dtypes = {"data": it.dtype, "places": "int64", "new": it.dtype, "out": it.dtype}
    function = Function(name, shapes, dtypes)
    with function as (data, places, new, out), ExitStack() as loops:
        _copy(data, out, prod(it.shape), lanes_of(it.dtype))
        at = [loops.enter_context(T.serial(0, count)) for count in it.counts]
        source = T.Bind(_flat(at, it.counts))
        place, inside = _place(places, source, it.shape[it.axis])
        with tir.when(inside):
            at[it.axis] = place.astype("int32")
            to = T.Bind(_flat(at, it.shape))
            tir.store(out, MEET[it.reduction](out[to], new[source]), to)
    return function.result()


def _flat(at: Sequence[Index], shape: Sequence[int]) -> Index:
    return sum(index * prod(shape[axis + 1 :]) for axis, index in enumerate(at))


def _place(places: Buffer, at: Index, extent: int) -> tuple[Expr, Expr]:
    """A place that is given (int64), and whether there is such a one."""
    given = T.Bind(places[at])
    length, none = (tir.const(each, "int64") for each in (extent, 0))
    place = T.Bind(tirx.Select(given < none, given + length, given))
    return place, (place >= none) & (place < length)


def _copy(data: Buffer, out: Buffer, elements: int, lanes: int) -> None:
    def vector(first: Index, width: int) -> None:
        tir.store(out, data[tir.vector(first, width)], tir.vector(first, width))

    each_vector(elements, lanes, 1, vector)


def _put(it: Scatter, places: Buffer, runs: Buffer, out: Buffer, row: Index) -> None:
    """One run into its place."""
    start, inside = tir.index(0), tir.truth(True)
    for axis, extent in enumerate(it.shape[: it.depth]):
        place, exists = _place(places, row * it.depth + axis, extent)
        inside = inside & exists
        start = start + place.astype("int32") * prod(it.shape[axis + 1 :])
    with tir.when(inside):
        at, source, meet = T.Bind(start), row * it.run, MEET[it.reduction]

        def elements(first: Index, width: int) -> None:
            to = tir.vector(at + first, width)
            tir.store(out, meet(out[to], runs[tir.vector(source + first, width)]), to)

        lanes = lanes_of(it.dtype)
        with tir.loop(it.run // lanes) as turn:
            elements(turn * lanes, lanes)
        # Each element meets what comes to it once: no vector may overlap another.
        with T.serial(it.run // lanes * lanes, it.run) as last:
            elements(last, 1)
