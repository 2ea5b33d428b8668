"""Tensors without elements: TVM's virtual machine loads no such constants, and its reductions write nothing
where there is nothing to reduce."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from compiler.passes.legalize.writer import Writer, vector

OF_NOTHING = {
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceLogSum": -inf,
    "ReduceLogSumExp": -inf,
    "ReduceMax": -inf,
    "ReduceMean": 0.0,
    "ReduceMin": inf,
    "ReduceProd": 1.0,
    "ReduceSum": 0.0,
    "ReduceSumSquare": 0.0,
}
"""What ONNX says of a reduction over no elements; of the mean onnxruntime says so."""


def joined(writer: Writer) -> bool:
    """A Concat without them is the same: torch's shapes that are computed leave them behind."""
    names = writer.node.input
    full = [name for name in names if 0 not in writer.graph.tensors[name].shape]
    if not full or len(full) == len(names):
        return False
    if len(full) == 1:
        writer.finish("Identity", full[0])
    else:
        writer.finish("Concat", *full, **writer.attributes)
    return True


def parts(writer: Writer) -> bool:
    """A Split with results that have no elements: those are constants."""
    infos = {name: writer.graph.tensors[name] for name in writer.node.output}
    full = [name for name, info in infos.items() if 0 not in info.shape]
    if len(full) == len(infos) or not full:
        return False
    for name in infos.keys() - set(full):
        nothing = np.zeros(infos[name].shape, infos[name].dtype)
        if name not in writer.graph.outputs:
            writer.graph.constants[name] = nothing
            continue
        writer.finish("Identity", writer.constant(nothing))
        writer.nodes[-1].output[0] = name
    axis = writer.attributes.get("axis", 0)
    sizes = writer.constant(vector(*(infos[name].shape[axis] for name in full)))
    writer.finish("Split", writer.node.input[0], sizes, axis=axis)
    writer.nodes[-1].output[:] = full
    return True


def reduced(writer: Writer) -> bool:
    """A reduction over no elements is a constant: of integers the type's own limit for an infinity."""
    out = writer.graph.tensors[writer.node.output[0]]
    if prod(writer.info(0).shape) or not prod(out.shape):
        return False
    number, kind = OF_NOTHING[writer.node.op_type], np.dtype(out.dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        number = int(min(max(number, limits.min), limits.max))
    value = np.full(out.shape, number > 0 if kind.kind == "b" else number).astype(kind)
    writer.finish("Identity", writer.constant(value))
    return True


def chosen(writer: Writer) -> bool:
    """A place among no elements is refused, as onnxruntime does."""
    shape, out = writer.info(0).shape, writer.graph.tensors[writer.node.output[0]].shape
    if 0 in shape and 0 not in out:
        writer.refuse(f"chooses a place along an axis without elements, of {list(shape)}")
    return False


def whole(writer: Writer) -> bool:
    """A GatherND by places of no numbers: all that there is, once for each."""
    shape, out = writer.info(0).shape, writer.graph.tensors[writer.node.output[0]].shape
    (*places, depth), kept = writer.info(1).shape, writer.attributes.get("batch_dims", 0)
    if depth or 0 in out:
        return False
    data, ones = writer.node.input[0], [1] * (len(places) - kept)
    data = writer.add("Reshape", data, writer.constant(vector(*shape[:kept], *ones, *shape[kept:])))
    writer.finish("Expand", data, writer.constant(vector(*out)))
    return True


def scattered(writer: Writer) -> bool:
    """A scatter without updates gives back its data."""
    if 0 not in writer.info(1).shape:
        return False
    writer.finish("Identity", writer.node.input[0])
    return True


def convolved(writer: Writer) -> bool:
    """A convolution of nothing, or of no channels, is its bias."""
    out = writer.graph.tensors[writer.node.output[0]]
    if 0 in out.shape or all(0 not in writer.info(at).shape for at in range(2)):
        return False
    _, _, *extents = writer.info(0).shape
    kernel, axes = writer.info(1).shape[2:], len(extents)
    pads, spread = (
        writer.attributes.get(name, [number] * axes * many)
        for name, number, many in (("pads", 0, 2), ("dilations", 1, 1))
    )
    room = [
        extent + before + after for extent, before, after in zip(extents, pads, pads[axes:], strict=False)
    ]
    if writer.node.op_type == "Conv" and any(
        step * (taps - 1) >= all_ for step, taps, all_ in zip(spread, kernel, room, strict=True)
    ):
        writer.refuse(
            f"has a window of {list(kernel)}, which is larger than its data of {extents} with padding"
        )
    bias = writer.constant(np.zeros(1, out.dtype))
    if len(writer.node.input) > 2 and writer.node.input[2]:
        bias = writer.node.input[2]
    shape = writer.constant(vector(1, -1, *[1] * (len(out.shape) - 2)))
    writer.finish("Expand", writer.add("Reshape", bias, shape), writer.constant(vector(*out.shape)))
    return True


def seen(writer: Writer) -> bool:
    """Windows and regions of planes that have no elements are refused: each library makes something else of
    them."""
    shape, out = writer.info(0).shape, writer.graph.tensors[writer.node.output[0]].shape
    if 0 in shape and 0 not in out:
        writer.refuse(f"looks at planes without elements, of {list(shape)}")
    return False
