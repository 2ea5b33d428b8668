"""A detector as YOLOv8 exports it, with random weights, for those who have none at hand.

``python -m bench.detector detector.onnx``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from bench.graph import Graph

CLASSES = 80
BINS = 16
"""A side of a box is the mean of so many distances, weighted by a softmax."""


def detector(size: int = 320, width: int = 16, stages: int = 4, seed: int = 0) -> ModelProto:
    """``images`` (1, 3, size, size) to ``output0`` (1, 4 + CLASSES, boxes): corners' distances and scores.

    ``width`` channels at half the size, twice as many after each of ``stages``; the last three of these have
    heads.
    """
    graph, levels = Graph(size), list[str]()
    data = _conv(graph, "input", width, 3, 2)
    for stage in range(1, stages + 1):
        data = _block(graph, _conv(graph, data, width << stage, 3, 2), width << stage)
        levels.append(data)
    levels[-1] = _pooled(graph, levels[-1])
    levels = levels[-3:]
    for at in range(len(levels) - 2, -1, -1):
        up = graph.node("Resize", [levels[at + 1], "", graph.constant([1.0, 1.0, 2.0, 2.0])], mode="nearest")
        levels[at] = _block(graph, graph.concat([up, levels[at]]), graph.channels(levels[at]))
    for at in range(1, len(levels)):
        down = _conv(graph, levels[at - 1], graph.channels(levels[at - 1]), 3, 2)
        levels[at] = _block(graph, graph.concat([down, levels[at]]), graph.channels(levels[at]))
    sides = _heads(graph, levels, 4 * BINS)
    weights = graph.node("Reshape", [sides, graph.constant([1, 4, BINS, -1], np.int64)])
    weights = graph.node("Softmax", [graph.node("Transpose", [weights], perm=[0, 2, 1, 3])], BINS, axis=1)
    steps = graph.constant(np.arange(BINS).reshape(1, BINS, 1, 1))
    mean = graph.node("Conv", [weights, steps], 1)
    boxes = graph.node("Reshape", [mean, graph.constant([1, 4, -1], np.int64)], 4)
    scores = graph.node("Sigmoid", [_heads(graph, levels, CLASSES)], CLASSES)
    graph.concat([boxes, scores])
    graph.nodes[-1].output[0] = "output0"
    places = sum((size >> (stage + 1)) ** 2 for stage in range(1, stages + 1)[-3:])
    return _renamed(graph.model("output0", "detector", seed, (1, 4 + CLASSES, places)))


def _conv(graph: Graph, data: str, filters: int, kernel: int, stride: int = 1) -> str:
    out = graph.conv(data, filters, kernel, stride)
    return graph.node("Mul", [out, graph.node("Sigmoid", [out])])


def _block(graph: Graph, data: str, width: int) -> str:
    """Half of the channels twice through a bottleneck, then all of them together."""
    left = _conv(graph, data, width // 2, 1)
    right = _conv(graph, data, width // 2, 1)
    inner = _conv(graph, _conv(graph, right, width // 2, 3), width // 2, 3)
    return _conv(graph, graph.concat([left, right, graph.node("Add", [right, inner])]), width, 1)


def _pooled(graph: Graph, data: str) -> str:
    """Maxima of ever larger surroundings beside each other."""
    width = graph.channels(data)
    parts = [_conv(graph, data, width // 2, 1)]
    parts += [graph.max_pool(parts[-1], 5, 1, 2)]
    parts += [graph.max_pool(parts[-1], 5, 1, 2)]
    return _conv(graph, graph.concat(parts), width, 1)


def _heads(graph: Graph, levels: Sequence[str], channels: int) -> str:
    """Two convolutions at each level, and what comes out at all places side by side."""
    outs = []
    for data in levels:
        out = graph.conv(_conv(graph, data, graph.channels(levels[0]), 3), channels, 1)
        outs.append(graph.node("Reshape", [out, graph.constant([1, channels, -1], np.int64)], channels))
    return graph.node("Concat", outs, channels, axis=2)


def _renamed(model: ModelProto) -> ModelProto:
    """The input as exporters call it."""
    model.graph.input[0].name = "images"
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            if name == "input":
                node.input[at] = "images"
    return model


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.detector", description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=320, help="pixels of a side")
    parser.add_argument("--width", type=int, default=16, help="channels behind the first convolution")
    parser.add_argument("--stages", type=int, default=4, help="of the backbone: 1 to 4")
    given = parser.parse_args()
    model = detector(given.size, given.width, given.stages)
    onnx.save(model, given.output)
    print(f"{given.output}: {given.output.stat().st_size / 1e6:.1f} MB, {given.size} pixels")


if __name__ == "__main__":
    main()
