"""Seeded random weights for models that come without any, scaled so that activations keep their size.

Graphs without real weights (all one value) compute the same number everywhere, and a check of numerics on
them checks nothing.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

Array = npt.NDArray[Any]

SHAPES_ONLY = {"Unsqueeze", "Squeeze", "Reshape", "Identity", "Flatten", "Transpose"}


def randomize(model: ModelProto, seed: int) -> ModelProto:
    """A copy of ``model`` with its float weights replaced; the same for the same seed.

    Weights of products, batch norms and constant factors and addends are replaced, whether they are
    initializers or come from Constant and ConstantOfShape. Everything that shapes depend on stays.
    """
    return _Randomizer(model, seed).result()


class _Randomizer:
    """Walks the nodes in order and keeps an estimate of every activation's mean square.

    A product's weights are drawn so that its result has about unit variance, given that estimate: neither
    depth nor residual sums then make values vanish or explode.
    """

    def __init__(self, model: ModelProto, seed: int) -> None:
        self._model, self._seed = model, seed
        self._power: dict[str, float] = {}
        self._drawn: dict[str, Array] = {}
        self._writers = {name: node for node in model.graph.node for name in node.output}
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}

    def result(self) -> ModelProto:
        for node in self._model.graph.node:
            self._visit(node)
        source, copy = self._model.graph, ModelProto()
        copy.ir_version = self._model.ir_version
        copy.opset_import.extend(self._model.opset_import)
        graph = copy.graph
        graph.name = source.name
        graph.input.extend(source.input)
        graph.output.extend(source.output)
        graph.value_info.extend(source.value_info)
        graph.node.extend(node for node in source.node if node.output[0] not in self._drawn)
        for tensor in source.initializer:
            if tensor.name not in self._drawn:
                graph.initializer.append(tensor)
        # Tensor by tensor: copies of hundreds of megabytes take seconds.
        for name, value in self._drawn.items():
            tensor = graph.initializer.add(name=name, dims=value.shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(value.dtype)
            tensor.raw_data = value.tobytes()
        if copy.ir_version < 4:
            # Up to here initializers had to be inputs as well.
            copy.ir_version = 4
        return copy

    def _visit(self, node: NodeProto) -> None:
        inputs = list(node.input)
        power = max(self._power.get(inputs[0], 1.0), 1e-6) if inputs else 1.0
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            fan_in = self._fan_in(node)
            self._draw(inputs[1], lambda rng, s: _normal(rng, s, 1 / math.sqrt(fan_in * power)))
            if len(inputs) > 2:
                self._draw(inputs[2], lambda rng, s: _normal(rng, s, 0.1))
            power = 1.0
        elif node.op_type == "BatchNormalization":
            self._draw(inputs[1], lambda rng, s: rng.uniform(0.8, 1.2, s))
            self._draw(inputs[2], lambda rng, s: _normal(rng, s, 0.1))
            self._draw(inputs[3], lambda rng, s: _normal(rng, s, 0.1))
            self._draw(inputs[4], lambda rng, s: power * rng.uniform(0.8, 1.2, s))
            power = 1.0
        elif node.op_type in ("Add", "Sum"):
            for name in inputs:
                self._draw(name, lambda rng, s: _normal(rng, s, 0.1))
            power = sum(self._power.get(name, 1.0) for name in inputs if not self._is_drawn(name))
        elif node.op_type == "Mul":
            for name in inputs:
                self._draw(name, lambda rng, s: rng.uniform(0.8, 1.2, s))
        elif node.op_type == "Relu" and not self._is_sum(inputs[0]):
            power /= 2
        elif node.op_type == "Concat":
            power = sum(self._power.get(name, 1.0) for name in inputs) / len(inputs)
        self._power.update(dict.fromkeys(node.output, power))

    def _is_sum(self, name: str) -> bool:
        """Whether ``name`` is a residual sum: mostly positive already, so that a relu takes little away."""
        node = self._writers.get(name)
        if node is None or node.op_type not in ("Add", "Sum"):
            return False
        return not any(self._is_drawn(operand) for operand in node.input)

    def _is_drawn(self, name: str) -> bool:
        return self._source(name) in self._drawn

    def _source(self, name: str) -> str:
        """The constant that ``name`` is only another shape of."""
        while (node := self._writers.get(name)) is not None and node.op_type in SHAPES_ONLY:
            name = node.input[0]
        return name

    def _constant(self, name: str) -> Array | None:
        """The value, if ``name`` is a float constant."""
        if name in self._initializers:
            value: Array = numpy_helper.to_array(self._initializers[name])
            return value if value.dtype.kind == "f" else None
        node = self._writers.get(name)
        if node is None or node.op_type not in ("Constant", "ConstantOfShape"):
            return None
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        fill = attributes.get("value")
        value = np.zeros(1, np.float32) if fill is None else numpy_helper.to_array(fill)
        if value.dtype.kind != "f" or (node.op_type == "Constant" and fill is None):
            return None
        if node.op_type == "Constant":
            return value
        shape = self._initializers.get(node.input[0])
        if shape is None:
            return None
        return np.broadcast_to(value.reshape(()), tuple(int(e) for e in numpy_helper.to_array(shape)))

    def _draw(self, name: str, draw: Callable[[np.random.Generator, tuple[int, ...]], Array]) -> None:
        name = self._source(name)
        value = self._constant(name)
        if value is None or name in self._drawn:
            return
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        self._drawn[name] = draw(rng, value.shape).astype(value.dtype, copy=False)

    def _fan_in(self, node: NodeProto) -> float:
        weights = self._constant(self._source(node.input[1]))
        if weights is None or weights.ndim < 2:
            return 1.0
        if node.op_type in ("Conv", "ConvTranspose"):
            return float(np.prod(weights.shape[1:]))
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        return float(weights.shape[-1] if turned else weights.shape[-2])


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Array:
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= scale
    return values
