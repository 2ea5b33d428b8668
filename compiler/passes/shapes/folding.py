"""Infer the shapes of a model, and compute whatever is constant."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from compiler.ir.checks import MAX_TENSOR_BYTES, ModelError, check_size, node_name
from compiler.ir.graph import (
    SIZED_BY_DATA,
    Array,
    OnnxGraph,
    TensorInfo,
    attributes_of,
    is_quantized_constant,
)
from compiler.ir.own_nodes import LOOP, OPERATOR, PRODUCT, TREES
from compiler.passes.shapes import empty, negative_axes
from compiler.passes.shapes.axis_range import check_axes
from compiler.passes.shapes.evaluate import Uncomputed, evaluated
from compiler.passes.shapes.gather_nd import gather_of_one
from compiler.passes.shapes.pool_padding import round_down
from compiler.passes.shapes.same_padding import pad_transposed
from compiler.passes.shapes.windows import check_windows

PROPAGATED_ELEMENTS = 1024
"""Constants up to this size go through shape inference with their values: shapes are computed from them."""
FOLDED_BYTES = MAX_TENSOR_BYTES
"""All constants that are computed while reading may take as much as one tensor may."""
RANDOM = {
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
}
"""Operators that make random numbers: no two runs need agree."""
NEVER_FOLDED = {*RANDOM, LOOP, OPERATOR, PRODUCT, TREES}
"""Random numbers, and nodes of ours, which onnx cannot compute."""


def folded(
    model: ModelProto, nodes: list[NodeProto], constants: dict[str, Array]
) -> tuple[list[NodeProto], dict[str, TensorInfo]]:
    """What is left of ``nodes`` when all that is constant is computed, into ``constants``; and all shapes.

    Raises ModelError for shapes that do not fit together, and for constants that are too large.
    """
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    budget, progress = FOLDED_BYTES, True
    tensors: dict[str, TensorInfo] = {}

    def shapes(some: list[NodeProto]) -> dict[str, tuple[int, ...]]:
        return {name: info.shape for name, info in _infer(model, some, constants).items()}

    def ranks(some: list[NodeProto]) -> dict[str, int]:
        return {name: len(shape) for name, shape in shapes(some).items()}

    while progress:
        if opset < negative_axes.ALLOWED:
            negative_axes.count_axes(nodes, ranks)
        pad_transposed(nodes, constants, shapes)
        gather_of_one(nodes, constants, shapes)
        round_down(nodes, constants, opset, shapes)
        tensors = _infer(model, nodes, constants)
        check_axes(nodes, tensors, constants)
        check_windows(nodes, tensors)
        nodes, budget, progress = _fold(nodes, constants, tensors, opset, budget)
        if not unknown(nodes, tensors):
            break
    return nodes, tensors


def unknown(nodes: list[NodeProto], tensors: Mapping[str, TensorInfo]) -> list[NodeProto]:
    """The nodes with a first result of unknown shape."""
    return [node for node in nodes if any(name and name not in tensors for name in node.output[:1])]


def fold_quantized(graph: OnnxGraph) -> None:
    """Compute what is left of quantized constants, as floats, and all that follows from them."""
    budget, progress = FOLDED_BYTES, True
    while progress:
        graph.nodes, budget, progress = _fold(
            graph.nodes, graph.constants, graph.tensors, graph.opset, budget, keep_quantized=False
        )


def _infer(model: ModelProto, nodes: list[NodeProto], constants: dict[str, Array]) -> dict[str, TensorInfo]:
    """Shapes of all tensors that can be inferred. Large constants take part with their shapes alone.
    ModelError where types or shapes do not fit together.

    Without onnx's own data propagation: it computes values without any limit, and ``_fold`` does it anyway.
    """
    small, large = [], []
    for name, value in constants.items():
        if value.size <= PROPAGATED_ELEMENTS:
            small.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            large.append(helper.make_tensor_value_info(name, kind, value.shape))
    inputs = [value for value in model.graph.input if value.name not in constants]
    rooms = _rooms(model, nodes, constants)
    graph = helper.make_graph(
        nodes, "shapes", inputs + large, list(model.graph.output), small, value_info=rooms
    )
    skeleton = helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 4))
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, check_type=True, strict_mode=True)
    except Exception as error:  # the C++ side raises its own types as well as plain RuntimeError
        raise _misfit(str(error), skeleton) from None
    tensors = {
        name: TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        for name, value in constants.items()
    }
    for value in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            shape = tuple(dim.dim_value for dim in kind.shape.dim)
            info = TensorInfo(shape, kind.elem_type)
            itemsize = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
            check_size(math.prod(shape) * itemsize, f"tensor {value.name!r}", shape)
            tensors[value.name] = info
    return tensors


def _rooms(model: ModelProto, nodes: list[NodeProto], constants: Mapping[str, Array]) -> list[ValueInfoProto]:
    """What onnx cannot infer: how much room there is for results of which data decide the size
    (``compiler/passes/bounded_shapes/``), and the results of our own nodes."""
    sized = {name for node in nodes if node.op_type in SIZED_BY_DATA for name in node.output}
    rooms = [value for value in model.graph.value_info if value.name in sized]
    for node in nodes:
        if node.op_type == LOOP:
            shapes = json.loads(attributes_of(node)["room"])
            rooms += [
                helper.make_tensor_value_info(name, kind, shape)
                for name, (shape, kind) in zip(node.output, shapes, strict=True)
            ]
        if node.op_type == TREES:
            kind = TensorProto.DOUBLE if attributes_of(node)["double"] else TensorProto.FLOAT
            known = constants.get(node.input[1])
            rooms.append(
                helper.make_tensor_value_info(node.output[0], kind, None if known is None else known.tolist())
            )
    return rooms


def _misfit(error: str, skeleton: ModelProto) -> ModelError:
    """What is wrong first: what follows from it is wrong, too."""
    inferred = onnx.shape_inference.infer_shapes(skeleton).graph
    known = {value.name for value in (*inferred.input, *inferred.value_info) if _has_shape(value)}
    known |= {tensor.name for tensor in inferred.initializer}
    said = [line.partition("(op_type:")[2] for line in error.splitlines() if "(op_type:" in line]
    for node in skeleton.graph.node:
        if all(name in known for name in node.output[:1]):
            continue
        for line in said:
            if f"node name: {node.name})" in line and line.startswith(f"{node.op_type},"):
                reason = line.partition("): ")[2]
                what = "types" if "has unsupported type" in reason else "shapes"
                return ModelError(
                    f"{what} do not fit together at node {node_name(node)!r} ({node.op_type}): {reason}"
                )
    return ModelError(f"shapes do not fit together: {error.strip().splitlines()[0]}")


def _has_shape(value: ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.HasField("shape"))


def _fold(
    nodes: list[NodeProto],
    constants: dict[str, Array],
    tensors: dict[str, TensorInfo],
    opset: int,
    budget: int,
    keep_quantized: bool = True,
) -> tuple[list[NodeProto], int, bool]:
    """Move nodes with constant results to ``constants``; (nodes left, bytes left, whether any was moved)."""
    left: list[NodeProto] = []
    for node in nodes:
        kept = keep_quantized and is_quantized_constant(node, constants)
        values = [] if kept else _constant_results(node, constants, tensors, opset)
        if not values:
            left.append(node)
            continue
        # A ConstantOfShape is a view of one element, but others would be copies.
        budget -= sum(value.nbytes for value in values) if node.op_type != "ConstantOfShape" else 0
        if budget < 0:
            raise ModelError(f"the constants take more than {FOLDED_BYTES // 1024**3} GiB when computed")
        for name, value in zip((name for name in node.output if name), values, strict=True):
            constants[name] = value
            tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
    return left, budget, len(left) < len(nodes)


def _constant_results(
    node: NodeProto, constants: dict[str, Array], tensors: dict[str, TensorInfo], opset: int
) -> list[Array]:
    """The values of all outputs of the node, or none of them: of one, of what Split makes, or nothing."""
    if made := empty.nothing(node, tensors, constants):
        return made
    if node.op_type == "Split":
        # What it makes is as large as what it reads.
        if not all(name in constants for name in node.input if name):
            return []
        try:
            return evaluated(node, constants, opset)
        except Uncomputed:
            return []
    value = constant_result(node, constants, tensors, opset)
    return [] if value is None else [value]


def constant_result(
    node: NodeProto, constants: dict[str, Array], tensors: dict[str, TensorInfo], opset: int
) -> Array | None:
    """The value of the node's only output if it is known now."""
    name = node.output[0]
    if len(node.output) != 1 or node.op_type in NEVER_FOLDED:
        return None
    if node.op_type == "Shape" and node.input[0] in tensors:
        part = attributes_of(node)
        return np.array(tensors[node.input[0]].shape[part.get("start", 0) : part.get("end")], np.int64)
    if not all(entry in constants for entry in node.input if entry):
        return None
    if node.op_type == "Constant":
        return evaluate_node(node, constants, opset)
    if node.op_type == "ConstantOfShape":
        shape = tuple(int(extent) for extent in constants[node.input[0]].reshape(-1))
        values = [numpy_helper.to_array(attribute.t).reshape(()) for attribute in node.attribute]
        fill: Array = values[0] if values else np.zeros((), np.float32)
        if min(shape, default=0) < 0:
            raise ModelError(f"node {node_name(node)!r} (ConstantOfShape) has the negative shape {shape}")
        check_size(math.prod(shape) * fill.itemsize, f"node {node_name(node)!r} (ConstantOfShape)", shape)
        return np.broadcast_to(fill, shape)
    if node.op_type in empty.LOOKING and 0 in constants[node.input[0]].shape:
        return None  # a mistake, which is told when the node is read
    # Computed only when the size of the result is known beforehand: at most what is cut.
    if name not in tensors and node.op_type != "Slice":
        return None
    try:
        value = evaluate_node(node, constants, opset)
    except Uncomputed:
        return None  # the build computes it
    return value if name not in tensors or value.shape == tensors[name].shape else None


def evaluate_node(node: NodeProto, constants: Mapping[str, Array], opset: int) -> Array:
    """The only output of ``node``; raises ModelError when nothing can compute it."""
    return evaluated(node, constants, opset)[0]
