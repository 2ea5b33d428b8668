"""Operators of single elements with types or attributes that TVM's importer does not know."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from compiler.ir.graph import TensorInfo
from compiler.ir.own_nodes import ROUNDING
from compiler.passes.legalize.special import root
from compiler.passes.legalize.writer import Writer, vector

AXES_OF_SUMS, AXES_OF_MEANS = 13, 18
"""The operator sets since which a ReduceSum and a ReduceMean have their axes as an input."""
REDUCED_TO_ITSELF = {
    "ReduceL1": ("Abs",),
    "ReduceL2": ("Abs",),
    "ReduceLogSum": ("Log",),
    "ReduceSumSquare": ("Mul",),
}
"""What reducing over no axes at all does to an element, where it does anything."""


def infinities(writer: Writer) -> bool:
    """IsInf of one sign."""
    signs = [writer.attributes.get(f"detect_{name}", 1) for name in ("negative", "positive")]
    if all(signs):
        return False
    dtype = writer.info(0).dtype
    if not any(signs):
        writer.refuse("looks for no infinity at all")
    limit = writer.constant(np.array(np.inf if signs[1] else -np.inf, dtype))
    writer.finish("Equal", writer.node.input[0], limit)
    return True


def triangle(writer: Writer) -> bool:
    """Trilu from a diagonal so far away that TVM has no number for it: one as far as there are any."""
    known = writer.value(1)
    if known is None:
        return False
    rows, columns = writer.info(0).shape[-2:]
    diagonal = int(known.reshape(()))
    near = max(-rows, min(diagonal, columns))
    if near == diagonal:
        return False
    writer.with_operands(writer.node.input[0], writer.constant(np.array(near)))
    return True


def power(writer: Writer) -> bool:
    """Pow of integers, or of two types: in floats, as onnxruntime does; a square or cube as a product, which
    is exact of integers."""
    base, exponent = writer.info(0), writer.info(1)
    real = base.dtype if base.dtype.startswith("float") else "float64"
    if _product(writer):
        return True
    if base.dtype == exponent.dtype == real:
        return False
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(real))
    operands = [writer.add("Cast", name, to=kind) for name in writer.node.input]
    writer.finish("Cast", writer.add("Pow", *operands), to=base.elem_type)
    return True


def _product(writer: Writer) -> bool:
    """Write a power of one small number as what it is; whether it is one."""
    value, data = writer.value(1), writer.node.input[0]
    shape = writer.graph.tensors[writer.node.output[0]].shape
    if value is None or not value.size or (value != value.flat[0]).any() or writer.info(0).shape != shape:
        return False
    exponent, whole = float(value.flat[0]), "int" in writer.info(0).dtype
    if whole and exponent not in (1, 2, 3):
        return False
    if exponent == 1:
        writer.finish("Identity", data)
    elif exponent == -1:
        writer.finish("Reciprocal", data)
    elif exponent == 2:
        writer.finish("Mul", data, data)
    elif exponent == 3 and writer.info(0).dtype != "float16":  # where the square would be rounded
        writer.finish("Mul", writer.add("Mul", data, data), data)
    elif exponent == 0.5:
        root(writer, data)
    else:
        return False
    return True


def equal_truths(writer: Writer) -> bool:
    """Equal of booleans, which LLVM is asked to compare as floats."""
    if writer.info(0).dtype != "bool":
        return False
    writer.finish("Not", writer.add("Xor", *writer.node.input))
    return True


def reduced(writer: Writer) -> bool:
    """A reduction over no axes, the largest and smallest of booleans, and of integers the mean and what is a
    root or a logarithm."""
    axes = writer.value(1) if writer.has(1) else np.zeros(0)
    data, what = writer.node.input[0], REDUCED_TO_ITSELF.get(writer.node.op_type, ("Identity",))[0]
    if writer.attributes.get("noop_with_empty_axes", 0) and axes is not None and not axes.size:
        writer.finish(what, *([data, data] if what == "Mul" else [data]))
        return True
    if writer.info(0).dtype == "bool":
        bytes_ = writer.add("Cast", data, to=TensorProto.UINT8)
        found = writer.like(writer.node.op_type, bytes_)
        writer.finish("Cast", found, to=TensorProto.BOOL)
        return True
    if writer.node.op_type == "ReduceMean" and "int" in writer.info(0).dtype:
        shape, out = writer.info(0).shape, writer.graph.tensors[writer.node.output[0]]
        wide = TensorProto.UINT64 if out.dtype == "uint64" else TensorProto.INT64
        data = writer.add("Cast", data, to=wide)
        if AXES_OF_SUMS <= writer.graph.opset < AXES_OF_MEANS and (along := writer.attributes.get("axes")):
            keep = writer.attributes.get("keepdims", 1)
            total = writer.add("ReduceSum", data, writer.constant(vector(*along)), keepdims=keep)
        else:
            total = writer.like("ReduceSum", data)
        count = np.array(math.prod(shape) // max(1, math.prod(out.shape)), writer.graph.tensors[total].dtype)
        writer.finish("Cast", writer.add("Div", total, writer.constant(count)), to=out.elem_type)
        return True
    if (
        writer.node.op_type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
        and "int" in writer.info(0).dtype
    ):
        found = writer.like(writer.node.op_type, writer.add("Cast", data, to=TensorProto.DOUBLE))
        writer.finish("Cast", found, to=writer.info(0).elem_type)
        return True
    return False


def one_hot(writer: Writer) -> bool:
    """OneHot as a comparison with every index; negative ones count from the end."""
    depth = writer.value(1)
    if depth is None:
        writer.refuse("has a computed depth")
    shape, count = list(writer.info(0).shape), int(depth.reshape(()))
    axis = writer.attributes.get("axis", -1) % (len(shape) + 1)
    indices = writer.node.input[0]
    if writer.info(0).dtype != "int64":
        indices = writer.add("Cast", indices, to=TensorProto.INT64)
    column = writer.add("Reshape", indices, writer.constant(vector(*shape[:axis], 1, *shape[axis:])))
    line = np.arange(count).reshape(-1, *[1] * (len(shape) - axis))
    same = [writer.add("Equal", column, writer.constant(line - away)) for away in (0, count)]
    ends = [
        writer.add("Slice", writer.node.input[2], *(writer.constant(vector(at)) for at in (start, start + 1)))
        for start in (1, 0)
    ]
    writer.finish("Where", writer.add("Or", *same), *ends)
    return True


def celu(writer: Writer) -> bool:
    """Celu as an Elu; onnx's definition makes an array of a single number."""
    alpha = writer.constant(np.array(writer.attributes.get("alpha", 1.0), writer.info(0).dtype))
    writer.finish("Mul", writer.add("Elu", writer.add("Div", writer.node.input[0], alpha)), alpha)
    return True


def dropout(writer: Writer) -> bool:
    """Dropout of inference, which drops nothing."""
    training = writer.value(2)
    if writer.has(2) and (training is None or training.any()):
        writer.refuse("is in training mode; export the model for inference")
    for name in writer.node.output[1:]:
        info = writer.graph.tensors.setdefault(name, writer.info(0))
        # Until version 12 onnxruntime says what is dropped, since then everyone says what is kept.
        writer.graph.constants[name] = np.full(info.shape, writer.graph.opset >= 12, info.dtype)
    writer.finish("Identity", writer.node.input[0])
    return True


def eye(writer: Writer) -> bool:
    """EyeLike, which is known as soon as its shape is."""
    info = writer.graph.tensors[writer.node.output[0]]
    value = np.eye(info.shape[0], info.shape[1], writer.attributes.get("k", 0)).astype(info.dtype)
    writer.finish("Identity", writer.constant(value))
    return True


def by_zero(writer: Writer) -> bool:
    """QuantizeLinear by a scale of 0, by onnxruntime: an end of the range, the lower one of 0 and NaN."""
    scale, dtype = writer.value(1), writer.graph.tensors[writer.node.output[0]].dtype
    if scale is None or scale.size != 1 or scale.any() or np.dtype(dtype).kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    low, high = (writer.constant(np.array(end, dtype)) for end in (limits.min, limits.max))
    zero = writer.constant(np.zeros((), writer.info(0).dtype))
    above = writer.add("Less" if np.signbit(scale).all() else "Greater", writer.node.input[0], zero)
    writer.finish("Where", above, high, low)
    return True


def rounding(writer: Writer) -> bool:
    """Cast to 16 bits within the model: float32 that is rounded so, as hardly any processor has the type."""
    to, name = writer.attributes["to"], writer.node.output[0]
    if to not in (TensorProto.FLOAT16, TensorProto.BFLOAT16) or name in writer.graph.outputs:
        return False
    data = writer.node.input[0]
    if writer.info(0).dtype != "float32":
        data = writer.add("Cast", data, to=TensorProto.FLOAT)
    writer.finish(ROUNDING, data, to=to)
    writer.graph.tensors[name] = TensorInfo(writer.info(0).shape, TensorProto.FLOAT)
    return True
