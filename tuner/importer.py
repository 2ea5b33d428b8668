"""A partitioned model as a Relax module: products by a given emitter, everything else by TVM's importer."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map

from tuner.graph import PRODUCT, Partition, Product
from tuner.onnx_check import ModelError, node_name
from tuner.onnx_graph import OnnxGraph
from tuner.rest import lrn

EmitProduct = Callable[[Any, Product, Any, Any], Any]
"""(block builder, product, data, residual or None) -> the result, of ``product.workload.out_shape``."""


def import_partition(partition: Partition, emit: EmitProduct) -> Any:
    """The Relax module whose ``main`` computes the partitioned graph.

    Raises ModelError that lists the operators that TVM cannot import.
    """
    graph = partition.graph
    unsupported = unsupported_nodes(graph)
    if unsupported:
        listed = ", ".join(f"{node.op_type} (node {node_name(node)!r})" for node in unsupported[:10])
        raise ModelError(f"TVM cannot import these operators: {listed}")
    with _quiet():
        return _Importer(partition, emit).from_onnx(_proto(graph), graph.opset)


def import_whole(model: ModelProto) -> Any:
    """The Relax module of an unpartitioned model, as TVM imports it; raises ModelError when it cannot."""
    with _quiet():
        try:
            return from_onnx(model, keep_params_in_input=False)
        except Exception as error:  # converters raise whatever they happen to run into
            reason = str(error).strip().split("\n")[-1]
            raise ModelError(f"TVM cannot import the model: {reason}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The importer warns about renamed inputs, prints before it raises and asserts about outputs."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            yield
        except AssertionError as error:
            raise ModelError(f"TVM cannot import the model: {error}") from error


def unsupported_nodes(graph: OnnxGraph) -> list[NodeProto]:
    """The nodes that TVM has no converter for."""
    known = _get_convert_map().keys() | {PRODUCT}
    return [node for node in graph.nodes if node.op_type not in known]


def _proto(graph: OnnxGraph) -> Any:
    """The graph without its constants, which the importer gets as arrays."""
    inputs = [
        helper.make_tensor_value_info(name, info.elem_type, info.shape) for name, info in graph.inputs.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, graph.tensors[name].elem_type, graph.tensors[name].shape)
        for name in graph.outputs
    ]
    return helper.make_graph(graph.nodes, "main", inputs, outputs)


class _Importer(ONNXGraphImporter):  # type: ignore[misc]  # TVM is untyped
    def __init__(self, partition: Partition, emit: EmitProduct) -> None:
        super().__init__({}, None)
        self._partition, self._emit = partition, emit

    def _parse_graph_initializers(self, graph: Any) -> None:
        for name, value in self._partition.graph.constants.items():
            self._nodes[name] = relax.const(np.ascontiguousarray(value).reshape(value.shape))

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Done before, with a better message."""

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        if op_name == "LRN":
            return self.bb.emit(lrn(self.bb, inputs[0], attrs))
        if op_name != PRODUCT:
            return self._by_tvm(op_name, inputs, attrs, opset)
        product = self._partition.products[attrs["index"]]
        workload = product.workload
        data = self._shaped(inputs[0], workload.data_shape)
        residual = self._shaped(inputs[1], workload.out_shape) if product.residual else None
        result = self.bb.emit(self._emit(self.bb, product, data, residual))
        return self._shaped(result, self._partition.graph.tensors[product.output].shape)

    def _by_tvm(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        name = attrs["tvm_custom"]["name"]
        try:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:  # converters raise whatever they happen to run into
            reason = str(error).strip().split("\n")[-1]
            raise ModelError(f"TVM cannot import node {name!r} ({op_name}): {reason}") from error

    def _shaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        """``value`` as ``shape``; a matrix product's activations may have more axes than a matrix."""
        value = self.bb.normalize(value)
        if tuple(int(extent) for extent in value.ty.shape.values) == tuple(shape):
            return value
        return self.bb.emit(relax.op.reshape(value, shape))
