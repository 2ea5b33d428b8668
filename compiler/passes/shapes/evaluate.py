"""Evaluate a node on constants: by onnx's reference, else by onnxruntime where that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from compiler.ir.checks import ModelError, first_line, node_name

Array = npt.NDArray[Any]
QUANTIZING_OPSET = 19
INEXACT = {
    *(
        "AveragePool",
        "BatchNormalization",
        "ConvTranspose",
        "DeformConv",
        "GlobalMaxPool",
        "GridSample",
        "LRN",
    ),
    *("GRU", "Hardmax", "LSTM", "LogSoftmax", "LpNormalization", "LpPool", "MaxPool", "MaxRoiPool"),
    *("MaxUnpool", "NonMaxSuppression", "RNN", "Resize", "RoiAlign", "STFT", "Softmax", "Upsample"),
}
"""Operators that the reference computes wrongly where attributes, types or values are not the usual ones."""
_FAR = 2.0**20
"""So many quanta from zero the reference may make any byte."""
IR_VERSION = 10
"""Of the models of one node; operators of older sets are the same in it."""


class Uncomputed(ModelError):
    """A node of constants that nothing here can compute: it is not wrong for that."""


def evaluated(node: NodeProto, constants: Mapping[str, Array], opset: int) -> list[Array]:
    """The outputs of ``node``; raises Uncomputed, with the reference's reason, where nothing computes it."""
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        # The reference does not know older versions, which say the same of fewer types.
        opset = max(opset, QUANTIZING_OPSET)
    inputs = {name: constants[name] for name in node.input if name}
    if node.op_type in ("Div", "Mod") and (by := inputs[node.input[1]]).dtype.kind in "iu" and not by.all():
        who = f"node {node_name(node)!r} ({node.op_type})"
        raise ModelError(f"{who} needs a divisor other than 0, and the model has 0")
    if node.op_type == "GatherElements" and _beyond(node, *(inputs[name] for name in node.input)):
        raise Uncomputed(f"node {node_name(node)!r} (GatherElements) has an index beyond its table")
    if node.op_type == "CumSum" and inputs[node.input[1]].size == 1:
        # tf2onnx writes the axis as a list of one, which onnxruntime takes and the reference does not.
        inputs[node.input[1]] = inputs[node.input[1]].reshape(())
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    names = [name for name in node.output if name]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names]
    graph = helper.make_graph([node], "constant", values, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    reason = "onnxruntime is not here, or does not take it"
    found = None
    inexact = node.op_type in INEXACT and not _has_no_step(node, inputs)
    if inexact or _overflows(node, inputs):
        found = _by_onnxruntime(model, inputs)
    if found is None and not inexact:
        try:
            results: Any = ReferenceEvaluator(model).run(None, inputs)
            if node.op_type == "ReduceMean" and not inputs[node.input[0]].size:
                # Of nothing, which onnx leaves open: the reference divides 0 by 0, for integers too.
                results = [np.zeros_like(each) for each in results]
            return [np.asarray(each) for each in results]
        except Exception as error:  # whatever an operator's reference raises on values it does not take
            reason = first_line(error)
            found = None if _has_no_step(node, inputs) else _by_onnxruntime(model, inputs)
    if found is None:
        raise Uncomputed(f"node {node_name(node)!r} ({node.op_type}) cannot be computed: {reason}")
    return found


def _beyond(node: NodeProto, table: Array, places: Array) -> bool:
    """Whether one of the places is not there; the reference takes another then."""
    extent = table.shape[next((each.i for each in node.attribute if each.name == "axis"), 0)]
    return bool(((places < -extent) | (places >= extent)).any())


def _has_no_step(node: NodeProto, inputs: Mapping[str, Array]) -> bool:
    """Whether it is a recurrence over nothing: onnxruntime aborts the process on such."""
    return node.op_type in ("GRU", "LSTM", "RNN") and any(not each.size for each in inputs.values())


def _overflows(node: NodeProto, inputs: Mapping[str, Array]) -> bool:
    """Whether the reference may leave the range of integers on its way."""
    first = inputs[node.input[0]] if node.input and node.input[0] else np.zeros(0)
    if node.op_type in ("Pow", "ReduceMean"):
        return first.dtype.kind in "iu" and first.size > 0
    if node.op_type != "QuantizeLinear":
        return False
    return not (np.abs(first) < _FAR * np.abs(inputs[node.input[1]]).min(initial=np.inf)).all()


def _by_onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> list[Array] | None:
    """The same by the library that models are compared with; None where it cannot, or is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    for value in model.graph.output:
        value.ClearField("type")
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(each) for each in session.run(None, dict(inputs))]
    except Exception:  # it raises types of its own, of which there are many
        return None
