"""A partitioned model as a Relax module: products by a given emitter, everything else by TVM's importer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import NodeProto, helper
from tvm import relax

from compiler.analysis.bounds import INDICES
from compiler.analysis.tvm_support import unsupported_nodes
from compiler.ir.checks import ModelError, node_name
from compiler.ir.elementwise import BINARY
from compiler.ir.graph import STRINGS, OnnxGraph, attributes_of
from compiler.ir.own_nodes import COMPUTED, CUT, LOOP, OPERATOR, PRODUCT, RECURRENT
from compiler.ir.partition import Partition, Product
from compiler.lower.operators.border import DEQUANTIZE, DYNAMIC, QUANTIZE, border_of, scales_of_sums
from compiler.lower.operators.bounds import Looking
from compiler.lower.operators.constants import constant
from compiler.lower.operators.cut import cut
from compiler.lower.operators.functions import Functions
from compiler.lower.operators.left_to_tvm import TvmImporter, quiet
from compiler.lower.operators.nothing import nothing
from compiler.lower.operators.recurrent import recurrent
from kernels.layout import NCHW, NHWC, PLAIN, stored_shape
from kernels.operators.int8.base import stored
from kernels.target import Target
from kernels.workload.base import OfActivations, QConv2d, QConvChain
from tuner.backend.looping import Looping
from tuner.backend.stored import StoredTensors, constant_operand
from tuner.backend.stored_bytes import BYTES, ByteTensors
from tuner.layouts.plan import Plan

EmitProduct = Callable[[Any, int, Any, Sequence[Any]], Any]
"""(block builder, index of a product, data, what it takes after its constants: a residual and factors of the
input channels, or the other activations) -> the result; all stored as planned, factors as NCHW."""


def import_partition(
    partition: Partition,
    plan: Plan,
    target: Target,
    threads: int,
    emit: EmitProduct,
    loops: Sequence[Looping] = (),
    flat: bool = True,
) -> Any:
    """The Relax module whose ``main`` computes the partitioned graph, every tensor in its planned layout.

    Products of activations are handed ``flat`` arrays, as their kernels take them, or as the graph has them.

    Raises ModelError that lists the operators that TVM cannot import.
    """
    graph = partition.graph
    unsupported = unsupported_nodes(graph)
    if unsupported:
        listed = ", ".join(f"{node.op_type} (node {node_name(node)!r})" for node in unsupported[:10])
        raise ModelError(f"TVM cannot import these operators: {listed}")
    for node in graph.nodes:
        if any(graph.tensors[name].dtype == STRINGS for name in (*node.input, *node.output) if name):
            raise ModelError(
                f"node {node_name(node)!r} ({node.op_type}) computes with strings; export the model without "
                "them, or cut it before them"
            )
    with quiet():
        importer = _Importer(partition, plan, target, threads, emit, loops, flat)
        return importer.from_onnx(_proto(graph), graph.opset)


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


class _Importer(TvmImporter):
    """Each node by what computes it: a kernel, a function of ours (``compiler/lower/operators``), or TVM.

    TVM's importer knows NCHW alone (``_nodes``). What lies otherwise is kept in ``_stored``, and images of
    integers in ``_bytes``.
    """

    def __init__(
        self,
        partition: Partition,
        plan: Plan,
        target: Target,
        threads: int,
        emit: EmitProduct,
        loops: Sequence[Looping],
        flat: bool,
    ) -> None:
        super().__init__(partition.graph)
        self._loops = iter(loops)
        self._partition, self._plan, self._emit, self._flat = partition, plan, emit, flat
        self._stored = StoredTensors(self._graph, plan, target, threads, self.bb)
        self._bytes = ByteTensors(target, threads, self.bb, flat)
        self._target, self._functions = target, Functions()
        self._looking = Looking(self.bb, self._graph, self._functions)
        self._own: dict[str, Callable[[NodeProto], bool]] = {
            PRODUCT: self._product,
            OPERATOR: self._operator,
            QUANTIZE: self._quantize,
            DEQUANTIZE: self._dequantize,
            DYNAMIC: self._dynamic_quantize,
            RECURRENT: self._recurrent,
            CUT: self._cut,
            LOOP: self._loop,
            "Slice": self._slice,
            "Transpose": self._transpose,
        }

    def _construct_nodes(self, graph: Any) -> None:
        inputs = [self._nodes[name] for name in self._graph.inputs]
        for name in self._graph.inputs:
            self._stored.put(name, NCHW, self._nodes[name])
        self._looking.begin({name: self._nodes[name] for name in self._graph.inputs})
        for node in graph.node:
            own = self._own.get(node.op_type)
            if own is not None and own(node):
                continue
            if node.output[0] in self._plan.rules:
                self._in_layout(node)
            else:
                self._in_nchw(node)
        cuts = {node.output[0] for node in graph.node if node.op_type == CUT}
        looked = {node.output[0] for node in graph.node if node.op_type in INDICES}
        for name in self._graph.outputs:
            info = self._graph.tensors[name]
            if 0 in info.shape and name not in looked:
                self._nodes[name] = nothing(self.bb, inputs, info.shape, info.dtype)
            elif name not in cuts:
                self._nodes[name] = self._plain(name)

    def _product(self, node: NodeProto) -> bool:
        index = _index(node)
        product, option = self._partition.products[index], self._plan.options[index]
        workload = product.workload
        if isinstance(workload, QConv2d | QConvChain):
            self._quantized_product(index, product, workload)
            return True
        if isinstance(workload, OfActivations):
            names = (product.data, *product.others)
            values = [
                self._shaped(self._plain(name), shape) if self._flat else self._plain(name)
                for name, shape in zip(names, workload.input_shapes, strict=True)
            ]
            self._keep(product.output, NCHW, self.bb.emit(self._emit(self.bb, index, values[0], values[1:])))
            return True
        data, out = option.config.layouts if option else PLAIN
        value = self._shaped(self._at(product.data, data), stored_or_plain(workload.data_shape, data))
        others = []
        if product.residual is not None:
            lies = stored_or_plain(workload.out_shape, out)
            others.append(self._shaped(self._at(product.residual, out), lies))
        if product.factors is not None:
            others.append(self._at(product.factors, NCHW))
        result = self.bb.emit(self._emit(self.bb, index, value, others))
        self._keep(product.output, out, result)
        return True

    def _quantized_product(self, index: int, product: Product, workload: QConv2d | QConvChain) -> None:
        """A convolution of pixels, or a matrix product: that of the rows of whatever shape the data have."""
        data, output = product.data, product.output
        shapes = [self._graph.tensors[name].shape for name in (data, output)]
        images = [len(shape) == 4 for shape in shapes] == [True, True] and [
            stored(shape) for shape in shapes
        ] == [workload.data_shape, workload.out_shape]
        value = self._integers(data) if images else self._shaped(self._plain(data), workload.data_shape)
        others = [self._scalar(name) for name in product.others]
        result = self.bb.emit(self._emit(self.bb, index, value, others))
        if images:
            self._bytes.put(output, NHWC, result)
        else:
            self._nodes[output] = self._shaped(result, shapes[1])

    def _scalar(self, name: str) -> Any:
        """One number, computed or constant."""
        value = self._graph.constants.get(name)
        return self._shaped(self._plain(name), ()) if value is None else constant(value.reshape(()))

    def _operator(self, node: NodeProto) -> bool:
        operator = self._partition.operators[_index(node)]
        result = self._bytes.operator(operator.what, [self._integers(name) for name in operator.inputs])
        self._keep_integers(operator.output, NHWC, result)
        return True

    def _quantize(self, node: NodeProto) -> bool:
        """Floats as bytes; with four axes both lie alike."""
        code = border_of(self._graph, node)
        if code is None:
            return False
        source = node.input[0]
        state = self._plan.states.get(source)
        layout = NHWC if state is not None and state.has(NHWC) else NCHW
        lies = stored_or_plain(self._graph.tensors[source].shape, layout)
        value = self._bytes.quantize(self._at(source, layout), lies, code)
        self._keep_integers(node.output[0], layout, value)
        return True

    def _dynamic_quantize(self, node: NodeProto) -> bool:
        """Floats as bytes by a step and a zero point that are computed, too."""
        made = self._bytes.dynamic(self._plain(node.input[0]), self._graph.tensors[node.input[0]].shape)
        self._nodes.update(zip(node.output, made, strict=False))
        return True

    def _dequantize(self, node: NodeProto) -> bool:
        """Bytes, or int32 sums, as floats; those of images are pixels on both sides."""
        source, target = node.input[0], node.output[0]
        code, scales = border_of(self._graph, node), scales_of_sums(self._graph, node)
        layout, shape = self._plan.layout_of(target), self._graph.tensors[source].shape
        lies = stored_or_plain(shape, layout)
        if code is not None:
            value = self._bytes.dequantize(self._integers(source, layout), lies, code)
        elif scales is None:
            return False
        elif len(shape) == 4 and layout == NCHW:
            return True  # nothing reads it, so nothing was planned
        else:
            value = self._bytes.dequantize_sums(self._integers(source), lies, scales)
        self._keep(target, layout, value)
        return True

    def _recurrent(self, node: NodeProto) -> bool:
        """One direction of a recurrent operator."""
        inputs = [self._plain(name) for name in node.input]
        results = recurrent(self.bb, self._functions, self._graph, node, inputs, self._target)
        self._nodes.update(zip(node.output, results, strict=True))
        return True

    def _cut(self, node: NodeProto) -> bool:
        """What counts of a result of the model."""
        value, counts = (self._plain(name) for name in node.input)
        self._nodes[node.output[0]] = cut(self.bb, value, counts, attributes_of(node)["axes"])
        return True

    def _loop(self, node: NodeProto) -> bool:
        """A loop that data end; those of a graph come in its order."""
        infos = [self._graph.tensors[name] for name in node.output]
        types = [relax.TensorType(info.shape, info.dtype) for info in infos]
        made = next(self._loops).call(self.bb, node, [self._plain(name) for name in node.input], types)
        for name, value in zip(node.output, made, strict=True):
            self._keep(name, NCHW, value)
        return True

    def _transpose(self, node: NodeProto) -> bool:
        """Between pixels and planes of bytes: nothing moves, as bytes are stored as pixels."""
        source, target = node.input[0], node.output[0]
        info, perm = self._graph.tensors[source], list(attributes_of(node).get("perm", []))
        if info.dtype not in BYTES or len(info.shape) != 4 or target in self._plan.rules:
            return False
        if perm == [0, 3, 1, 2]:
            self._bytes.put(target, NHWC, self._plain(source))
        elif perm == [0, 2, 3, 1] and source in self._bytes.names():
            self._nodes[target] = self._bytes.get(source, NHWC)
        else:
            return False
        return True

    def _slice(self, node: NodeProto) -> bool:
        """Of bytes that are stored as pixels, as pixels."""
        source, target = node.input[0], node.output[0]
        operands = [self._graph.constants.get(name) for name in node.input[1:]]
        known = [[int(number) for number in each] for each in operands if each is not None]
        if not self._bytes.has(source, NHWC) or len(known) < max(3, len(operands)):
            return False
        starts, ends, axes, steps = (*known, [1] * len(known[0]))[:4]
        shape = self._graph.tensors[source].shape
        cuts = [slice(*cut).indices(shape[at]) for at, *cut in zip(axes, starts, ends, steps, strict=True)]
        if any(step < 1 or stop <= start for start, stop, step in cuts):
            return False
        places = [(0, 3, 1, 2)[axis] for axis in axes]
        begin, end, strides = map(list, zip(*cuts, strict=True))
        value = relax.op.strided_slice(self._bytes.get(source, NHWC), places, begin, end, strides)
        self._bytes.put(target, NHWC, self.bb.emit(value))
        return True

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
        if rule.function is not None:
            tables = rule.function.tables
            values = [self._at(name, layout) for name in (node.input if tables is None else rule.reads)]
            values += map(constant, tables or ())
            result = self._stored.generated(rule.function, values, layout)
        else:
            # TVM's converters of elementwise operators take any shape.
            before = dict(self._nodes)
            for name in node.input:
                if name in rule.reads:
                    self._nodes[name] = self._at(name, layout)
                elif name in self._graph.constants and node.op_type in BINARY:
                    self._nodes[name] = constant_operand(self._graph.constants[name], layout)
            self.left_to_tvm(node)
            result = self._nodes[node.output[0]]
            self._nodes = before
        self._keep(node.output[0], layout, result)

    def _in_nchw(self, node: NodeProto) -> None:
        """Any other node, by a function of ours for NCHW or by TVM's importer."""
        for name in node.input:
            if self._stored.made(name) or name in self._bytes.names():
                self._nodes[name] = self._plain(name)
        looked_at = self._looking.at(node, self._nodes)
        given = {name: self._nodes[name] for name in looked_at}
        self._nodes.update(looked_at)
        info = self._graph.tensors[node.output[0]]
        if node.op_type in INDICES and 0 in info.shape:
            # All that comes of it is that its indices were looked at.
            beside = [*looked_at.values(), *(self._nodes[name] for name in self._graph.inputs)]
            self._nodes[node.output[0]] = nothing(self.bb, beside, info.shape, info.dtype)
        elif node.op_type in COMPUTED:
            self.computed(node)
        else:
            self.left_to_tvm(node)
        self._nodes.update(given)
        self.check(node)
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

    def _shaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        """``value`` as ``shape``; a matrix product's activations may have more axes than a matrix."""
        value = self.bb.normalize(value)
        if tuple(int(extent) for extent in value.ty.shape.values) == tuple(shape):
            return value
        return self.bb.emit(relax.op.reshape(value, shape))


def _index(node: NodeProto) -> int:
    """Which product or operator the node stands for."""
    return int(attributes_of(node)["index"])


def stored_or_plain(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape in which an array of ``shape`` is stored; NCHW is also the word for those of other ranks."""
    return shape if layout == NCHW else stored_shape(layout, shape)
