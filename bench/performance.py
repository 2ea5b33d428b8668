"""Three small models, each build of which is timed beside ``bench/performance.json`` on a simulated board.

``python -m bench.performance`` makes them and runs ``tilefleet ci``; its arguments may follow (``--update``).
One has floats, one integers, one attention. Seeds and fixed scales make the same bytes on every machine.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bench.graph import OPSET, Graph
from bench.made_models import encoder

BASELINE = Path(__file__).with_name("performance.json")
TARGET = "rpi4"


def main(arguments: Sequence[str]) -> int:
    """Make the models and run the command; its exit code."""
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as name:
        folder = Path(name)
        files = []
        for make in (residual, integers, encoder):
            files.append(str(folder / f"{make.__name__}.onnx"))
            onnx.save(make(), files[-1])
        command = [sys.executable, "-m", "tilefleet", "ci", *files, "--target", TARGET]
        return subprocess.run([*command, "--baseline", BASELINE, *arguments], check=False).returncode


def residual() -> ModelProto:
    """Blocks of ResNet on 64 pixels: 3x3 with and without stride, sums, pools, depthwise and pointwise."""
    graph = Graph(64)
    data = graph.node("Relu", [graph.conv("input", 32, 7, 2)])
    data = graph.max_pool(data, 3, 2, 1)
    same = graph.conv(graph.node("Relu", [graph.conv(data, 32, 3)]), 32, 3)
    data = graph.node("Relu", [graph.node("Add", [same, data])])
    half = graph.conv(graph.node("Relu", [graph.conv(data, 64, 3, 2)]), 64, 3)
    data = graph.node("Relu", [graph.node("Add", [half, graph.conv(data, 64, 1, 2)])])
    data = graph.node("HardSwish", [graph.conv(data, 64, 5, groups=64)])
    data = graph.concat([graph.conv(data, 48, 1), graph.max_pool(data, 3, 1, 1)])
    return graph.model(graph.classifier(data), "residual", 0)


def integers() -> ModelProto:
    """Inverted residuals of MobileNet v2 in bytes, as QDQ: scales are given, not calibrated."""
    net = _Bytes(np.random.default_rng(0))
    data = net.through("input", 0.02)
    data = net.conv(data, 3, 16, 3, stride=2)
    for wide, filters, stride in ((48, 24, 2), (72, 24, 1), (72, 32, 2), (96, 32, 1)):
        channels = net.channels
        hidden = net.conv(data, channels, wide, 1)
        hidden = net.conv(hidden, wide, wide, 3, stride=stride, groups=wide)
        hidden = net.conv(hidden, wide, filters, 1, relu=False)
        if stride == 1 and filters == channels:
            hidden = net.through(net.node("Add", [hidden, data]), 0.03)
        data = hidden
    data = net.through(net.node("GlobalAveragePool", [data]), 0.02)
    return net.model(net.conv(data, net.channels, 100, 1, relu=False), (1, 3, 64, 64))


class _Bytes:
    """A network whose tensors are all quantized."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.channels = rng, 0
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[TensorProto] = []

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """Append a node, named like its result."""
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def through(self, real: str, scale: float) -> str:
        """``real`` rounded to bytes."""
        how = [self._constant(np.float32(scale)), self._constant(np.uint8(128))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [real, *how]), *how])

    def conv(
        self, data: str, of: int, filters: int, size: int, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> str:
        """A convolution of ``of`` channels with bias, its result rounded to bytes."""
        quanta = self.rng.integers(-63, 64, (filters, of // groups, size, size)).astype(np.int8)
        scales = self.rng.uniform(0.5, 1.5, filters).astype(np.float32)
        scales /= np.float32(37 * (of // groups * size * size) ** 0.5)
        zeros = self._constant(np.zeros(filters, np.int8))
        weights = [self._constant(quanta), self._constant(scales), zeros]
        bias = self._constant(self.rng.uniform(-0.2, 0.2, filters).astype(np.float32))
        inputs = [data, self.node("DequantizeLinear", weights, axis=0), bias]
        shape = {"kernel_shape": [size, size], "strides": [stride] * 2, "pads": [size // 2] * 4}
        result = self.node("Conv", inputs, group=groups, **shape)
        self.channels = filters
        return self.through(self.node("Relu", [result]) if relu else result, 0.02)

    def model(self, output: str, shape: Sequence[int]) -> ModelProto:
        """The finished model of one input."""
        kind = TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("input", kind, shape)]
        outputs = [helper.make_tensor_value_info(output, kind, None)]
        graph = helper.make_graph(self._nodes, "integers", inputs, outputs, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def _constant(self, value: np.generic | np.ndarray) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
