"""Depthwise quantized convolution on Arm: instructions, edges, and how the data come near."""

import re
from dataclasses import replace

import numpy as np
import pytest
from on_targets import RPI4, assembly_of

from kernels import registry
from kernels.space import Config
from kernels.workload.base import QConv2d

KERNEL = registry.kernel("qdepthwise")
CONV = QConv2d(
    1, 20, 20, 64, 64, 3, 3, pad=(1, 1, 1, 1), groups=64, data_dtype="int8", out_dtype="int8", data_zero=4,
    out_zero=-3, weight_range=(-127, 127), scale="small",
)  # fmt: skip
KNOBS = {"band": 20, "chunk": 64, "edges": "along", "multiply": "pairs", "requant": "high", "stage": "none"}


def assembly(conv, **knobs):
    config = Config.of("qdepthwise", **{**KNOBS, **knobs})
    assert KERNEL.space(conv, RPI4).why_not(config) is None
    return assembly_of(KERNEL, conv, config, RPI4)


@pytest.mark.parametrize(("stride", "tile"), [(1, 4), (2, 2)])
def test_a_tile_is_its_products_sums_and_scaling(stride, tile):
    """Nine products a window, of which four are chained, and nothing that constants could hold instead."""
    text = assembly(replace(CONV, stride=(stride, stride)), tile=tile, band=20 // stride)
    loop = max(re.split(r"\n(?=\.LBB)", text), key=lambda block: len(re.findall(r"\ssmull\s", block)))

    def count(names):
        return len(re.findall(rf"\s(?:{names})\s", loop))

    assert (count("smull"), count("smlal")) == (5 * tile, 4 * tile)
    assert count("saddw|saddw2") == 10 * tile
    assert (count("sqdmulh"), count("srshl")) == (2 * tile, 2 * tile)
    assert count("neg|smin|mul|sshll") == 0
    assert "[sp" not in loop
    columns = (tile - 1) * stride + 3
    assert count("ldr|ldp|ldur") <= 9 + 3 * columns + 6


def test_weights_of_seven_bits_are_added_by_threes():
    seven = replace(CONV, weight_range=(-64, 64))
    text = assembly(seven, tile=4, multiply="threes")
    loop = max(re.split(r"\n(?=\.LBB)", text), key=lambda block: len(re.findall(r"\ssmull\s", block)))
    counts = [len(re.findall(rf"\s(?:{names})\s", loop)) for names in ("smull", "smlal", "saddw|saddw2")]
    assert counts == [3 * 4, 6 * 4, 6 * 4]
    eight = KERNEL.space(CONV, RPI4).why_not(Config.of("qdepthwise", **{**KNOBS, "multiply": "threes"}))
    assert eight is not None


def test_lines_are_touched_ahead_only_where_asked():
    touches = r"\sldrb\s+wzr, \[x\d+"
    assert re.search(touches, assembly(CONV, tile=2, stage="touch"))
    assert not re.search(touches, assembly(CONV, tile=2))


def test_what_is_no_point_of_the_space():
    def reason(conv=CONV, **knobs):
        return KERNEL.space(conv, RPI4).why_not(Config.of("qdepthwise", **{**KNOBS, "tile": 2, **knobs}))

    assert reason() is None
    assert reason(stage="touch", chunk=32) == "parts of the channels lie in no row of lines"
    assert reason(stage="band") == "there are no edges"
    assert reason(band=2) == "bands are of copied rows"
    assert reason(replace(CONV, pad=(0, 0, 0, 0)), band=18) == "there are no edges"
    large = replace(CONV, kh=7, kw=7, pad=(3, 3, 3, 3))
    assert reason(large) is None
    assert "unrolled taps are too many" in reason(large, tile=6)


def test_shifts_are_stored_as_they_are_used():
    config = Config.of("qdepthwise", **{**KNOBS, "tile": 2})
    rng = np.random.default_rng(2)
    data = np.zeros(CONV.data_shape, np.int8)
    weights = rng.integers(-127, 128, CONV.weight_shape, dtype=np.int8)
    bias = np.zeros(64, np.int32)
    scale = [np.full(64, 1 << 30, np.int32), rng.integers(2, 20, 64, dtype=np.int32)]
    shifts = KERNEL.constants(CONV, config, RPI4, [data, weights, bias, *scale])[3]
    assert np.array_equal(shifts[:64], -scale[1])
    power = replace(CONV, scale="power")
    by_power = Config.of("qdepthwise", **{**KNOBS, "tile": 2, "requant": "shift"})
    shifts = KERNEL.constants(power, by_power, RPI4, [data, weights, bias, *scale])[3]
    assert np.array_equal(shifts[:64], -scale[1] - 1)
