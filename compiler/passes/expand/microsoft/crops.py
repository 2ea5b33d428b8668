"""CropAndResize: boxes of images, each sampled at as many places as the result has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Fused


@dataclass(frozen=True)
class Line:
    """Places along one axis: whether they are ``inside``, and the pixels before and behind them (or twice
    the nearest), with the ``share`` of the second."""

    inside: str
    low: str
    high: str
    share: str


def crop_and_resize(form: Fused) -> None:
    """CropAndResize: what lies outside of the image is one number."""
    data, size = form.needed(0), form.value(3).reshape(-1)
    mode = form.attributes.get("mode", b"bilinear").decode()
    if mode not in ("bilinear", "nearest"):
        form.refuse(f"has the mode {mode!r}; bilinear and nearest are supported")
    if size.size != 2 or size.min() < 1:
        form.refuse(f"has a crop_size of {size.tolist()} instead of two positive numbers")
    channels, *extents = (form.extent(data, axis) for axis in (1, 2, 3))
    rows, columns = (_line(form, axis, int(size[axis]), extents[axis], mode) for axis in range(2))
    pixels = form.add("Transpose", [data], perm=[0, 2, 3, 1])
    pixels = form.add("Reshape", [pixels, form.constant(np.array([-1, channels]))])
    first = _first_pixel(form, data, extents[0] * extents[1])

    def at(row: str, column: str) -> str:
        line = form.add("Mul", [row, form.constant(np.array(extents[1]))])
        place = form.add("Add", [first, form.add("Add", [line, column])])
        return form.add("Gather", [pixels, place])

    def between(row: str) -> str:
        if mode == "nearest":
            return at(row, columns.low)
        return _between(form, at(row, columns.low), at(row, columns.high), columns.share)

    found = between(rows.low)
    if mode != "nearest":
        found = _between(form, found, between(rows.high), rows.share)
    outside = form.number(form.attributes.get("extrapolation_value", 0.0))
    inside = form.unsqueezed(form.add("And", [rows.inside, columns.inside]), 3)
    found = form.add("Where", [inside, found, outside])
    form.finish(form.add("Transpose", [found], perm=[0, 3, 1, 2]))


def _line(form: Fused, axis: int, count: int, extent: int, mode: str) -> Line:
    """``count`` places between the ends of each box, which are shares of the ``extent``: (boxes, rows, 1) or
    (boxes, 1, columns)."""
    last, zero = form.number(extent - 1), form.number(0.0)
    start, end = (_column(form, form.needed(1), at) for at in (axis, axis + 2))
    scaled = [form.add("Mul", [each, last]) for each in (start, end)]
    if count == 1:
        middle = form.add("Mul", [form.add("Add", [start, end]), form.number(0.5)])
        place = form.add("Mul", [middle, last])
    else:
        step = form.add("Mul", [form.add("Sub", [end, start]), last])
        step = form.add("Div", [step, form.number(count - 1)])
        between = np.arange(1, count - 1, dtype=np.float32).reshape(1, -1)
        moved = form.add("Mul", [step, form.constant(between)])
        place = form.add("Concat", [scaled[0], form.add("Add", [scaled[0], moved]), scaled[1]], axis=1)
    # Equal to what it is within bounds: not so of NaN.
    clamped = form.add("Max", [form.add("Min", [place, last]), zero])
    inside = form.add("Equal", [clamped, place])
    place = form.add("Where", [inside, place, zero])
    floor = form.add("Floor", [place])
    share = form.add("Sub", [place, floor])
    if mode == "nearest":
        near = form.add("Not", [form.add("Less", [share, form.number(0.5)])])
        floor = form.add("Add", [floor, form.add("Cast", [near], to=TensorProto.FLOAT)])
    low, high = (
        form.add("Cast", [each], to=TensorProto.INT64) for each in (floor, form.add("Ceil", [place]))
    )
    other = 2 - axis
    inside, low, high = (form.unsqueezed(each, other) for each in (inside, low, high))
    return Line(inside, low, high, form.unsqueezed(form.unsqueezed(share, other), 3))


def _column(form: Fused, name: str, at: int) -> str:
    """A column of the boxes, (boxes, 1)."""
    ends = [form.constant(np.array([each])) for each in (at, at + 1, 1)]
    return form.add("Slice", [name, *ends])


def _first_pixel(form: Fused, data: str, pixels: int) -> str:
    """Where the image of each box begins, (boxes, 1, 1); a run ends by an image that is not there."""
    image = form.add("Cast", [form.needed(2)], to=TensorProto.INT64)
    images = form.constant(np.array(form.extent(data, 0)))
    below = form.add("Less", [image, form.constant(np.array(0))])
    image = form.add("Where", [below, images, image])
    return form.unsqueezed(form.add("Mul", [image, form.constant(np.array(pixels))]), 1, 2)


def _between(form: Fused, one: str, other: str, share: str) -> str:
    step = form.add("Mul", [form.add("Sub", [other, one]), share])
    return form.add("Add", [one, step])
