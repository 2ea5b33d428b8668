"""The sums of unrolled taps stay in registers: nothing but them may be on the stack of a hot loop."""

import pytest
from on_targets import assembly_of

from kernels import registry
from kernels.explain.assembly import hot_loop
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d

CONV = Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))
IN_PLACE = {"order": "is", "channels": 32, "k2_halvings": 0, "k3_halvings": 0, "pack": 0}
BLOCK = {"order": "ws", "channels": 64, "windows": 192}


@pytest.mark.parametrize(
    ("target", "kernel", "block", "knobs"),
    [
        ("rpi4", "sconv", "14x2", IN_PLACE),
        ("rpi4", "sconv", "9x3", IN_PLACE),
        ("rpi4", "fconv", "14x2", BLOCK),
        ("power10", "sconv", "14x4", IN_PLACE),
        ("power10", "fconv", "30x2", BLOCK),
        ("x86-avx2", "sconv", "4x3", IN_PLACE),
        ("x86-avx2", "fconv", "4x3", BLOCK),
        ("rpi4", "fconv", "14x2", BLOCK | {"data": "nhwc", "out": "nhwc"}),
        ("rpi4", "fconv", "6x4", BLOCK | {"data": "nchw4c", "out": "nchw4c"}),
        ("power10", "fconv", "14x4", BLOCK | {"data": "nhwc", "out": "nhwc"}),
        ("power10", "fconv", "30x2", BLOCK | {"data": "nchw4c", "out": "nchw4c"}),
        ("x86-avx2", "fconv", "6x2", BLOCK | {"data": "nhwc", "out": "nhwc"}),
        ("x86-avx2", "fconv", "4x3", BLOCK | {"data": "nchw8c", "out": "nchw8c"}),
        ("x86-avx512", "fconv", "9x3", BLOCK | {"data": "nhwc", "out": "nchw16c"}),
        ("riscv-k1", "sconv", "14x2", IN_PLACE),
        ("riscv-k1", "fconv", "9x3", BLOCK),
        ("riscv-k1", "fconv", "6x4", BLOCK | {"data": "nchw8c", "out": "nchw8c"}),
    ],
)
def test_no_vector_is_spilt(target, kernel, block, knobs):
    kind, config = CATALOGUE[target], Config.from_json({"kernel": kernel, "block": block, **knobs})
    one, other = (int(part) for part in block.split("x"))
    text = assembly_of(registry.kernel(kernel), CONV, config, kind)
    loop = hot_loop(text, kind.triple, one * other * kind.lanes())
    assert loop is not None
    assert loop.multiply_adds >= one * other
    assert loop.vector_spills == 0
