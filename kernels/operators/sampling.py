"""GridSample: elements of images at places that are computed, nearest ones or weighed means of four.

Where a pixel's elements are and what each counts is the same in all channels, so it is found out once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc
from kernels.int8.saturate import inside

FAR = 2.0
"""So far outside an image nothing is read, and whole numbers still hold the place."""


@dataclass(frozen=True)
class Sampling:
    """Images of ``shape`` (NCHW), of which ``out`` (rows, columns) pixels are taken.

    ``padding`` is ONNX's word for what is outside: ``zeros``, ``border`` or ``reflection``. Where it is
    ``aligned``, -1 and 1 are the middles of the first and the last pixel, else their outer edges.
    """

    shape: tuple[int, ...]
    out: tuple[int, ...]
    nearest: bool
    padding: str
    aligned: bool

    @property
    def taps(self) -> int:
        """Elements that make one."""
        return 1 if self.nearest else 4


def build_sampling(it: Sampling, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of images, places (image, row, column, x and y) and the result, all float32."""
    images, channels, rows, columns = it.shape
    pixels = prod(it.out)
    shapes = {"data": it.shape, "grid": (images, *it.out, 2), "out": (images, channels, *it.out)}
    function = Function(name, shapes)
    with function as (data, grid, out):
        padded = it.padding == "zeros"
        offsets, weights = tir.scratch(it.taps * pixels, "int32"), tir.scratch(it.taps * pixels)
        # A table of its own: of an offset below 0, TVM would read the choice's other side at that offset.
        absent = tir.scratch(it.taps * pixels if padded else 1, "int32")
        with tir.loop(images) as image:
            with tir.loop(pixels) as pixel:
                at = T.Bind((image * pixels + pixel) * 2)
                _find(it, grid, at, pixel, offsets, weights, absent)
            with tir.loop(channels) as channel:
                plane = T.Bind((image * channels + channel) * (rows * columns))
                to = T.Bind((image * channels + channel) * pixels)
                with tir.loop(pixels) as pixel:
                    terms = []
                    for tap in range(it.taps):
                        at = tap * pixels + pixel
                        value = data[plane + offsets[at]]
                        if padded:  # not by a weight of zero: what is read instead may be infinite
                            value = tirx.Select(absent[at] > 0, tir.number(0), value)
                        terms.append(value * weights[at])
                    total = terms[0]
                    for term in terms[1:]:
                        total = total + term
                    tir.store(out, total, to + pixel)
    return function.result()


def _find(
    it: Sampling, grid: Buffer, at: Index, pixel: Index, offsets: Buffer, weights: Buffer, absent: Buffer
) -> None:
    """Where the elements of one pixel lie in a plane, what each counts, and which are zeros beside it."""
    rows, columns = it.shape[2:]
    across, down = (_taps(it, grid[at + axis], extent) for axis, extent in enumerate((columns, rows)))
    pairs = [(row, column) for row in down for column in across]
    for tap, (row, column) in enumerate(pairs):
        if it.padding == "zeros":
            there = row.inside.equal(row.whole) & column.inside.equal(column.whole)
            tir.store(absent, tirx.Select(there, tir.index(0), tir.index(1)), tap * prod(it.out) + pixel)
        tir.store(offsets, row.inside * columns + column.inside, tap * prod(it.out) + pixel)
        tir.store(weights, row.weight * column.weight, tap * prod(it.out) + pixel)


@dataclass(frozen=True)
class _Tap:
    """An element along one axis: ``whole`` is its number, ``inside`` that of one which is there."""

    whole: Expr
    inside: Expr
    weight: Expr


def _taps(it: Sampling, place: Expr, extent: int) -> list[_Tap]:
    """The elements along one axis, with what each counts, for a place between -1 and 1."""
    number = tir.number
    if it.aligned:
        place = (place + number(1)) * number((extent - 1) / 2)
    else:
        place = ((place + number(1)) * number(extent) - number(1)) * number(0.5)
    place = T.Bind(tirx.nearbyint(place) if it.nearest else place)
    if it.padding == "reflection":
        place = T.Bind(_reflected(it, place, extent))
    # A place that is no number lies before the image; what is weighed for it is no number either.
    near = T.Bind(inside(place, number(-FAR), number(extent + FAR - 1)))
    if it.nearest:
        return [_tap(near, number(1), extent)]
    low = T.Bind(tirx.floor(near))
    part = T.Bind(tirx.Select(tirx.isnan(place), place, near - low))
    return [_tap(low, number(1) - part, extent), _tap(low + number(1), part, extent)]


def _tap(place: Expr, weight: Expr, extent: int) -> _Tap:
    whole = T.Bind(place.astype("int32"))
    there = T.Bind(tirx.Min(tirx.Max(whole, tir.index(0)), tir.index(extent - 1)))
    return _Tap(whole, there, T.Bind(weight))


def _reflected(it: Sampling, place: Expr, extent: int) -> Expr:
    """``place`` mirrored at both ends as often as it takes."""
    first, span = (0.0, extent - 1.0) if it.aligned else (-0.5, float(extent))
    if span == 0:
        return tir.number(0)
    beyond = T.Bind(tirx.abs(place - tir.number(first)))
    turns = T.Bind(tirx.floor(beyond / tir.number(span)))
    rest = T.Bind(beyond - turns * tir.number(span))
    odd = turns - tir.number(2) * tirx.floor(turns * tir.number(0.5)) > tir.number(0.5)
    return tirx.Select(odd, tir.number(first + span) - rest, tir.number(first) + rest)
