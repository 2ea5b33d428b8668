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

from kernels.layout import NCHW, NHWC, PLAIN, layouts_of, stored_shape
from kernels.qoperator import stored
from kernels.quantization import Quantization
from kernels.qworkload import QConv2d
from kernels.target import Target
from tuner.backend.borders import QUANTIZE, border_of, scales_of_sums
from tuner.backend.operators import BINARY, POOLS, pool_of
from tuner.backend.rest import lrn
from tuner.backend.stored import StoredTensors, constant_operand
from tuner.backend.stored_bytes import ByteTensors
from tuner.frontend.graph import PRODUCT, Partition
from tuner.frontend.onnx_check import ModelError, node_name
from tuner.frontend.onnx_graph import Array, OnnxGraph
from tuner.frontend.quantized.operator import OPERATOR
from tuner.layouts.plan import Plan

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
    known = _get_convert_map().keys() | {PRODUCT, OPERATOR}
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
    """TVM's importer knows NCHW alone (``_nodes``).

    What lies otherwise is kept in ``_stored``, and images of integers in ``_bytes``.
    """

    def __init__(
        self, partition: Partition, plan: Plan, target: Target, threads: int, emit: EmitProduct
    ) -> None:
        super().__init__({}, None)
        self._nodes: dict[str, Any]
        self._partition, self._graph, self._plan, self._emit = partition, partition.graph, plan, emit
        self._stored = StoredTensors(self._graph, plan, target, threads, self.bb)
        self._bytes = ByteTensors(target, threads, self.bb)

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
            elif node.op_type == OPERATOR:
                self._operator(node)
            elif (code := border_of(self._graph, node)) is not None:
                self._border(node, code)
            elif (scales := scales_of_sums(self._graph, node)) is not None:
                self._sums(node, scales)
            elif node.output[0] in self._plan.rules:
                self._in_layout(node)
            else:
                self._in_nchw(node)
        for name in self._graph.outputs:
            self._nodes[name] = self._plain(name)

    def _product(self, node: NodeProto) -> None:
        index = _index(node)
        product, option = self._partition.products[index], self._plan.options[index]
        workload = product.workload
        if isinstance(workload, QConv2d):
            self._quantized_product(index, product.data, product.output, workload)
            return
        data, out = layouts_of(option.config) if option else PLAIN
        value = self._shaped(self._at(product.data, data), stored_or_plain(workload.data_shape, data))
        residual = None
        if product.residual is not None:
            residual = self._shaped(self._at(product.residual, out), stored_or_plain(workload.out_shape, out))
        result = self.bb.emit(self._emit(self.bb, index, value, residual))
        self._keep(product.output, out, result)

    def _quantized_product(self, index: int, data: str, output: str, workload: QConv2d) -> None:
        """A convolution of pixels, or a matrix product: that of the rows of whatever shape the data have."""
        shapes = [self._graph.tensors[name].shape for name in (data, output)]
        images = [len(shape) == 4 for shape in shapes] == [True, True] and [
            stored(shape) for shape in shapes
        ] == [workload.data_shape, workload.out_shape]
        value = self._integers(data) if images else self._shaped(self._plain(data), workload.data_shape)
        result = self.bb.emit(self._emit(self.bb, index, value, None))
        if images:
            self._bytes.put(output, NHWC, result)
        else:
            self._nodes[output] = self._shaped(result, shapes[1])

    def _operator(self, node: NodeProto) -> None:
        operator = self._partition.operators[_index(node)]
        result = self._bytes.operator(operator.what, [self._integers(name) for name in operator.inputs])
        self._keep_integers(operator.output, NHWC, result)

    def _border(self, node: NodeProto, code: Quantization) -> None:
        """Between floats and bytes; with four axes both lie alike."""
        source, target = node.input[0], node.output[0]
        shape = self._graph.tensors[source].shape
        if node.op_type == QUANTIZE:
            state = self._plan.states.get(source)
            layout = NHWC if state is not None and state.has(NHWC) else NCHW
            lies = stored_or_plain(shape, layout)
            self._keep_integers(target, layout, self._bytes.quantize(self._at(source, layout), lies, code))
        else:
            layout = self._plan.layout_of(target)
            value = self._integers(source, layout)
            self._keep(target, layout, self._bytes.dequantize(value, stored_or_plain(shape, layout), code))

    def _sums(self, node: NodeProto, scales: Array) -> None:
        """int32 sums as floats; those of images are pixels on both sides."""
        (source, target), shape = (node.input[0], node.output[0]), self._graph.tensors[node.input[0]].shape
        layout = self._plan.layout_of(target)
        if len(shape) == 4 and layout == NCHW:
            # Nothing reads it, so nothing was planned.
            return
        value = self._bytes.dequantize_sums(self._integers(source), stored_or_plain(shape, layout), scales)
        self._keep(target, layout, value)

    def _integers(self, name: str, layout: str = NHWC) -> Any:
        """A tensor of integers; with four axes in ``layout``."""
        if len(self._graph.tensors[name].shape) != 4:
            return self._nodes[name]
        if name not in self._bytes.names():
            self._bytes.put(name, NCHW, self._nodes[name])
        return self._bytes.get(name, layout)

    def _keep_integers(self, name: str, layout: str, value: Any) -> None:
        if len(self._graph.tensors[name].shape) == 4:
            self._bytes.put(name, layout, value)
        else:
            self._nodes[name] = value

    def _plain(self, name: str) -> Any:
        """A tensor of any kind as TVM's importer wants it."""
        return self._bytes.get(name, NCHW) if name in self._bytes.names() else self._at(name, NCHW)

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
        for name in [*self._plan.states, *self._bytes.names()] if subgraphs else node.input:
            if self._stored.made(name) or name in self._bytes.names():
                self._nodes[name] = self._plain(name)
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


def _index(node: NodeProto) -> int:
    """Which product or operator the node stands for."""
    return int(next(helper.get_attribute_value(a) for a in node.attribute if a.name == "index"))


def stored_or_plain(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape in which an array of ``shape`` is stored; NCHW is also the word for those of other ranks."""
    return shape if layout == NCHW else stored_shape(layout, shape)
