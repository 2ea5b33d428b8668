"""Winograd of 8-bit integers: as exact as the direct sum."""

import dataclasses
import random
import re

import numpy as np
import pytest
import tvm
from on_targets import AVX2, AVX512, assembly_of
from qguarded import quanta_off

from kernels.emit.compile import compile_module
from kernels.int8.reference import reference
from kernels.int8.x86.winograd.kernel import QuantizedWinograd
from kernels.int8.x86.winograd.plan import MOST_SLABS, TILES, slabs_of, why_tile_inexact
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

KERNEL = QuantizedWinograd()
MOST_4X2 = 910
ODD = [
    QConv2d(1, 1, 1, 1, 1, 3, 3, pad=(1, 1, 1, 1)),
    QConv2d(1, 8, 8, 16, 32, 3, 3, pad=(1, 1, 1, 1), data_zero=7, out_zero=3, scale="small"),
    QConv2d(2, 7, 9, 6, 20, 3, 3, (1, 1), (1, 0, 2, 1), (1, 1), 1, "int8", "uint8", "int8", -3, 130, 5),
    QConv2d(1, 9, 9, 3, 5, 3, 3, data_zero=128, per_channel=False, clamp=(7, 240)),
    QConv2d(1, 5, 5, 33, 17, 3, 3, pad=(2, 2, 2, 2), scale="power", out_dtype="int8", out_zero=-4),
    QConv2d(1, 33, 35, 8, 24, 3, 3, out_dtype="int32", data_dtype="int8"),
    QConv2d(1, 6, 3, MOST_4X2, 9, 3, 3, pad=(1, 1, 1, 1), scale="small"),  # sums use almost all of int32
]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("conv", ODD, ids=str)
def test_odd_shapes_are_right_to_the_last_bit(conv, tile):
    """Random points of each tile, on one thread or on three."""
    rng = random.Random(conv.key + tile)
    if tile == "4x4" and why_tile_inexact(conv, tile) is not None:
        assert conv.in_c == MOST_4X2
        return
    threads = (1, 3)[(ODD.index(conv) + TILES.index(tile)) % 2]
    every = [point for point in KERNEL.space(conv, AVX2, threads=threads) if point["tile"] == tile]
    point = rng.choice([point for point in every if KERNEL.why_inexact(conv, point) is None])
    assert quanta_off(KERNEL, conv, point, AVX2, threads=threads) == 0, point


@pytest.mark.parametrize(
    ("data", "range_", "most"),
    [
        ("uint8", (-64, 64), {"2x2": 7281, "4x2": 1820, "4x4": 455}),
        ("int8", (-64, 64), {"2x2": 7281, "4x2": 1820, "4x4": 455}),
        ("uint8", (-127, 127), {"2x2": 3669, "4x2": 917, "4x4": 229}),
        ("uint8", (-128, 127), {"2x2": 3640, "4x2": 910, "4x4": 227}),
    ],
)
def test_tiles_are_there_only_where_their_numbers_fit(data, range_, most):
    """The proof is tight: one more channel, and a sum may lose its highest bit unless it is split."""
    for tile, channels in most.items():
        conv = QConv2d(1, 5, 5, channels, 8, 3, 3, data_dtype=data, weight_range=range_)
        assert slabs_of(conv, tile) == 1
        assert why_tile_inexact(conv, tile) is None
        assert slabs_of(dataclasses.replace(conv, in_c=channels + 1), tile) == 2
        pairs = dataclasses.replace(conv, in_c=MOST_SLABS * (channels // 2 * 2))
        assert slabs_of(pairs, tile) == MOST_SLABS
        assert why_tile_inexact(pairs, tile) is None
        more = dataclasses.replace(pairs, in_c=pairs.in_c + 1)
        assert "may not fit int32" in why_tile_inexact(more, tile)
    assert {point["tile"] for point in KERNEL.space(conv, AVX2)} == set(TILES)
    far = dataclasses.replace(conv, weight_dtype="uint8", weight_range=None, in_c=1)
    assert "not fit int16" in why_tile_inexact(far, "4x4")
    assert "4x4" not in {point["tile"] for point in KERNEL.space(far, AVX2)}


@pytest.mark.parametrize(
    ("order", "split"), [("points", "bands"), ("filters", "bands"), ("points", "blocks")]
)
@pytest.mark.parametrize("channels", [229, 301, 900])
def test_channels_in_slabs(channels, order, split):
    """Two, three and four with a shorter last one and half a pair, and filters that no vector divides."""
    conv = QConv2d(1, 6, 11, channels, 13, 3, 3, pad=(1, 1, 1, 1), data_zero=9, scale="small")
    assert slabs_of(conv, "4x4") == -(-channels // 226) > 1
    threads = 3 if split == "blocks" else 1
    wanted = {"tile": "4x4", "order": order} | ({"split": split} if threads > 1 else {})
    every = KERNEL.space(conv, AVX2, threads=threads)
    point = next(point for point in every if all(point[name] == value for name, value in wanted.items()))
    assert quanta_off(KERNEL, conv, point, AVX2, threads=threads) == 0


@pytest.mark.parametrize(
    ("tile", "channels"),
    [("4x4", 227), ("4x4", 904), ("4x2", 910), ("2x4", 910), ("2x4", 1820), ("2x2", 3640)],
)
def test_the_largest_sums_come_out(tile, channels):
    """As many channels as fit, every number at the end of its range: any bit too few would show."""
    conv = QConv2d(1, 4, 4, channels, 8, 3, 3, out_dtype="int32")
    point = next(point for point in KERNEL.space(conv, AVX2) if point["tile"] == tile)
    function = compile_module(KERNEL.build(conv, point, AVX2, 1, "main"), AVX2)["main"]
    ends = np.array([-128, 127], np.int8)
    weights = np.broadcast_to(ends[np.arange(8) % 2], conv.weight_shape).copy()
    weights[..., 2:] = ends[np.random.default_rng(1).integers(0, 2, (3, 3, channels, 6))]
    for data in (0, 255):
        inputs = [np.full(conv.data_shape, data, np.uint8), weights, np.zeros(8, np.int32)]
        out = tvm.runtime.tensor(np.zeros(conv.out_shape, np.int32))
        arrays = [inputs[0], *KERNEL.constants(conv, point, AVX2, inputs)]
        function(*map(tvm.runtime.tensor, arrays), out)
        assert np.array_equal(out.numpy(), reference(conv, inputs))


def test_deep_layers_of_few_tiles_get_the_largest_ones():
    """A build without tuning takes the analysis's config: 4x4 in two slabs is the fastest there."""
    conv = QConv2d(1, 7, 7, 512, 512, 3, 3, pad=(1, 1, 1, 1), scale="small", weight_range=(-64, 64))
    point = KERNEL.recommend(conv, AVX2)
    assert slabs_of(conv, "4x4") == 2
    assert (point["tile"], point["order"], point["prefetch"]) == ("4x4", "points", 1)


def test_what_it_cannot_compute():
    conv = ODD[1]
    assert KERNEL.why_not(conv, AVX2) is None
    assert "3x3" in KERNEL.why_not(dataclasses.replace(conv, stride=(2, 2)), AVX2)
    assert "3x3" in KERNEL.why_not(dataclasses.replace(conv, kw=1, pad=(0, 0, 0, 0)), AVX2)
    assert KERNEL.why_not(dataclasses.replace(conv, groups=2), AVX2) == "grouped"
    assert KERNEL.why_not(conv, CATALOGUE["rpi4"]) == "for x86-64"
    assert "may not fit int32" in KERNEL.why_not(dataclasses.replace(conv, in_c=4 * 4096), AVX2)


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_it_multiplies_pairs_of_int16(target, register):
    conv = dataclasses.replace(ODD[1], in_c=64, out_c=64)
    assembly = assembly_of(KERNEL, conv, KERNEL.recommend(conv, target), target)
    assert len(re.findall(rf"vpmaddwd\s.*%{register}", assembly)) >= 8
    assert "prefetch" not in assembly or KERNEL.recommend(conv, target)["prefetch"]


@pytest.mark.parametrize(("base", "feature"), [(AVX2, "+avxvnni"), (AVX512, "+avx512vnni")])
def test_where_there_is_vnni_multiplying_and_adding_are_one_instruction(base, feature):
    """LLVM sees to that; the code is not run here."""
    target = dataclasses.replace(base, features=(feature,))
    conv = dataclasses.replace(ODD[1], in_c=64, out_c=64)
    assembly = assembly_of(KERNEL, conv, KERNEL.recommend(conv, target), target)
    assert len(re.findall(r"vpdpwssd\s", assembly)) >= 8
    assert "vpmaddwd" not in assembly
