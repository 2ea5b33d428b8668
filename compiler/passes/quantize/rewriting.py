"""The state of ReplaceQuantized: what is known of the graph, and the nodes written so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, TensorInfo
from compiler.ir.own_nodes import OPERATOR, PRODUCT
from compiler.ir.partition import QuantizedOperator, QuantizedProduct
from compiler.passes.epilogues.epilogue import Clamp, Wiring, clip_range
from compiler.passes.quantize.nodes import (
    QuantizedConstant,
    QuantizedTensor,
    dequantized,
    quanta_range,
    quantized,
    quantized_constant,
)
from compiler.passes.quantize.tables import requantization
from kernels.int8.quantization import Quantization
from kernels.operators.int8.base import QOperator
from kernels.workload.base import RELU

Array = npt.NDArray[Any]

_ELEM_TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


@dataclass(frozen=True)
class Tail:
    """What follows a node up to a QuantizeLinear: these nodes, clamp and result."""

    nodes: tuple[NodeProto, ...]
    clamp: Clamp | None
    out: QuantizedTensor


class Rewriting:
    """The graph is read as it was; ``nodes`` are the new ones, always in topological order.

    ``known`` has, by the names of float tensors, the bytes that they are made of; ``constants`` likewise.
    ``products`` and ``operators`` are by their outputs; ``reasons`` say, by output, why there is no product.
    """

    def __init__(self, graph: OnnxGraph) -> None:
        self.graph = graph
        self.wiring = Wiring.of(graph)
        self.known: dict[str, QuantizedTensor] = {}
        self.constants: dict[str, QuantizedConstant] = {}
        self.nodes: list[NodeProto] = []
        self.taken: set[str] = set()
        self.products: dict[str, QuantizedProduct] = {}
        self.operators: dict[str, QuantizedOperator] = {}
        self.reasons: dict[str, str] = {}
        self._same: dict[str, str] = {}
        self._changed: dict[str, QuantizedTensor] = {}
        for node in graph.nodes:
            self._read_constant(node)

    def _read_constant(self, node: NodeProto) -> None:
        found = quantized_constant(self.graph, node)
        if found is None and node.op_type == "Transpose" and node.input[0] in self.constants:
            source = self.constants[node.input[0]]
            axes = range(source.quanta.ndim)[::-1]
            found = source.transposed(next((list(a.ints) for a in node.attribute), list(axes)))
        if found is not None:
            self.constants[node.output[0]] = found

    # What is known.

    def source(self, name: str) -> str:
        """The tensor that has the value of ``name`` now."""
        return self._same.get(name, name)

    def is_bytes(self, name: str) -> bool:
        """Whether ``name`` is an activation of 8-bit integers."""
        info = self.graph.tensors.get(name)
        return name not in self.graph.constants and info is not None and info.dtype in ("int8", "uint8")

    def tail(self, name: str) -> Tail | None:
        """What only ``name`` goes through: at most one Relu or Clip, then a QuantizeLinear."""
        nodes: list[NodeProto] = []
        clamp: Clamp | None = None
        while (reader := self.wiring.only_reader(name)) is not None:
            nodes.append(reader)
            out = quantized(self.graph, reader)
            if out is not None:
                return Tail(tuple(nodes), clamp, out)
            limits = RELU if reader.op_type == "Relu" else clip_range(self.graph, reader)
            if limits is None or clamp is not None:
                return None
            clamp, name = limits, reader.output[0]
        return None

    def wanted(self, tail: Tail) -> Tail:
        """``tail`` and what only its result goes through, as far as one rounding can stand for all of them.

        That is another clamp and QuantizeLinear, and the Concat that wants a quantization of its own: the
        result is written in that. ``change`` has to be told when it is used. Rounding twice is at most one
        off from rounding once only where the second steps are no smaller.
        """
        while True:
            given = tail.out.quantization
            reader = self.wiring.only_reader(tail.out.name)
            if reader is None or dequantized(self.graph, reader) is None:
                return tail
            real = reader.output[0]
            after = self.tail(real)
            if after is not None and after.out.quantization.scale >= given.scale:
                clamp = _composed(tail.clamp, given, after.clamp)
                tail = Tail((*tail.nodes, reader, *after.nodes), clamp, after.out)
                continue
            concat = self.wiring.only_reader(real)
            if concat is None or concat.op_type != "Concat":
                return tail
            writers = [self.wiring.writers.get(name) for name in concat.input]
            if any(writer is None or dequantized(self.graph, writer) is None for writer in writers):
                return tail
            after = self.tail(concat.output[0])
            if after is None or after.clamp is not None or after.out.quantization.scale < given.scale:
                return tail
            out = QuantizedTensor(self.graph.fresh(f"{tail.out.name}/rescaled"), after.out.quantization)
            return Tail(tail.nodes, _composed(tail.clamp, given, None), out)

    def change(self, tail: Tail) -> None:
        """Let the result of ``tail`` stand for the tensor that its last node makes."""
        name = tail.nodes[-1].output[0]
        if tail.out.name != name:
            self._changed[name] = tail.out
            self.bytes_like(tail.out.name, name, tail.out.quantization.dtype)

    def read(self, node: NodeProto) -> QuantizedTensor | None:
        """The activation that a DequantizeLinear makes floats of, as it is now; None for any other node."""
        found = dequantized(self.graph, node)
        if found is None:
            return None
        if found.name in self._changed:
            return self._changed[found.name]
        return QuantizedTensor(self.source(found.name), found.quantization)

    # What is written.

    def add(self, op: str, inputs: Sequence[str], output: str, like: NodeProto, **attributes: Any) -> str:
        """Write a node with the name of ``like``; its output."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=node_name(like), **attributes))
        return output

    def copy(self, node: NodeProto) -> None:
        """Write ``node`` as it is, reading what its inputs are now."""
        copied = NodeProto()
        copied.CopyFrom(node)
        copied.input[:] = [self.source(name) for name in node.input]
        self.nodes.append(copied)

    def tensor(self, name: str, shape: Sequence[int], elem_type: int) -> str:
        """Say of what shape and type a new tensor is; its name, ``name`` or something like it."""
        name = self.graph.fresh(name)
        self.graph.tensors[name] = TensorInfo(tuple(shape), elem_type)
        return name

    def bytes_like(self, name: str, real: str, dtype: str) -> str:
        """A new tensor of bytes with the shape of ``real``."""
        return self.tensor(name, self.graph.tensors[real].shape, _ELEM_TYPES[dtype])

    def equate(self, name: str, source: str, like: NodeProto) -> None:
        """Let ``source`` stand for ``name``."""
        self._same[name] = source
        if name in self.graph.outputs:
            self.add("Identity", [source], name, like)

    def operator(self, what: QOperator, inputs: Sequence[str], output: str, like: NodeProto) -> str:
        """Write an integer operator; its output."""
        self.operators[output] = QuantizedOperator(node_name(like), what, tuple(inputs), output)
        return self.add(OPERATOR, inputs, output, like)

    def product(self, product: QuantizedProduct, like: NodeProto) -> str:
        """Write a product; its output."""
        self.products[product.output] = product
        return self.add(PRODUCT, [product.data, *product.others], product.output, like)

    def known_as(self, real: str, source: QuantizedTensor, like: NodeProto) -> None:
        """Let ``real`` be made of ``source``, and write the node that does so for who wants floats."""
        self.known[real] = source
        code = source.quantization
        scale = self.graph.constant(f"{real}/scale", np.array(code.scale, np.float32))
        zero = self.graph.constant(f"{real}/zero", np.array(code.zero, code.dtype))
        self.add("DequantizeLinear", [source.name, scale, zero], real, like)

    def requantized(self, source: QuantizedTensor, real: str, out: Quantization, like: NodeProto) -> str:
        """The bytes of ``real`` (``source``'s) as ``out`` says them; their name."""
        if source.quantization == out:
            return source.name
        shape = self.graph.tensors[real].shape
        name = self.bytes_like(f"{like.output[0]}/{real}/requantized", real, out.dtype)
        return self.operator(requantization(shape, source.quantization, out), [source.name], name, like)

    def take(self, nodes: Sequence[NodeProto]) -> None:
        """These need not be written any more."""
        self.taken.update(node.output[0] for node in nodes)


def _composed(first: Clamp | None, given: Quantization, second: Clamp | None) -> Clamp:
    """``first``, what ``given`` can say, and ``second``, one after the other, as one clamp."""
    ends = given.real(np.array(quanta_range(first, given), given.dtype))
    low, high = (None, None) if second is None else second
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    return float(ends[0].clip(low, high)), float(ends[1].clip(low, high))


def per_axis(constant: QuantizedConstant | Array, rank: int, axis: int, extent: int) -> Any:
    """A constant that is added to a tensor of this ``rank`` as one value, or one for each of ``axis``.

    A vector of the same kind as the constant; None when it is something else.
    """
    quanta = constant.quanta if isinstance(constant, QuantizedConstant) else constant
    shape = (1,) * (rank - quanta.ndim) + quanta.shape
    if len(shape) != rank or shape[axis] not in (1, extent):
        return None
    if any(length != 1 for at, length in enumerate(shape) if at != axis):
        return None
    if not isinstance(constant, QuantizedConstant):
        return quanta.reshape(-1)
    if constant.scale.size > 1 and constant.axis + rank - quanta.ndim != axis:
        return None
    return replace(constant, quanta=quanta.reshape(-1), axis=0)
