"""A coordinator starts and plans kernels without what only builds, readers and other services use."""

from __future__ import annotations

import subprocess
import sys

_START = """
import sys

from server.app import create_app
from server.settings import Settings

create_app(Settings())
heavy = {"tvm", "tvm_ffi", "onnx", "onnxruntime", "httpx", "redis", "pandas", "typer", "dask.array",
         "dask.dataframe", "compiler.load", "compiler.intake.extract", "tuner.backend.apply"}
print(sorted(heavy & sys.modules.keys()))
"""
_PLAN = """
import random

import numpy as np

from kernels import registry
from kernels.numerics import Numerics
from kernels.reference import random_inputs
from kernels.target import CATALOGUE
from kernels.workload.base import *

SAME = {"pad": (1, 1, 1, 1)}
BYTES = {"weight_range": (-63, 63)}
DEPTHWISE, POINTS = Conv2d(1, 32, 12, 12, 32, 3, 3, groups=32, **SAME), Conv2d(1, 32, 12, 12, 32, 1, 1)
QDEPTHWISE = QConv2d(1, 12, 12, 32, 32, 3, 3, groups=32, **SAME, **BYTES)
QPOINTS = QConv2d(1, 12, 12, 32, 32, 1, 1, **BYTES)
ROWS = View((32,), 4, 1)
WORKLOADS = [
    DEPTHWISE,
    POINTS,
    *(Conv2d(1, 16, 12, 12, 16, 3, 3, groups=groups, epilogue=Epilogue(True, True)) for groups in (1, 4)),
    Conv2d(1, 3, 12, 12, 16, 3, 3, epilogue=Epilogue(True, activation=Activation("gelu"))),
    Conv2d(1, 16, 12, 48, 16, 1, 5),
    Gemm(8, 64, 32, epilogue=Epilogue(bias=True)),
    NarrowGemm(2, 64, 64, 4, 32, rounded=True),
    NarrowGemm(2, 64, 64, 16),
    MatMul((2,), 8, 16, 4, ROWS, View((64,), 16, 1), View((128,), 16, 1)),
    Attention((2,), 8, 8, 4, 4, ROWS, View((32,), 1, 4), ROWS, ROWS),
    ConvChain(POINTS, POINTS),
    ConvChain(POINTS, DEPTHWISE),
    ConvChain(DEPTHWISE, POINTS),
    QDEPTHWISE,
    QPOINTS,
    *(QConv2d(1, 12, 12, 32, 32, 3, 3, groups=groups, **SAME, **BYTES) for groups in (1, 4)),
    QConv2d(1, 1, 8, 32, 32, 1, 1, out_dtype="float32", **BYTES),
    QConvChain(QPOINTS, QPOINTS),
    QConvChain(QPOINTS, QDEPTHWISE),
    QConvChain(QDEPTHWISE, QPOINTS),
]
planned, rng = set(), np.random.default_rng(1)
for name in ("x86-avx512", "rpi4", "rpi5", "power10", "hexagon-v68"):
    target = CATALOGUE[name]
    for workload in WORKLOADS:
        registry.why_not_tunable(workload, target)
        registry.recommendations(workload, target)
        inputs = random_inputs(workload, rng)
        for space in registry.search_space(workload, target, Numerics.RELAXED, 4, any_layout=True).spaces:
            kernel, config = registry.kernel(space.kernel), space.sample(random.Random(1))
            assert kernel.predict(workload, config, target, 4) > 0
            kernel.residents(workload, config, target)
            kernel.constants(workload, config, target, inputs)
            kernel.suited(workload, config, target, 4, inputs[1])
            planned.add(space.kernel)
print(sorted(registry.all_kernels().keys() - planned), sorted({"tvm", "tvm_ffi"} & sys.modules.keys()))
"""


def test_a_coordinator_starts_and_every_kernel_is_planned_without_tvm() -> None:
    command = [sys.executable, "-c", _START + _PLAN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "[]\n[] []\n", done.stdout + done.stderr
