"""Products of a quantized graph: which nodes they are made of, and what is written in their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto

from compiler.ir.checks import node_name
from compiler.ir.partition import QuantizedProduct
from compiler.passes.quantize.dynamic import dynamic_tail
from compiler.passes.quantize.nodes import BYTES, NODES, QuantizedConstant
from compiler.passes.quantize.products import (
    Operands,
    conv_operands,
    dynamic_workload,
    matmul_operands,
    workload_of,
)
from compiler.passes.quantize.rewriting import Rewriting, per_axis
from kernels.int8.quantization import Quantization
from kernels.int8.reference import reference
from kernels.workload.base import Conv2d
from kernels.workload.qconv2d import QConv2d

Array = npt.NDArray[Any]


def product(rewriting: Rewriting, node: NodeProto) -> bool:
    """Conv, MatMul or Gemm of a quantized tensor by a quantized constant, with bias, clamp, QuantizeLinear.

    Where no QuantizeLinear follows, the sums are int32, and a DequantizeLinear makes floats of them.
    """
    source = rewriting.known.get(node.input[0])
    weights = rewriting.constants.get(node.input[1])
    if source is None or weights is None:
        return False
    graph = rewriting.graph
    is_conv = node.op_type == "Conv"
    operands = (conv_operands if is_conv else matmul_operands)(graph, node, weights)
    if isinstance(operands, str) or not _add_own_bias(rewriting, node, operands):
        return False
    absorbed = [node, *_absorb_biases(rewriting, node, operands)]
    operands.revive(source.quantization.scale)
    real = absorbed[-1].output[0]
    tail = rewriting.tail(real)
    tail = rewriting.wanted(tail) if tail else None
    found = workload_of(
        operands,
        source.quantization,
        tail.out.quantization if tail else None,
        tail.clamp if tail else None,
    )
    if isinstance(found, str):
        return False
    workload, constants = found
    unit = (source.quantization.scale * operands.unit).astype(np.float32)
    if tail is None and not np.all(np.isfinite(unit) & (unit > 0)):
        return False
    if tail:
        absorbed += tail.nodes
        rewriting.change(tail)
    output = tail.out.name if tail else real
    names = tuple(dict.fromkeys(node_name(n) for n in absorbed if n.op_type not in NODES))
    data = _transposed(rewriting, node, source.name)
    with _Shaped(rewriting, node, data, output, operands) as (data, result):
        made, shape = result, graph.tensors[result].shape
        if tail is None:
            made = rewriting.tensor(f"{result}/sum", shape, TensorProto.INT32)
        rewriting.product(QuantizedProduct(workload, constants, names, data, made), node)
        if tail is None:
            scale = rewriting.graph.constant(f"{real}/unit", unit if unit.size > 1 else unit.reshape(()))
            along = {"axis": 1 if is_conv else len(shape) - 1} if unit.size > 1 else {}
            rewriting.add("DequantizeLinear", [made, scale], result, node, **along)
    rewriting.take(absorbed)
    return True


def _add_own_bias(rewriting: Rewriting, node: NodeProto, operands: Operands) -> bool:
    """The node's third input; whether it is one value a filter."""
    name = node.input[2] if len(node.input) > 2 else ""
    if not name:
        return True
    rank = 1 if node.op_type == "Conv" else 2
    bias = _constant(rewriting, name, rank, rank - 1, operands.filters)
    if bias is None:
        return False
    beta = next((a.f for a in node.attribute if a.name == "beta"), 1.0)
    if beta != 1.0:
        bias = beta * (per_real(bias))
    operands.biases.append(bias)
    return True


def per_real(bias: QuantizedConstant | Array) -> Array:
    """The bias as real numbers."""
    return bias.real() if isinstance(bias, QuantizedConstant) else bias.astype(np.float64)


def _absorb_biases(rewriting: Rewriting, node: NodeProto, operands: Operands) -> list[NodeProto]:
    """Sums with constants that follow; they become biases."""
    shape = rewriting.graph.tensors[node.output[0]].shape
    axis, nodes, name = 1 if node.op_type == "Conv" else len(shape) - 1, [], node.output[0]
    while (reader := rewriting.wiring.only_reader(name)) is not None and reader.op_type == "Add":
        other = reader.input[1] if reader.input[0] == name else reader.input[0]
        bias = _constant(rewriting, other, len(shape), axis, operands.filters)
        if bias is None:
            break
        operands.biases.append(bias)
        nodes.append(reader)
        name = reader.output[0]
    return nodes


def _constant(
    rewriting: Rewriting, name: str, rank: int, axis: int, extent: int
) -> QuantizedConstant | Array | None:
    constant: Any = rewriting.constants.get(name)
    if constant is None:
        constant = rewriting.graph.constants.get(name)
    found: QuantizedConstant | Array | None = (
        None if constant is None else per_axis(constant, rank, axis, extent)
    )
    return found


def _transposed(rewriting: Rewriting, node: NodeProto, data: str) -> str:
    """The bytes that Gemm's transA wants turned."""
    if not any(a.name == "transA" and a.i for a in node.attribute):
        return data
    info = rewriting.graph.tensors[data]
    turned = rewriting.tensor(f"{node.output[0]}/transposed", info.shape[::-1], info.elem_type)
    return rewriting.add("Transpose", [data], turned, node, perm=[1, 0])


class _Shaped:
    """Reshapes around a matrix product of tensors with four axes: in the partition those are convolutions."""

    def __init__(
        self, rewriting: Rewriting, node: NodeProto, data: str, output: str, operands: Operands
    ) -> None:
        self._rewriting, self._node, self._data, self._output = rewriting, node, data, output
        self._result = output
        self._geometry = operands.geometry

    def __enter__(self) -> tuple[str, str]:
        """Data and result of the product itself."""
        rewriting, geometry = self._rewriting, self._geometry
        shape = rewriting.graph.tensors[self._output].shape
        if isinstance(geometry, Conv2d) or len(shape) != 4:
            return self._data, self._output
        kind = rewriting.graph.tensors[self._output].elem_type
        self._result = rewriting.tensor(f"{self._output}/matrix", (geometry.m, geometry.n), kind)
        info = rewriting.graph.tensors[self._data]
        rows = rewriting.tensor(f"{self._output}/rows", (geometry.m, geometry.k), info.elem_type)
        return self._reshape(self._data, rows, (geometry.m, geometry.k)), self._result

    def __exit__(self, *error: object) -> None:
        if self._result != self._output:
            self._reshape(self._result, self._output, self._rewriting.graph.tensors[self._output].shape)

    def _reshape(self, source: str, output: str, shape: Sequence[int]) -> str:
        to = self._rewriting.graph.constant(f"{output}/shape", np.array(shape, np.int64))
        return self._rewriting.add("Reshape", [source, to], output, self._node)


def integer_product(rewriting: Rewriting, node: NodeProto) -> bool:
    """ConvInteger or MatMulInteger by constant weights; why not is noted in ``rewriting.reasons``."""
    reason = _integer_product(rewriting, node)
    if reason is not None:
        rewriting.reasons[node.output[0]] = reason
    return reason is None


def _integer_product(rewriting: Rewriting, node: NodeProto) -> str | None:
    graph = rewriting.graph
    name, weights = node.input[0], graph.constants.get(node.input[1])
    if name in graph.constants or weights is None:
        return "its weights are computed, not constant" if weights is None else "its activations are constant"
    zeros = [
        graph.constants.get(each) if each else np.zeros(1, np.int8) for each in (*node.input[2:4], "", "")
    ]
    if zeros[1] is None:
        return "the zero point of its weights is computed, not constant"
    filters = weights.shape[0] if node.op_type == "ConvInteger" else weights.shape[-1]
    if zeros[1].size not in (1, filters):
        return "its weights have zero points along another axis than the filters"
    constant = QuantizedConstant(weights, np.ones(1), zeros[1].reshape(-1).astype(np.int64), 0)
    operands = (conv_operands if node.op_type == "ConvInteger" else matmul_operands)(graph, node, constant)
    if isinstance(operands, str):
        return operands
    zero_size = math.prod(graph.tensors[node.input[2]].shape) if zeros[0] is None else zeros[0].size
    if zero_size != 1:
        return "its activations have a zero point for each row"
    if node.op_type == "MatMulInteger" and _dynamic_product(rewriting, node, operands):
        return None
    # With a computed zero point the data count as they are, and what that adds to the sums is taken off.
    zero = 0 if zeros[0] is None else int(zeros[0].reshape(()))
    dtype = next(byte for byte in BYTES if byte == graph.tensors[name].dtype)
    found = workload_of(operands, Quantization(dtype, 1.0, zero), None, None)
    if isinstance(found, str):
        return found
    workload, constants = found
    source = rewriting.source(name)
    with _Shaped(rewriting, node, source, node.output[0], operands) as (data, result):
        made = result
        if zeros[0] is None:
            made = rewriting.tensor(f"{result}/sum", graph.tensors[result].shape, TensorProto.INT32)
        rewriting.product(QuantizedProduct(workload, constants, (node_name(node),), data, made), node)
        if zeros[0] is None:
            _take_off(rewriting, node, (made, result), _excess(workload, operands))
    return None


def _dynamic_product(rewriting: Rewriting, node: NodeProto, operands: Operands) -> bool:
    """One product of the sums and what makes floats of them by a computed scale; whether there is that."""
    graph, tail = rewriting.graph, dynamic_tail(rewriting, node, operands.filters)
    name, zero = node.input[0], node.input[2] if len(node.input) > 2 else ""
    dtype = next(byte for byte in BYTES if byte == graph.tensors[name].dtype)
    workload = dynamic_workload(operands, dtype)
    if tail is None or isinstance(workload, str):
        return False
    if not zero:
        zero = graph.constant(f"{node.output[0]}/zero", np.zeros((), dtype))
    scalars = (rewriting.source(tail.step), rewriting.source(zero))
    constants = (operands.weights, np.zeros(operands.filters, np.int32), tail.unit, tail.addend)
    names = tuple(dict.fromkeys(node_name(each) for each in (node, *tail.nodes)))
    with _Shaped(rewriting, node, rewriting.source(name), tail.output, operands) as (data, result):
        rewriting.product(QuantizedProduct(workload, constants, names, data, result, scalars), node)
    rewriting.take(tail.nodes)
    return True


def _excess(workload: QConv2d, operands: Operands) -> Array:
    """What the sums grow by when all data grow by one: by filter, and by position where that matters."""
    if not isinstance(operands.geometry, Conv2d):
        return operands.sums().astype(np.int32)
    if not any(workload.pad):
        return operands.sums().astype(np.int32).reshape(-1, 1, 1)
    # Padding stays zero.
    single = replace(workload, n=1, data_dtype="uint8", data_zero=0)
    bias = np.zeros(workload.out_c, np.int32)
    sums = reference(single, [np.ones(single.data_shape, np.uint8), operands.weights, bias])
    return np.ascontiguousarray(sums.transpose(0, 3, 1, 2))


def _take_off(rewriting: Rewriting, node: NodeProto, sums: tuple[str, str], excess: Array) -> None:
    made, result = sums
    shape = rewriting.graph.tensors[node.input[2]].shape
    zero = rewriting.tensor(f"{result}/zero", shape, TensorProto.INT32)
    rewriting.add("Cast", [rewriting.source(node.input[2])], zero, node, to=TensorProto.INT32)
    per_unit = rewriting.graph.constant(f"{result}/excess", excess)
    off = rewriting.tensor(f"{result}/off", np.broadcast_shapes(shape, excess.shape), TensorProto.INT32)
    rewriting.add("Mul", [zero, per_unit], off, node)
    rewriting.add("Sub", [made, off], result, node)
