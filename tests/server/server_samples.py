"""Small models and records for the tests of the service."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kernels.space import Config
from kernels.target import CATALOGUE, Target
from kernels.workload.base import Gemm, Workload
from tuner.log.record import Record

TARGET = CATALOGUE["x86-avx2"]
OTHER = CATALOGUE["x86-avx512"]


def record(number: int, workload: Workload | None = None, target: Target = TARGET, **more: Any) -> Record:
    """A record of a config called ``number``; it took ``number`` microseconds unless it failed."""
    if "error" not in more:
        more.setdefault("cost_s", number * 1e-6)
    more.setdefault("created", "2026-01-01T00:00:00+00:00")
    workload = workload or Gemm(m=8, n=8, k=8)
    return Record(workload, target, Config.of("test", point=number), kernel_version=1, **more)


def conv_model(shape: tuple[int | str, ...] = (1, 3, 8, 8), channels: int = 4) -> bytes:
    """A convolution with relu, then the same shape of convolution twice over, as an ONNX file."""
    rng = np.random.default_rng(0)

    def weight(name: str, *dims: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "conv0", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu0"),
        helper.make_node("Conv", ["b", "w1"], ["c"], "conv1", kernel_shape=[1, 1]),
        helper.make_node("Conv", ["c", "w2"], ["y"], "conv2", kernel_shape=[1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], channels, 8, 8])],
        [weight("w0", channels, 3, 3, 3)] + [weight(f"w{i}", channels, channels, 1, 1) for i in (1, 2)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()
