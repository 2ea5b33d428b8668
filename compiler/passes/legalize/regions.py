"""Pools over regions that are data: TVM computes where they lie, and trusts all of it. What regions share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from compiler.ir.graph import Array
from compiler.passes.legalize.writer import Writer, vector

MOST_SAMPLES = 1 << 24
"""Of a bin of a RoiAlign that takes as many as its region has pixels. Computing more takes minutes, and
onnxruntime, which has no memory for them, ends the run as well."""
TOO_MANY = 2.0**40
"""What more samples are called, as whole numbers have all of those."""
_SAMPLES = "a count of samples for each part of a region"
HALF_PIXEL = 16
"""The operator set since which regions of a RoiAlign begin half a pixel before what they say."""


def aligned(writer: Writer) -> bool:
    """RoiAlign of a scale, which TVM applies after the shift by half a pixel, and of regions that have no
    extent, which are zeros. Such as are no finite numbers, or far too large, end the run."""
    attributes = dict(writer.attributes)
    if attributes.get("mode", b"avg") != b"avg":
        writer.refuse("takes a maximum, which implementations differ on")
    data, rois, images = writer.node.input[:3]
    scale, known = attributes.pop("spatial_scale", 1.0), writer.value(1)
    dtype = writer.info(1).dtype
    if known is not None and not np.isfinite(known).all():
        writer.refuse("has regions that are no numbers")
    as_pixels = not attributes.get("sampling_ratio")
    if known is not None and as_pixels and (many := _samples(known * scale, attributes)) > MOST_SAMPLES:
        writer.refuse(f"needs {_SAMPLES} from 0 to {MOST_SAMPLES}, and the model has {many}")
    if scale == 1.0 and known is not None:
        return False
    default = b"half_pixel" if writer.graph.opset >= HALF_PIXEL else b"output_half_pixel"
    attributes.setdefault("coordinate_transformation_mode", default)
    if scale != 1.0:
        rois = writer.add("Mul", rois, writer.constant(np.array(scale, dtype)))
    if known is not None:
        writer.finish("RoiAlign", data, rois, images, **attributes)
        return True
    zero = writer.constant(np.array(0.0, dtype))
    largest = writer.constant(np.array(np.finfo(dtype).max, dtype))
    finite = writer.add("LessOrEqual", writer.add("Abs", writer.node.input[1]), largest)
    strange = writer.add("Where", finite, *(writer.constant(np.array(each)) for each in (0, 1)))
    count = writer.bounded(strange, 0, 0, "a count of NaN and infinities in its regions")
    there = writer.add("Where", writer.add("Cast", count, to=TensorProto.BOOL), zero, rois)
    if as_pixels:
        there = _of_few_samples(writer, there, zero)
    made = writer.add("RoiAlign", data, there, images, **attributes)
    if attributes["coordinate_transformation_mode"] == b"half_pixel" and as_pixels:
        # As many samples as pixels: TVM writes nothing where that is none.
        left, top, right, bottom = (_column(writer, there, at) for at in range(4))
        sides = (writer.add("Greater", *pair) for pair in ((right, left), (bottom, top)))
        full = writer.add("And", *sides)
        made = writer.add("Where", _of_each(writer, full), made, zero)
    writer.finish("Identity", made)
    return True


def _samples(known: Array, attributes: Mapping[str, Any]) -> int:
    """The most samples that a bin of regions takes."""
    left, top, right, bottom = known.reshape(-1, 4).astype(np.float64).T
    sides = (
        (right - left) / attributes.get("output_width", 1),
        (bottom - top) / attributes.get("output_height", 1),
    )
    across, down = (np.ceil(np.maximum(side, 0)) for side in sides)
    return int(np.minimum(np.maximum(across, 1) * np.maximum(down, 1), TOO_MANY).max(initial=0))


def _of_few_samples(writer: Writer, rois: str, zero: str) -> str:
    """``rois``, or the run ends where one takes more samples than ``MOST_SAMPLES`` for a bin."""
    left, top, right, bottom = (_column(writer, rois, at) for at in range(4))
    dtype, counts = writer.info(1).dtype, []
    for side, name in (((right, left), "output_width"), ((bottom, top), "output_height")):
        parts = writer.constant(np.array(writer.attributes.get(name, 1), dtype))
        counts.append(writer.add("Ceil", writer.add("Div", writer.add("Sub", *side), parts)))
    # A bin is walked along one side though it has none of the other.
    one = writer.constant(np.array(1, dtype))
    product = writer.add("Mul", *(writer.add("Max", each, one) for each in counts))
    product = writer.add("Min", product, writer.constant(np.array(TOO_MANY, dtype)))
    whole = writer.add("Cast", product, to=TensorProto.INT64)
    few = writer.bounded(whole, 0, MOST_SAMPLES, _SAMPLES)
    nothing = writer.add("Less", few, writer.constant(np.array(0)))
    return writer.add("Where", nothing, zero, rois)


def _column(writer: Writer, name: str, at: int) -> str:
    return writer.add("Slice", name, *(writer.constant(vector(each)) for each in (at, at + 1, 1)))


def _of_each(writer: Writer, truths: str) -> str:
    """Truths of regions beside their results."""
    return writer.add("Reshape", truths, writer.constant(vector(-1, 1, 1, 1)))


def pooled(writer: Writer) -> bool:
    """MaxRoiPool: each region begins with the number of an image."""
    known, dtype = writer.value(1), writer.info(1).dtype
    images, last = writer.info(0).shape[0], writer.constant(vector(5))
    if known is not None and known.size and (known[:, 0] >= 0).all() and (known[:, 0] < images).all():
        return False
    one = writer.constant(vector(1))
    image = _column(writer, writer.node.input[1], 0)
    image = writer.add("Where", writer.add("IsNaN", image), writer.constant(np.array(-1, dtype)), image)
    whole = writer.bounded(writer.add("Cast", image, to=TensorProto.INT64), 0, images - 1, "an index")
    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE
    corners = writer.add("Slice", writer.node.input[1], one, last, one)
    rois = writer.add("Concat", writer.add("Cast", whole, to=kind), corners, axis=1)
    writer.finish("MaxRoiPool", writer.node.input[0], rois, **writer.attributes)
    return True


def suppressed(writer: Writer) -> bool:
    """NonMaxSuppression: the overlap is a part of a region."""
    known, what = writer.value(3), "an iou_threshold"
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        writer.refuse(f"needs {what} from 0 to 1, and the model has {known.reshape(-1)[0]}")
    if known is not None or not writer.has(3):
        return False
    overlap, kind = writer.node.input[3], writer.info(3).elem_type
    below, nothing = (writer.constant(np.array(each, np.float32)) for each in (-1, 0))
    rounded = writer.add("Where", writer.add("Less", overlap, nothing), below, writer.add("Ceil", overlap))
    whole = writer.bounded(writer.add("Cast", rounded, to=TensorProto.INT64), 0, 1, what)
    part = writer.add("Min", overlap, writer.add("Cast", whole, to=kind))
    writer.with_operands(*writer.node.input[:3], part, *writer.node.input[4:])
    return True
