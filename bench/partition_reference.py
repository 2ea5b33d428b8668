"""What a partitioned model must compute: products and integer operators in numpy, the rest as ONNX says.

As long as everything but the model's inputs and outputs is bytes the result is defined to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from compiler.ir.own_nodes import OPERATOR, PRODUCT
from compiler.ir.partition import Partition, Product
from compiler.passes.shapes.evaluate import QUANTIZING_OPSET
from kernels.operators.int8.base import from_stored, to_stored
from kernels.reference import reference
from kernels.workload.base import NarrowGemm, OfActivations, QConv2d

Array = npt.NDArray[Any]


def evaluate(partition: Partition, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of the partitioned graph by its name, shaped as in ONNX, for the given inputs."""
    graph = partition.graph
    values: dict[str, Array] = {**graph.constants, **feeds}
    for node in graph.nodes:
        inputs = {name: values[name] for name in node.input if name}
        if node.op_type == PRODUCT:
            result = _product(partition.products[_index(node)], values)
            results = [result.reshape(graph.tensors[node.output[0]].shape)]
        elif node.op_type == OPERATOR:
            operator = partition.operators[_index(node)]
            results = [operator.what.reference(*(values[name] for name in operator.inputs))]
        else:
            results = _by_onnx(node, inputs, graph.opset)
        values |= {name: result for name, result in zip(node.output, results, strict=True) if name}
    return values


def _index(node: NodeProto) -> int:
    return next(int(attribute.i) for attribute in node.attribute if attribute.name == "index")


def _product(product: Product, values: Mapping[str, Array]) -> Array:
    """The product's result, in ONNX's order of axes."""
    workload, data = product.workload, values[product.data]
    if isinstance(workload, OfActivations):
        names = (product.data, *product.others)
        flat = [values[name].reshape(shape) for name, shape in zip(names, workload.input_shapes, strict=True)]
        return reference(workload, flat).astype(np.float32)
    if not isinstance(workload, QConv2d):
        narrow = isinstance(workload, NarrowGemm)
        inputs = [data.reshape(workload.data_shape), *(product.constants if narrow else [product.weights()])]
        inputs += [] if product.bias is None else [product.bias]
        if product.residual is not None:
            inputs.append(values[product.residual].reshape(workload.out_shape))
        return reference(workload, inputs).astype(np.float32)
    # What has no four axes is a matrix product: rows.
    rows = to_stored(data).reshape(workload.data_shape)
    scalars = [values[name].reshape(()) for name in product.others]
    result = reference(workload, [rows, *product.constants, *scalars])
    return from_stored(result) if data.ndim == 4 else result


def _by_onnx(node: NodeProto, inputs: Mapping[str, Array], opset: int) -> list[Array]:
    """The node's results by ONNX's own reference."""
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        opset = max(opset, QUANTIZING_OPSET)  # the reference has no older ones
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name
    ]
    graph = helper.make_graph([node], "node", values, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    computed: Any = ReferenceEvaluator(model).run(None, dict(inputs))
    found = iter(computed)
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.output]
