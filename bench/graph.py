"""Building networks as ONNX graphs with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bench.random_weights import randomize

OPSET = 17
CLASSES = 1000


class Graph:
    """Nodes and zero weights of a network in the making; tensors go by their names."""

    def __init__(self, side: int = 224, shape: tuple[int, ...] | None = None) -> None:
        """``shape`` is the input's where that is no image of three channels with sides of ``side``."""
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._constants: list[TensorProto] = []
        self._input = shape or (1, 3, side, side)
        self._channels = {"input": self._input[1]}

    def node(self, op: str, inputs: list[str], channels: int | None = None, **attributes: Any) -> str:
        """Append a node; its result has as many channels as its first input unless told otherwise."""
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        self._channels[output] = self._channels[inputs[0]] if channels is None else channels
        return output

    def weight(self, *shape: int) -> str:
        """A weight that ``randomize`` fills."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """A value that ``randomize`` leaves as it is."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def conv(
        self,
        data: str,
        filters: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        groups: int = 1,
        padded: bool = True,
    ) -> str:
        """Convolution with bias, padded so that stride 1 keeps the size, or not at all."""
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        weights = self.weight(filters, self._channels[data] // groups, height, width)
        return self.node(
            "Conv",
            [data, weights, self.weight(filters)],
            channels=filters,
            kernel_shape=[height, width],
            strides=[stride, stride],
            pads=[height // 2, width // 2] * 2 if padded else [0] * 4,
            group=groups,
        )

    def channels(self, data: str) -> int:
        """How many channels ``data`` has."""
        return self._channels[data]

    def max_pool(self, data: str, kernel: int, stride: int, pad: int = 0) -> str:
        """Max pooling."""
        return self.node("MaxPool", [data], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def average_pool(self, data: str, kernel: int) -> str:
        """Average pooling with stride 1 that keeps the size, the padding not counted."""
        pads = [kernel // 2] * 4
        return self.node("AveragePool", [data], kernel_shape=[kernel] * 2, strides=[1, 1], pads=pads)

    def concat(self, parts: list[str]) -> str:
        """Parts side by side along the channels."""
        return self.node("Concat", parts, channels=sum(self._channels[part] for part in parts), axis=1)

    def dense(self, data: str, features: int, outputs: int) -> str:
        """Fully connected layer."""
        return self.node("Gemm", [data, self.weight(outputs, features), self.weight(outputs)], transB=1)

    def classifier(self, data: str) -> str:
        """Global average, flatten, one fully connected layer."""
        pooled = self.node("GlobalAveragePool", [data])
        return self.dense(self.node("Flatten", [pooled]), self._channels[data], CLASSES)

    def model(
        self, output: str, name: str, seed: int, shape: Sequence[int] | None = (1, CLASSES)
    ) -> ModelProto:
        """The finished model with random weights; ``shape`` is the result's, None leaves it to inference."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, self._input)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        model = randomize(model, seed)
        model.graph.initializer.extend(self._constants)
        return model
