"""Direct quantized convolution on x86: to the last bit on odd shapes, and the instructions wanted."""

import dataclasses
import random
import re
from pathlib import Path

import numpy as np
import pytest
from on_targets import AVX2, AVX512, assembly_of
from qguarded import quanta_off

from kernels.int8.reference import random_inputs
from kernels.int8.x86.direct.kernel import QuantizedDirect
from kernels.int8.x86.instructions import PARTS, WIDE, ways
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, QConv2d

KERNEL = QuantizedDirect()
AVXVNNI = dataclasses.replace(AVX2, features=("+avxvnni",))
VNNI512 = dataclasses.replace(AVX512, features=("+avx512vnni",))
NEEDS_VNNI = pytest.mark.skipif(
    "avx512_vnni" not in Path("/proc/cpuinfo").read_text(), reason="this machine has no VNNI of 512 bits"
)
NARROW = (-64, 64)
ODD = [
    QConv2d(1, 1, 1, 1, 1, 1, 1),
    QConv2d(1, 8, 8, 16, 32, 3, 3, pad=(1, 1, 1, 1), data_zero=7, out_zero=3, scale="small"),
    QConv2d(2, 7, 6, 6, 20, 3, 2, (2, 1), (1, 0, 2, 1), (1, 2), 2, "int8", "uint8", "int8", -3, 130, 5),
    QConv2d(1, 9, 9, 3, 5, 7, 7, (2, 2), (3, 3, 3, 3), data_zero=128, weight_range=NARROW),
    QConv2d(1, 5, 5, 8, 17, 1, 1, weight_range=NARROW, scale="power", out_dtype="int8", out_zero=-4),
    QConv2d(1, 5, 6, 8, 16, 1, 1, (2, 2), weight_range=NARROW, out_dtype="int32", data_dtype="int8"),
    QConv2d(1, 11, 7, 5, 36, 3, 3, (1, 2), (0, 2, 1, 0), per_channel=False, scale="small", clamp=(9, 200)),
    QConv2d(1, 12, 5, 4, 9, 3, 3, pad=(2, 2, 2, 2), dilation=(2, 2), weight_range=NARROW, weight_zero=0),
    QConv2d(3, 37, 1, 50, 41, 1, 1, data_zero=3, out_zero=250, scale="small"),  # a matrix product
    QConv2d(1, 6, 6, 24, 48, 1, 3, pad=(0, 1, 0, 1), groups=3, weight_range=NARROW, scale="small"),
]


def exact(space):
    """``space`` without what may be one off."""
    return [config for config in space if KERNEL.why_inexact(None, config) is None]


@pytest.mark.parametrize("target", [AVX2, pytest.param(VNNI512, marks=NEEDS_VNNI)], ids=["avx2", "vnni"])
@pytest.mark.parametrize("conv", ODD, ids=str)
def test_odd_shapes_are_right_to_the_last_bit(conv, target):
    """The recommended config, and random points of the space, on one thread and on three."""
    rng = random.Random(f"{conv.key}{target.name}")
    for point in [KERNEL.recommend(conv, target), rng.choice(exact(KERNEL.space(conv, target)))]:
        assert quanta_off(KERNEL, conv, point, target) == 0, point
    shared = exact(KERNEL.space(conv, target, threads=3))
    for split in {config["split"] for config in shared}:
        point = rng.choice([config for config in shared if config["split"] == split])
        assert quanta_off(KERNEL, conv, point, target, threads=3) == 0, point


def test_what_is_not_exact_is_at_most_one_off():
    conv = dataclasses.replace(ODD[1], scale="any")
    point = next(c for c in KERNEL.space(conv, AVX2) if c["requant"] == "int32")
    assert "round" in KERNEL.why_inexact(conv, point)
    assert KERNEL.tolerance_of(conv, point) == 1
    assert max(quanta_off(KERNEL, conv, point, AVX2, seed=seed) for seed in range(6)) == 1


@pytest.mark.parametrize("multiply", ["bytes", "sixes", "eights", "twos", "fours"])
@pytest.mark.parametrize("data", ["int8", "uint8"])
def test_bytes_hold_at_the_ends_of_the_proven_range(data, multiply):
    """All data and weights at their ends, where vpmaddubsw saturates if it ever does."""
    known = None if multiply in WIDE else NARROW
    conv = QConv2d(1, 4, 4, 32, 16, 1, 1, data_dtype=data, out_dtype="int32", weight_range=known)
    point = next(c for c in KERNEL.space(conv, AVX2) if c["multiply"] == multiply)
    for seed in range(8):
        assert quanta_off(KERNEL, conv, point, AVX2, seed=seed) == 0


def test_ways_that_the_range_of_weights_does_not_prove_are_not_there():
    conv = dataclasses.replace(ODD[4], weight_range=None)
    for unproven in (None, (-65, 64), (-64, 65)):
        found = ways(dataclasses.replace(conv, weight_range=unproven), AVX2)
        assert [way.name for way in found] == ["words", "twos", "fours"]
    assert [way.name for way in ways(ODD[4], AVX2)] == ["words", "bytes", "sixes", "eights"]
    point = next(c for c in KERNEL.space(ODD[4], AVX2) if c["multiply"] == "bytes")
    assert "multiply=bytes" in KERNEL.space(conv, AVX2).why_not(point)
    # Weights that the workload excludes never reach the code.
    inputs = random_inputs(ODD[4], np.random.default_rng(0))
    inputs[1][0, 0, 0, :2] = -64, 65
    with pytest.raises(ValueError, match="from -64 to 64, got -64 to 65"):
        KERNEL.constants(ODD[4], point, AVX2, inputs)
    # With a zero point weights of uint8 need nine bits.
    wide = dataclasses.replace(conv, weight_dtype="uint8", weight_zero=100)
    assert [way.name for way in ways(wide, AVXVNNI)] == ["words"]
    assert [way.name for way in ways(conv, AVXVNNI)] == ["vnni"]


@pytest.mark.parametrize(
    ("target", "multiply", "wanted"),
    [
        (AVX2, "words", r"vpmaddwd\s.*%ymm"),
        (AVX2, "bytes", r"vpmaddubsw\s.*%ymm"),
        (AVX2, "sixes", r"vpmaddubsw\s.*%ymm"),
        (AVX2, "eights", r"vpmaddubsw\s.*%ymm"),
        (AVX512, "words", r"vpmaddwd\s.*%zmm"),
        (AVX512, "bytes", r"vpmaddubsw\s.*%zmm"),
        (AVXVNNI, "vnni", r"\{vex\}\s*vpdpbusd\s.*%ymm"),
        (VNNI512, "vnni", r"vpdpbusd\s.*%zmm"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_instructions_wanted_are_in_the_loop_and_sums_in_registers(target, multiply, wanted):
    block = "8x1" if multiply in PARTS else "4x2"
    conv = QConv2d(1, 14, 14, 64, 64, 3, 3, pad=(1, 1, 1, 1), weight_range=NARROW, scale="small")
    point = Config.of(
        "qdirect", multiply=multiply, block=block, rows=14, order="ws", prefetch=0, requant="high"
    )
    assembly = assembly_of(KERNEL, conv, point, target)
    loop = r"\n(?P<label>\.LBB\w+):((?:(?!\n\.LBB).)*?)\bj\w+\s+(?P=label)\n"
    bodies = [body for _, body in re.findall(loop, assembly, re.DOTALL)]
    # Eight sums, once or unrolled.
    counts = [len(re.findall(wanted, body)) for body in bodies]
    hot = [body for body, count in zip(bodies, counts, strict=True) if count and count % 8 == 0]
    assert hot, assembly
    assert not any("(%rsp)" in line and "mm" in line for body in hot for line in body.splitlines())
    if multiply in PARTS:
        widened = [len(re.findall(r"vpmaddwd", body)) for body in hot]
        assert PARTS[multiply] in [len(re.findall(wanted, b)) / w for b, w in zip(hot, widened, strict=True)]


def test_what_it_cannot_compute():
    assert KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3), AVX2) == "computes qconv2d, not conv2d"
    assert KERNEL.why_not(ODD[1], CATALOGUE["rpi4"]) == "for x86-64"
    assert "AVX2" in KERNEL.why_not(ODD[1], dataclasses.replace(AVX2, cpu="x86-64-v2", vector_bits=128))
    assert "fewer filters" in KERNEL.why_not(QConv2d(1, 4, 4, 8, 8, 3, 3, groups=8), AVX2)
