"""A partitioned model as a Relax module: products by a given emitter, everything else by TVM's importer."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map

from kernels.layout import NCHW, PLAIN, layouts_of, stored_shape
from kernels.target import Target
from tuner.graph import PRODUCT, Partition
from tuner.onnx_check import ModelError, node_name
from tuner.onnx_graph import OnnxGraph
from tuner.operators import BINARY, POOLS, pool_of
from tuner.plan import Plan
from tuner.rest import lrn
from tuner.stored import StoredTensors, constant_operand

EmitProduct = Callable[[Any, int, Any, Any], Any]
"""(block builder, index of a product, data, residual or None) -> the result; all stored as planned."""


def import_partition(
    partition: Partition, plan: Plan, target: Target, threads: int, emit: EmitProduct
) -> Any:
    """The Relax module whose ``main`` computes the partitioned graph, every tensor in its planned layout.

    Raises ModelError that lists the operators that TVM cannot import.
    """
    graph = partition.graph
    unsupported = unsupported_nodes(graph)
    if unsupported:
        listed = ", ".join(f"{node.op_type} (node {node_name(node)!r})" for node in unsupported[:10])
        raise ModelError(f"TVM cannot import these operators: {listed}")
    with _quiet():
        return _Importer(partition, plan, target, threads, emit).from_onnx(_proto(graph), graph.opset)


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
    """TVM's importer knows NCHW alone (``_nodes``); what lies otherwise is kept in ``_stored``."""

    def __init__(
        self, partition: Partition, plan: Plan, target: Target, threads: int, emit: EmitProduct
    ) -> None:
        super().__init__({}, None)
        self._nodes: dict[str, Any]
        self._partition, self._graph, self._plan, self._emit = partition, partition.graph, plan, emit
        self._stored = StoredTensors(self._graph, plan, target, threads, self.bb)

    def _parse_graph_initializers(self, graph: Any) -> None:
        for name, value in self._graph.constants.items():
            self._nodes[name] = relax.const(np.ascontiguousarray(value).reshape(value.shape))

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Done before, with a better message."""

    def _construct_nodes(self, graph: Any) -> None:
        for name in self._graph.inputs:
            self._stored.put(name, NCHW, self._nodes[name])
        for node in graph.node:
            if node.op_type == PRODUCT:
                self._product(node)
            elif node.output[0] in self._plan.rules:
                self._in_layout(node)
            else:
                self._in_nchw(node)
        for name in self._graph.outputs:
            self._nodes[name] = self._at(name, NCHW)

    def _product(self, node: NodeProto) -> None:
        index = next(helper.get_attribute_value(a) for a in node.attribute if a.name == "index")
        product, option = self._partition.products[index], self._plan.options[index]
        workload = product.workload
        data, out = layouts_of(option.config) if option else PLAIN
        value = self._shaped(self._at(product.data, data), stored_or_plain(workload.data_shape, data))
        residual = None
        if product.residual is not None:
            residual = self._shaped(self._at(product.residual, out), stored_or_plain(workload.out_shape, out))
        result = self.bb.emit(self._emit(self.bb, index, value, residual))
        self._keep(product.output, out, result)

    def _in_layout(self, node: NodeProto) -> None:
        """A node that works in the layout that it writes."""
        rule, layout = self._plan.rules[node.output[0]], self._plan.layout_of(node.output[0])
        pool = pool_of(self._graph, node) if node.op_type in POOLS else None
        if pool is not None:
            result = self._stored.pool(pool, self._at(node.input[0], layout), layout)
        elif node.op_type == "Concat":
            shapes = tuple(self._graph.tensors[name].shape for name in node.input)
            result = self._stored.concat(shapes, [self._at(name, layout) for name in node.input], layout)
        else:
            # TVM's converters of elementwise operators take any shape.
            before = dict(self._nodes)
            for name in node.input:
                if name in rule.reads:
                    self._nodes[name] = self._at(name, layout)
                elif name in self._graph.constants and node.op_type in BINARY:
                    self._nodes[name] = constant_operand(self._graph.constants[name], layout)
            super()._construct_nodes(SimpleNamespace(node=[node]))
            result = self._nodes[node.output[0]]
            self._nodes = before
        self._keep(node.output[0], layout, result)

    def _in_nchw(self, node: NodeProto) -> None:
        """Any other node, by TVM's importer."""
        subgraphs = any(attribute.HasField("g") for attribute in node.attribute)
        for name in self._plan.states if subgraphs else node.input:
            if self._stored.made(name):
                self._nodes[name] = self._at(name, NCHW)
        super()._construct_nodes(SimpleNamespace(node=[node]))
        for name in node.output:
            if name in self._plan.states:
                self._stored.put(name, NCHW, self._nodes[name])

    def _at(self, name: str, layout: str) -> Any:
        """An activation in ``layout``; what no layouts are known of is as TVM's importer has it."""
        return self._stored.get(name, layout) if name in self._plan.states else self._nodes[name]

    def _keep(self, name: str, layout: str, value: Any) -> None:
        value = self._shaped(value, stored_or_plain(self._graph.tensors[name].shape, layout))
        if name in self._plan.states:
            self._stored.put(name, layout, value)
        else:
            self._nodes[name] = value

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        if op_name == "LRN":
            return self.bb.emit(lrn(self.bb, inputs[0], attrs))
        return self._by_tvm(op_name, inputs, attrs, opset)

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


def stored_or_plain(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape in which an array of ``shape`` is stored; NCHW is also the word for those of other ranks."""
    return shape if layout == NCHW else stored_shape(layout, shape)
