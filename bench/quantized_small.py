"""Networks of a few layers, one for each thing that quantized models are made of; for tests."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto

from bench.graph import Graph

SIDE = 19


def plain(seed: int = 0) -> ModelProto:
    """Convolutions alone, of odd sizes, dilated, grouped, and padded on one side more than on the other."""
    graph = Graph(SIDE)
    data = graph.node("Relu", [graph.conv("input", 11, 3, 2)])
    data = graph.conv(data, 18, (1, 5))
    data = graph.conv(data, 12, 3, groups=3)
    weights = [graph.weight(7, 12, 3, 3), graph.weight(7)]
    data = graph.node("Conv", [data, *weights], channels=7, pads=[1, 2, 3, 0], dilations=[2, 1])
    return graph.model(data, "plain", seed, shape=None)


def residual(seed: int = 0) -> ModelProto:
    """Blocks of ResNet: a sum with the input, a sum with a strided convolution of it, max pooling."""
    graph = Graph(SIDE)
    data = graph.node("Relu", [graph.conv("input", 16, 7, 2)])
    data = graph.max_pool(data, 3, 2, 1)
    same = graph.conv(graph.node("Relu", [graph.conv(data, 16, 3)]), 16, 3)
    data = graph.node("Relu", [graph.node("Add", [same, data])])
    half = graph.conv(graph.node("Relu", [graph.conv(data, 32, 3, 2)]), 32, 3)
    data = graph.node("Add", [half, graph.conv(data, 32, 1, 2)])
    return graph.model(graph.classifier(data), "residual", seed)


def depthwise(seed: int = 0) -> ModelProto:
    """Inverted residuals of MobileNet v3: hard-swish, depthwise convolutions, a sum, a sigmoid at the end."""
    graph = Graph(SIDE)
    data = graph.node("HardSwish", [graph.conv("input", 8, 3, 2)])
    hidden = graph.node("HardSwish", [graph.conv(data, 24, 1)])
    hidden = graph.node("Relu", [graph.conv(hidden, 24, 3, groups=24)])
    data = graph.node("Add", [graph.conv(hidden, 8, 1), data])
    hidden = graph.node("HardSwish", [graph.conv(data, 40, 1)])
    hidden = graph.node("HardSwish", [graph.conv(hidden, 40, 5, 2, groups=40)])
    data = graph.node("Sigmoid", [graph.conv(hidden, 10, 1)])
    return graph.model(data, "depthwise", seed, shape=None)


def gated(seed: int = 0) -> ModelProto:
    """Squeeze and excitation: a block of MobileNet v3, then one of EfficientNet with its swish."""
    graph = Graph(SIDE)

    def gate(data: str, squeezed: int, relu: str, sigmoid: str) -> str:
        mean = graph.node("GlobalAveragePool", [data])
        hidden = graph.node(relu, [graph.conv(mean, squeezed, 1)])
        scale = graph.node(sigmoid, [graph.conv(hidden, graph.channels(data), 1)])
        return graph.node("Mul", [data, scale])

    def swish(data: str) -> str:
        return graph.node("Mul", [data, graph.node("Sigmoid", [data])])

    data = graph.node("HardSwish", [graph.conv("input", 8, 3, 2)])
    hidden = graph.node("HardSwish", [graph.conv(data, 24, 1)])
    hidden = gate(graph.node("Relu", [graph.conv(hidden, 24, 3, groups=24)]), 8, "Relu", "HardSigmoid")
    data = graph.node("Add", [graph.conv(hidden, 8, 1), data])
    hidden = swish(graph.conv(data, 40, 1))
    hidden = gate(swish(graph.conv(hidden, 40, 5, 2, groups=40)), 5, "Sigmoid", "Sigmoid")
    return graph.model(graph.conv(hidden, 12, 1), "gated", seed, shape=None)


def concat(seed: int = 0) -> ModelProto:
    """A block of Inception: branches side by side, average and max pooling."""
    graph = Graph(SIDE)
    data = graph.node("Relu", [graph.conv("input", 12, 3, padded=False)])
    branches = [
        graph.node("Relu", [graph.conv(data, 8, 1)]),
        graph.node("Relu", [graph.conv(graph.conv(data, 6, 1), 10, (7, 1))]),
        graph.node("Relu", [graph.conv(graph.average_pool(data, 3), 5, 1)]),
    ]
    data = graph.concat(branches)
    data = graph.concat([graph.conv(data, 9, 3, 2, padded=False), graph.max_pool(data, 3, 2)])
    return graph.model(graph.classifier(data), "concat", seed)


def dense(seed: int = 0) -> ModelProto:
    """Matrix products with and without bias, and a softmax."""
    graph = Graph(4)
    data = graph.node("Relu", [graph.dense(graph.node("Flatten", ["input"]), 48, 31)])
    data = graph.node("MatMul", [data, graph.weight(31, 17)])
    data = graph.node("Tanh", [data])
    data = graph.node("Softmax", [graph.dense(data, 17, 10)], axis=-1)
    return graph.model(data, "dense", seed, shape=None)


SMALL: dict[str, Callable[[int], ModelProto]] = {
    "plain": plain,
    "residual": residual,
    "depthwise": depthwise,
    "gated": gated,
    "concat": concat,
    "dense": dense,
}
