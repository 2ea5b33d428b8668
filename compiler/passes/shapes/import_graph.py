"""The graph of a model that was read: all shapes are known, or the model is refused with the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import SIZED_BY_DATA, OnnxGraph, TensorInfo
from compiler.passes.cleanup.dead_code import needed
from compiler.passes.cleanup.outputs import name_of
from compiler.passes.shapes.blame import blame_inputs
from compiler.passes.shapes.definitions import expanded
from compiler.passes.shapes.folding import RANDOM, folded, unknown

FLOATS_OF_BYTES = (
    *(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2),
    *(TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT8E8M0),
)
COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
PARTS_OF_BYTES = (
    *(TensorProto.INT2, TensorProto.UINT2, TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1),
)
DECIDING: dict[str, dict[int, str]] = {
    "CumProd": {1: "an axis"},
    "CumSum": {1: "an axis"},
    "DFT": {2: "an axis"},
    "Dropout": {2: "a mode"},
    "Expand": {1: "a shape"},
}
"""Operands that decide what is computed; the shape of the result may be known without them."""


def graph_of(model: ModelProto) -> OnnxGraph:
    """The graph of a checked model; the shapes of its inputs are static."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    nodes, tensors = folded(model, expanded(model, constants), constants)
    # What only shapes were taken of is needed no more.
    nodes = needed(nodes, [value.name for value in model.graph.output])
    _refuse_types(model, nodes, tensors)
    unsized = unknown(nodes, tensors)
    if unsized:
        node = unsized[0]
        if node.op_type in SIZED_BY_DATA:
            raise ModelError(
                f"node {node_name(node)!r} ({node.op_type}) has as many results as its data say, and "
                "all shapes must be known; cut the model before it"
            )
        sizes = [name for name in node.input if name not in constants and _is_shape(tensors.get(name))]
        blame_inputs(model, nodes, node, sizes, lambda each: each.input)
        raise ModelError(
            f"the shape of {node.output[0]!r} (node {node_name(node)!r}, {node.op_type}) cannot be determined"
        )
    for node in nodes:
        for place, what in DECIDING.get(node.op_type, {}).items():
            name = node.input[place] if len(node.input) > place else ""
            if name and name not in constants:
                blame_inputs(model, nodes, node, [name], lambda each: each.input)
                raise ModelError(
                    f"node {node_name(node)!r} ({node.op_type}) has {what} that is computed from data: "
                    "export the model with a constant there"
                )
    random = next((node for node in nodes if node.op_type in RANDOM), None)
    if random is not None:
        raise ModelError(
            f"node {node_name(random)!r} ({random.op_type}) makes random numbers, so no build could be "
            "checked; export the model with them as an input"
        )
    inputs = [value.name for value in model.graph.input if value.name not in constants]
    outputs = [value.name for value in model.graph.output]
    for name in (*inputs, *outputs, *(name for node in nodes for name in node.output)):
        if name in tensors and tensors[name].elem_type in PARTS_OF_BYTES:
            kind = TensorProto.DataType.Name(tensors[name].elem_type)
            raise ModelError(
                f"tensor {name!r} is {kind}; only constants may take less than a byte an element"
            )
    return OnnxGraph(
        inputs={name: tensors[name] for name in inputs},
        outputs=outputs,
        nodes=nodes,
        constants=constants,
        tensors=tensors,
        opset=opset,
        given_back={value.name: name_of(value) for value in model.graph.output},
    )


def _refuse_types(model: ModelProto, nodes: Sequence[NodeProto], tensors: Mapping[str, TensorInfo]) -> None:
    """Raise ModelError for numbers that nothing here computes with, and for strings that nothing looks up."""
    kinds = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
    kinds |= {name: info.elem_type for name, info in tensors.items()}
    for node in nodes:
        for name in (*node.input, *node.output):
            kind = kinds.get(name, TensorProto.UNDEFINED)
            of = f"node {node_name(node)!r} ({node.op_type})"
            if kind in FLOATS_OF_BYTES:
                raise ModelError(
                    f"{of} computes with {TensorProto.DataType.Name(kind)}, which nothing here does: export "
                    "the model as it was before it was quantized to float8, or quantize that to int8"
                )
            if kind in COMPLEX:
                raise ModelError(
                    f"{of} computes with complex numbers, which nothing here does: export the model with "
                    "their real and imaginary parts as floats"
                )
            if kind == TensorProto.STRING and not all(each in tensors for each in node.output if each):
                raise ModelError(
                    f"{of} computes with strings; export the model without them, or cut it before them"
                )


def _is_shape(info: TensorInfo | None) -> bool:
    integers = (TensorProto.INT32, TensorProto.INT64)
    return info is not None and len(info.shape) <= 1 and info.elem_type in integers
