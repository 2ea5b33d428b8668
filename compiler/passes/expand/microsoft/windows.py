"""Windows of tensors: all of an axis beside each other, and the largest of those that a mask leaves."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.shapes.same_padding import SAME, split


def unfolded(form: Fused) -> None:
    """UnfoldTensor: the windows of one axis; the elements of a window are a new last axis."""
    data, rank = form.needed(0), form.rank(form.needed(0))
    axis, size, step = (
        int(form.attributes.get(name, at)) for name, at in (("dim", -1), ("size", 0), ("step", 1))
    )
    if not -rank <= axis < rank:
        form.refuse(f"unfolds axis {axis} of {rank}")
    extent, axis = form.extent(data, axis), axis % rank
    if not 0 < size <= extent or step < 1:
        form.refuse(f"has windows of {size} in steps of {step} along an axis of {extent}")
    places = np.arange(0, extent - size + 1, step).reshape(-1, 1) + np.arange(size)
    taken = form.add("Gather", [data, form.constant(places)], axis=axis)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    form.finish(form.add("Transpose", [taken], perm=order))


def masked_maximum(form: Fused) -> None:
    """MaxpoolWithMask: the largest number of each window. A mask of 0 ends the search in its row.

    This is what onnxruntime's kernel does. It finds neither NaN nor minus infinity. With several spatial axes
    it ignores the mask of the first element. The masks of channel n begin n x pixels elements behind the
    first mask, modulo the number of masks.
    """
    data, mask = form.needed(0), form.needed(1)
    batch, channels, *extents = (form.extent(data, axis) for axis in range(form.rank(data)))
    masks = [form.extent(mask, axis) for axis in range(form.rank(mask))]
    if not extents or masks[2:] != extents:
        form.refuse(f"has a mask of {masks} for data of {[batch, channels, *extents]}")
    places, begins = _windows(form, extents)
    many, images = prod(extents), masks[0] * masks[1]
    first = (np.arange(batch * channels) * many % images).reshape(batch, channels, 1)
    flat = form.add("Reshape", [mask, form.constant(np.array([-1]))])
    seen = form.add("Gather", [flat, form.constant(first + np.arange(many))])
    hidden = form.add("Equal", [seen, form.constant(np.array(0, np.int32))])
    if len(extents) > 1:
        hidden = form.add("And", [hidden, form.constant(np.arange(many) > 0)])
    hidden = form.add("Cast", [hidden], to=TensorProto.INT64)
    until = form.add("CumSum", [hidden, form.constant(np.array(2))])
    before = form.add("Sub", [until, hidden])
    flat = form.add("Reshape", [data, form.constant(np.array([0, 0, -1]))])
    taken, at, start = (
        form.add("Gather", [each, form.constant(np.maximum(where, 0))], axis=2)
        for each, where in ((flat, places), (until, places), (before, begins))
    )
    least = form.number(float(np.finfo(np.float32).min))
    seen = form.add("And", [form.add("Equal", [at, start]), form.add("Greater", [taken, least])])
    seen = form.add("And", [seen, form.constant(places >= 0)])
    form.finish(form.reduced("ReduceMax", form.add("Where", [seen, taken, least]), -1, keepdims=0))


def _windows(form: Fused, extents: list[int]) -> tuple[Array, Array]:
    """The elements of all windows, (places along each axis, elements), and for each of them the first that is
    in the same row of its window; -1 for what lies outside."""
    axes = len(extents)
    kernel = list(form.attributes.get("kernel_shape", ()))
    strides = list(form.attributes.get("strides", [1] * axes))
    if len(kernel) != axes or len(strides) != axes or min(*kernel, *strides) < 1:
        form.refuse(f"has a kernel_shape of {kernel} and strides of {strides} for {axes} spatial axes")
    pads, counts = _padding(form, extents, kernel, strides)
    place = np.zeros((), np.int64)
    inside = np.ones((), bool)
    for axis, extent in enumerate(extents):
        along = np.arange(counts[axis]).reshape(-1, 1) * strides[axis] - pads[axis] + np.arange(kernel[axis])
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = along.shape
        along = along.reshape(shape)
        place, inside = place * extent + along, inside & (along >= 0) & (along < extent)
    place = np.where(inside, place, -1)
    starts = np.take_along_axis(place, inside.argmax(-1, keepdims=True), -1)
    flat = (*counts, prod(kernel))
    return place.reshape(flat), np.broadcast_to(starts, place.shape).reshape(flat)


def _padding(
    form: Fused, extents: list[int], kernel: list[int], strides: list[int]
) -> tuple[list[int], list[int]]:
    """What lies before each axis, and how many windows there are along it."""
    axes, auto = len(extents), form.attributes.get("auto_pad", b"NOTSET")
    pads = list(form.attributes.get("pads", [0] * (2 * axes)))
    if auto in SAME:
        counts = [-(-extent // step) for extent, step in zip(extents, strides, strict=True)]
        sizes = zip(counts, strides, kernel, extents, strict=True)
        totals = [max(0, (count - 1) * step + taps - extent) for count, step, taps, extent in sizes]
        return split(totals, auto == b"SAME_LOWER")[:axes], counts
    if auto == b"VALID":
        pads = [0] * (2 * axes)
    if len(pads) != 2 * axes or min(pads) < 0 or any(p >= k for p, k in zip(pads, 2 * kernel, strict=True)):
        form.refuse(f"has pads of {pads} for windows of {kernel}")
    widths = [extent + pads[axis] + pads[axes + axis] - kernel[axis] for axis, extent in enumerate(extents)]
    if min(widths) < 0:
        form.refuse(f"has windows of {kernel} for data of {extents} with pads of {pads}")
    return pads[:axes], [width // step + 1 for width, step in zip(widths, strides, strict=True)]
