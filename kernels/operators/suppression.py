"""Boxes that overlap no better one (NonMaxSuppression), and the places that hold something (NonZero).

Data decide how many there are, so a result has room for the greatest number; what is left over is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc

NONE = -1
"""In a row that nothing is found for."""
SIDES = ("left", "right", "top", "bottom", "area")
LEAST = -3.4028234663852886e38
"""The least float32 that is no infinity."""


@dataclass(frozen=True)
class Suppression:
    """The best of ``boxes`` of each of ``classes``, at most ``most``, in each of ``batch`` images.

    Boxes are two corners (y, x, y, x), or where they are ``centred`` the middle and the size (x, y, width,
    height). ``limited`` says that only scores above a threshold count.
    """

    batch: int
    classes: int
    boxes: int
    most: int
    centred: bool
    limited: bool

    @property
    def rows(self) -> int:
        """Room for that many results."""
        return self.batch * self.classes * self.most

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the arguments, the result last: rows of image, class and box."""
        return {
            "boxes": (self.batch, self.boxes, 4),
            "scores": (self.batch, self.classes, self.boxes),
            "most": (1,),
            "overlap": (1,),
            "least": (1,),
            "out": (self.rows, 3),
        }


def build_suppression(it: Suppression, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of boxes, scores, how many of a class at most (int64), the overlap that is too
    much, the score that is too little, and int64 rows.

    Of equal scores the first box wins. A box overlaps another where what they share is more than that part
    of what either covers; one without an area overlaps none.
    """
    dtypes = {"most": "int64", "out": "int64"}
    function = Function(name, it.shapes, dtypes)
    with function as (boxes, scores, most, overlap, least, out):
        _Suppressing(it, boxes, scores, out).run(most[0], overlap[0], least[0])
    return function.result()


class _Suppressing:
    def __init__(self, it: Suppression, boxes: Buffer, scores: Buffer, out: Buffer) -> None:
        self.it, self.boxes, self.scores, self.out = it, boxes, scores, out
        self.sides = {side: tir.scratch(it.boxes) for side in SIDES}
        # Those that are still left of a class, in their order.
        self.places, self.left = tir.scratch(it.boxes, "int32"), tir.scratch(it.boxes)
        self.count, self.found = tir.scratch(1, "int32"), tir.scratch(1, "int32")
        self.best = tir.scratch(1, "int32")

    def run(self, most: Expr, overlap: Expr, least: Expr) -> None:
        it = self.it
        with T.serial(0, it.rows * 3) as at:
            tir.store(self.out, tir.const(NONE, "int64"), at)
        tir.store(self.found, tir.const(0), 0)
        wanted = T.Bind(tirx.Min(most, tir.const(it.most, "int64")).astype("int32"))
        with T.serial(0, it.batch) as image:
            with T.serial(0, it.boxes) as box:
                self._measure(image, box)
            with T.serial(0, it.classes) as kind:
                self._collect(image * it.classes + kind, least)
                with T.serial(0, it.most) as turn, tir.when((turn < wanted) & (self.count[0] > 0)):
                    self._take(image, kind)
                    self._drop(overlap)

    def _measure(self, image: Index, box: Index) -> None:
        """The sides and the area of a box."""
        numbers = [T.Bind(self.boxes[(image * self.it.boxes + box) * 4 + at]) for at in range(4)]
        if self.it.centred:
            halves = [T.Bind(number / tir.number(2.0)) for number in numbers[2:]]
            ends = [(numbers[axis] - halves[axis], numbers[axis] + halves[axis]) for axis in range(2)]
        else:
            pairs = [(numbers[1], numbers[3]), (numbers[0], numbers[2])]
            ends = [(tirx.Min(*pair), tirx.Max(*pair)) for pair in pairs]
        for side, value in zip(SIDES, (*ends[0], *ends[1]), strict=False):
            tir.store(self.sides[side], value, box)
        width, height = (
            self.sides[end][box] - self.sides[start][box]
            for start, end in (("left", "right"), ("top", "bottom"))
        )
        tir.store(self.sides["area"], width * height, box)

    def _collect(self, row: Index, least: Expr) -> None:
        """All boxes that count for a class, and the first of the best of them."""
        tir.store(self.count, tir.const(0), 0)
        tir.store(self.best, tir.const(0), 0)
        with T.serial(0, self.it.boxes) as box:
            score = T.Bind(self.scores[row * self.it.boxes + box])
            with tir.when(score > least if self.it.limited else None):
                self._keep(box, score)

    def _keep(self, box: Index, score: Expr) -> None:
        """Write a box behind those that are kept."""
        at = T.Bind(self.count[0])
        tir.store(self.places, box, at)
        tir.store(self.left, score, at)
        with tir.when(score > self.left[self.best[0]]):
            tir.store(self.best, at, 0)
        tir.store(self.count, at + 1, 0)

    def _take(self, image: Index, kind: Index) -> None:
        row = T.Bind(self.found[0])
        for column, value in enumerate((image, kind, self.places[self.best[0]])):
            tir.store(self.out, value.astype("int64"), row * 3 + column)
        tir.store(self.found, row + 1, 0)

    def _drop(self, overlap: Expr) -> None:
        """Leave out the best, and what overlaps it too much."""
        best, count = T.Bind(self.best[0]), T.Bind(self.count[0])
        chosen = T.Bind(self.places[best])
        own = {side: T.Bind(values[chosen]) for side, values in self.sides.items()}
        tir.store(self.count, tir.const(0), 0)
        tir.store(self.best, tir.const(0), 0)
        with T.serial(0, count) as at:
            box, score = T.Bind(self.places[at]), T.Bind(self.left[at])
            spans = []
            for start, end in (("left", "right"), ("top", "bottom")):
                low = tirx.Max(own[start], self.sides[start][box])
                spans.append(T.Bind(tirx.Min(own[end], self.sides[end][box]) - low))
            area = T.Bind(self.sides["area"][box])
            shared = T.Bind(spans[0] * spans[1])
            union = T.Bind(own["area"] + area - shared)
            zero = tir.number(0.0)
            positive = [*spans, shared, own["area"], area, union]
            meets = reduce(tirx.And, (each > zero for each in positive))
            much = tirx.And(meets, shared / union > overlap)
            with tir.when(tirx.And(at != best, tir.negation(much))):
                self._keep(box, score)


def build_places(shape: Sequence[int], dtype: str, name: str) -> PrimFunc:
    """The PrimFunc ``name``: where an array of ``shape`` is not zero, in order, as int64 of (axes, elements).

    There is a column a place; of those left over, -1.
    """
    size = prod(shape)
    function = Function(
        name, {"data": tuple(shape), "out": (len(shape), size)}, {"data": dtype, "out": "int64"}
    )
    with function as (data, out):
        with T.serial(0, len(shape) * size) as at:
            tir.store(out, tir.const(NONE, "int64"), at)
        found = tir.scratch(1, "int32")
        tir.store(found, tir.const(0), 0)
        # By a Cast, for which NaN is not zero: a comparison of floats takes it for neither.
        with T.serial(0, size) as at, tir.when(tirx.Cast("bool", data[at])):
            column = T.Bind(found[0])
            behind = size
            for axis, extent in enumerate(shape):
                behind //= extent
                place = tirx.FloorMod(tirx.FloorDiv(at, tir.index(behind)), tir.index(extent))
                tir.store(out, place.astype("int64"), axis * size + column)
            tir.store(found, column + 1, 0)
    return function.result()
