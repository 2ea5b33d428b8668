"""Graph makers for whole-model benches: the usual networks as ONNX, with seeded random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

from bench.graph import CLASSES, Graph
from bench.inception import inception_v3
from bench.random_weights import randomize

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def resnet18(seed: int = 0) -> ModelProto:
    """ResNet-18: basic blocks of two 3x3 convolutions."""

    def block(graph: Graph, data: str, width: int, stride: int) -> str:
        hidden = graph.node("Relu", [graph.conv(data, width, 3, stride)])
        return graph.conv(hidden, width, 3)

    return _resnet("resnet18", (2, 2, 2, 2), block, 1, seed)


def resnet50(seed: int = 0) -> ModelProto:
    """ResNet-50: bottleneck blocks, the stride in the 3x3."""
    return _resnet("resnet50", (3, 4, 6, 3), _bottleneck, 4, seed)


def resnet152(seed: int = 0) -> ModelProto:
    """ResNet-152: bottleneck blocks, the stride in the 3x3."""
    return _resnet("resnet152", (3, 8, 36, 3), _bottleneck, 4, seed)


def _bottleneck(graph: Graph, data: str, width: int, stride: int) -> str:
    hidden = graph.node("Relu", [graph.conv(data, width, 1)])
    hidden = graph.node("Relu", [graph.conv(hidden, width, 3, stride)])
    return graph.conv(hidden, 4 * width, 1)


def _resnet(
    name: str,
    depths: tuple[int, ...],
    block: Callable[[Graph, str, int, int], str],
    expansion: int,
    seed: int,
) -> ModelProto:
    graph = Graph()
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
    graph = Graph()
    data = "input"
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            data = graph.node("Relu", [graph.conv(data, width, 3)])
        data = graph.max_pool(data, 2, 2)
    data = graph.node("Flatten", [data])
    for features in (512 * 7 * 7, 4096):
        data = graph.node("Relu", [graph.dense(data, features, 4096)])
    return graph.model(graph.dense(data, 4096, CLASSES), "vgg16", seed)


def mobilenet_v1(seed: int = 0) -> ModelProto:
    """MobileNet v1: depthwise 3x3 and pointwise convolutions in turns."""
    graph = Graph()
    data = graph.node("Relu", [graph.conv("input", 32, 3, 2)])
    settings = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 6, 2), (1024, 2, 2))
    for filters, repeats, first_stride in settings:
        for position in range(repeats):
            channels, stride = graph.channels(data), 1 if position else first_stride
            data = graph.node("Relu", [graph.conv(data, channels, 3, stride, groups=channels)])
            data = graph.node("Relu", [graph.conv(data, filters, 1)])
    return graph.model(graph.classifier(data), "mobilenet_v1", seed)


BOTTLENECKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Of MobileNet v2: expansion, filters, how many, stride of the first."""


def mobilenet_v2(seed: int = 0) -> ModelProto:
    """MobileNet v2: inverted residuals with depthwise convolutions, clipped at 6."""
    graph = Graph()
    limits = [
        numpy_helper.from_array(np.array(value, np.float32), name)
        for name, value in (("zero", 0), ("six", 6))
    ]

    def clipped(data: str) -> str:
        return graph.node("Clip", [data, "zero", "six"])

    data = clipped(graph.conv("input", 32, 3, 2))
    for expansion, filters, repeats, first_stride in BOTTLENECKS:
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
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "inception_v3": inception_v3,
    **{name: partial(light, name) for name in ("squeezenet", "inception_v1", "inception_v2", "densenet121")},
}
