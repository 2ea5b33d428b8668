"""Graph makers for whole-model benches: the usual networks as ONNX, with seeded random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tuner.weights import randomize

OPSET = 17
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
INPUT = (1, 3, 224, 224)
CLASSES = 1000


class _Graph:
    """Nodes and zero weights of a network in the making; tensors go by their names."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._channels = {"input": INPUT[1]}

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

    def conv(self, data: str, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """Convolution with bias, padded so that stride 1 keeps the size."""
        weights = self.weight(filters, self._channels[data] // groups, kernel, kernel)
        return self.node(
            "Conv",
            [data, weights, self.weight(filters)],
            channels=filters,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def channels(self, data: str) -> int:
        """How many channels ``data`` has."""
        return self._channels[data]

    def max_pool(self, data: str, kernel: int, stride: int, pad: int = 0) -> str:
        """Max pooling."""
        return self.node("MaxPool", [data], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def dense(self, data: str, features: int, outputs: int) -> str:
        """Fully connected layer."""
        return self.node("Gemm", [data, self.weight(outputs, features), self.weight(outputs)], transB=1)

    def classifier(self, data: str) -> str:
        """Global average, flatten, one fully connected layer."""
        pooled = self.node("GlobalAveragePool", [data])
        return self.dense(self.node("Flatten", [pooled]), self._channels[data], CLASSES)

    def model(self, output: str, name: str, seed: int) -> ModelProto:
        """The finished model with random weights."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, INPUT)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, CLASSES])],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return randomize(model, seed)


def resnet18(seed: int = 0) -> ModelProto:
    """ResNet-18: basic blocks of two 3x3 convolutions."""

    def block(graph: _Graph, data: str, width: int, stride: int) -> str:
        hidden = graph.node("Relu", [graph.conv(data, width, 3, stride)])
        return graph.conv(hidden, width, 3)

    return _resnet("resnet18", (2, 2, 2, 2), block, 1, seed)


def resnet50(seed: int = 0) -> ModelProto:
    """ResNet-50: bottleneck blocks, the stride in the 3x3."""
    return _resnet("resnet50", (3, 4, 6, 3), _bottleneck, 4, seed)


def resnet152(seed: int = 0) -> ModelProto:
    """ResNet-152: bottleneck blocks, the stride in the 3x3."""
    return _resnet("resnet152", (3, 8, 36, 3), _bottleneck, 4, seed)


def _bottleneck(graph: _Graph, data: str, width: int, stride: int) -> str:
    hidden = graph.node("Relu", [graph.conv(data, width, 1)])
    hidden = graph.node("Relu", [graph.conv(hidden, width, 3, stride)])
    return graph.conv(hidden, 4 * width, 1)


def _resnet(
    name: str,
    depths: tuple[int, ...],
    block: Callable[[_Graph, str, int, int], str],
    expansion: int,
    seed: int,
) -> ModelProto:
    graph = _Graph()
    data = graph.node("Relu", [graph.conv("input", 64, 7, 2)])
    data = graph.max_pool(data, 3, 2, 1)
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for position in range(depth):
            stride = 2 if stage and not position else 1
            shortcut = data
            if stride > 1 or graph.channels(data) != width * expansion:
                shortcut = graph.conv(data, width * expansion, 1, stride)
            branch = block(graph, data, width, stride)
            data = graph.node("Relu", [graph.node("Add", [branch, shortcut])])
    return graph.model(graph.classifier(data), name, seed)


def vgg16(seed: int = 0) -> ModelProto:
    """VGG-16."""
    graph = _Graph()
    data = "input"
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            data = graph.node("Relu", [graph.conv(data, width, 3)])
        data = graph.max_pool(data, 2, 2)
    data = graph.node("Flatten", [data])
    for features in (512 * 7 * 7, 4096):
        data = graph.node("Relu", [graph.dense(data, features, 4096)])
    return graph.model(graph.dense(data, 4096, CLASSES), "vgg16", seed)


def mobilenet_v2(seed: int = 0) -> ModelProto:
    """MobileNet v2: inverted residuals with depthwise convolutions, clipped at 6."""
    graph = _Graph()
    limits = [
        numpy_helper.from_array(np.array(value, np.float32), name)
        for name, value in (("zero", 0), ("six", 6))
    ]

    def clipped(data: str) -> str:
        return graph.node("Clip", [data, "zero", "six"])

    data = clipped(graph.conv("input", 32, 3, 2))
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, filters, repeats, first_stride in settings:
        for position in range(repeats):
            stride = 1 if position else first_stride
            hidden, width = data, graph.channels(data) * expansion
            if expansion > 1:
                hidden = clipped(graph.conv(hidden, width, 1))
            hidden = clipped(graph.conv(hidden, width, 3, stride, groups=width))
            hidden = graph.conv(hidden, filters, 1)
            residual = stride == 1 and graph.channels(data) == filters
            data = graph.node("Add", [hidden, data]) if residual else hidden
    data = clipped(graph.conv(data, 1280, 1))
    graph.weights += limits
    return graph.model(graph.classifier(data), "mobilenet_v2", seed)


def light(name: str, seed: int = 0) -> ModelProto:
    """One of the Model Zoo graphs that the ``onnx`` package ships without weights, with random ones."""
    return randomize(onnx.load(str(LIGHT / f"light_{name}.onnx")), seed)


MAKERS: dict[str, Callable[[int], ModelProto]] = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "resnet152": resnet152,
    "vgg16": vgg16,
    "mobilenet_v2": mobilenet_v2,
    **{name: partial(light, name) for name in ("squeezenet", "inception_v1", "inception_v2", "densenet121")},
}
