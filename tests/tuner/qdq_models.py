"""Small quantized graphs made for one test each, and what onnxruntime makes of them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from tiny_models import model, node, save

from bench.partition_reference import evaluate
from compiler.ir.partition import Partition
from compiler.load import load_partition
from tuner.runtimes.engines import onnx_session


class Qdq:
    """Writes nodes named like their outputs; names are numbered."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.rng = np.random.default_rng(0)

    def name(self, kind: str) -> str:
        return f"{kind}{len(self.nodes) + len(self.constants)}"

    def constant(self, value: Any) -> str:
        name = self.name("constant")
        self.constants[name] = np.asarray(value)
        return name

    def add(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = self.name(op)
        self.nodes.append(node(op, list(inputs), name, **attributes))
        return name

    def _parameters(self, scale: Any, zero: Any, dtype: Any) -> list[str]:
        return [self.constant(np.asarray(scale, np.float32)), self.constant(np.asarray(zero, dtype))]

    def quantize(self, real: str, scale: float, zero: int = 0, dtype: Any = np.uint8) -> str:
        return self.add("QuantizeLinear", [real, *self._parameters(scale, zero, dtype)])

    def dequantize(self, quanta: str, scale: Any, zero: Any = 0, dtype: Any = np.uint8, **axis: int) -> str:
        return self.add("DequantizeLinear", [quanta, *self._parameters(scale, zero, dtype)], **axis)

    def through(self, real: str, scale: float, zero: int = 0, dtype: Any = np.uint8) -> str:
        return self.dequantize(self.quantize(real, scale, zero, dtype), scale, zero, dtype)

    def weights(
        self, shape: Sequence[int], axis: int | None = None, dtype: Any = np.int8, zero: int = 0
    ) -> str:
        """Seven bits, of one scale or one along ``axis``."""
        value = (self.rng.integers(-64, 64, shape) + zero).astype(dtype)
        if axis is None:
            return self.dequantize(self.constant(value), 0.01, zero, dtype)
        scales = self.rng.uniform(0.005, 0.02, shape[axis])
        zeros = np.full(shape[axis], zero)
        return self.dequantize(self.constant(value), scales, zeros, dtype, axis=axis)

    def model(self, inputs: dict[str, Sequence[int]], outputs: Sequence[str], **fields: Any) -> ModelProto:
        return model(self.nodes, dict(inputs), list(outputs), self.constants, **fields)


def run(
    tmp_path: Any, made: ModelProto, quantum: float, optimised: bool = False, share: float = 0.02
) -> Partition:
    """The model's partition, after its outputs were seen within one ``quantum`` of onnxruntime's."""
    path = save(tmp_path, made)
    partition = load_partition(path)
    rng = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    for name, info in partition.graph.inputs.items():
        if info.elem_type == TensorProto.FLOAT:
            feeds[name] = rng.standard_normal(info.shape).astype(np.float32)
        else:
            feeds[name] = rng.integers(0, 100, info.shape).astype(info.dtype)
    ours = evaluate(partition, feeds)
    theirs = onnx_session(str(path), 1, optimised).run(None, feeds)
    for name, expected in zip(partition.graph.outputs, theirs, strict=True):
        assert ours[name].shape == expected.shape
        assert ours[name].dtype == expected.dtype
        assert np.ptp(expected) > 10 * quantum, "the test says nothing"
        difference = np.abs(ours[name].astype(np.float64) - expected)
        assert difference.max() <= quantum * 1.001
        assert (difference > quantum / 2).mean() <= share
    return partition


def kinds(partition: Partition) -> dict[str, int]:
    """How often there is each kind of node, product and operator, without borders."""
    names = [product.workload.kind for product in partition.products]
    names += [type(operator.what).__name__ for operator in partition.operators]
    ours = ("TilefleetProduct", "TilefleetOperator", "QuantizeLinear", "DequantizeLinear")
    names += [each.op_type for each in partition.graph.nodes if each.op_type not in ours]
    return dict(Counter(names))
