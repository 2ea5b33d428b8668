import random
from dataclasses import replace

import numpy as np
import pytest

from kernels import registry
from kernels.int8.arm.operands import why_not_chained
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, QConv2d

RPI4, RPI5, GRAVITON, X86 = (CATALOGUE[name] for name in ("rpi4", "rpi5", "graviton3", "x86-avx2"))
GEMM, DEPTHWISE = registry.kernel("qgemm"), registry.kernel("qdepthwise")
CONV = QConv2d(1, 9, 9, 20, 13, 3, 3, data_dtype="int8", weight_range=(-127, 127), scale="small")
DEEP = replace(CONV, out_c=20, groups=20)
KNOBS = {"rows": 4, "columns": 4, "rows_from": "tiles", "slab": 1, "requant": "high"}


def test_weights_are_flattened_interleaved_and_block_transposed():
    """The formula of seed 000: panels of [N/4, K/16, 4, 16], the last one narrower, K filled with zeros."""
    config = Config.of("qgemm", block="pairwise", chain=2, **KNOBS)
    weights = np.random.default_rng(1).integers(-127, 128, CONV.weight_shape, dtype=np.int8)
    packed = GEMM.pack(CONV, config, RPI4, weights)
    flat = np.zeros((192, 13), np.int8)  # 180 products a sum, 13 filters
    flat[:180] = weights.reshape(180, 13)
    whole = packed[: 12 * 192].reshape(3, 12, 4, 16)
    for panel, step, z, w in np.ndindex(whole.shape):
        assert whole[panel, step, z, w] == flat[w + 16 * step, z + 4 * panel]
    assert np.array_equal(packed[12 * 192 :], flat[:, 12])
    assert packed.dtype == np.int8


def test_products_are_chained_only_where_the_real_weights_allow_it():
    chained = Config.of("qgemm", block="pairwise", chain=2, **KNOBS)
    any_weights = replace(CONV, weight_range=None)
    assert GEMM.space(CONV, RPI4).why_not(chained) is None
    assert "may not fit 16 bits" in GEMM.space(any_weights, RPI4).why_not(chained)
    weights = np.full(CONV.weight_shape, -128, np.int8)
    with pytest.raises(ValueError, match="from -127 to 127, got -128"):
        GEMM.pack(CONV, chained, RPI4, weights)
    with pytest.raises(ValueError, match="from -127 to 127, got -128"):
        DEPTHWISE.pack(DEEP, DEPTHWISE.recommend(DEEP, RPI4), RPI4, np.full(DEEP.weight_shape, -128, np.int8))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_proof_for_chains_is_tight(dtype):
    """Two products at the ends of the ranges fit 16 bits exactly where the proof says so."""
    data, kind = ((-128, 127), np.int16) if dtype == "int8" else ((0, 255), np.uint16)
    limits = np.iinfo(dtype)
    for low, high in ((-127, 127), (-128, 127), (-128, 0), (-64, 64), (0, 127), (0, 128), (0, 129), (0, 255)):
        if low < limits.min or high > limits.max:
            continue
        conv = replace(CONV, data_dtype=dtype, weight_dtype=dtype, weight_range=(low, high))
        if dtype == "uint8" and low < 0:
            continue
        fits = all(np.iinfo(kind).min <= 2 * x * w <= np.iinfo(kind).max for x in data for w in (low, high))
        assert (why_not_chained(conv) is None) == fits, (low, high)


def test_targets_and_weights_decide_which_blocks_there_are():
    def kinds(conv, target):
        return GEMM.space(conv, target).knobs["block"]

    assert kinds(CONV, RPI4) == ["pairwise", "fours", "lane"]
    assert kinds(replace(CONV, weight_range=None), RPI4) == ["pairwise", "lane"]
    assert kinds(CONV, RPI5) == ["pairwise", "lane", "dot"]
    assert kinds(CONV, GRAVITON) == ["pairwise", "lane", "dot", "matrix"]
    # Weights of nine bits, less their zero point, are products of 16 bits.
    assert kinds(replace(CONV, weight_dtype="uint8", weight_zero=99, weight_range=None), GRAVITON) == ["lane"]
    assert GEMM.why_not(CONV, X86) == "there is no NEON on x86-avx2"
    assert GEMM.why_not(DEEP, RPI4) == "grouped"
    assert DEPTHWISE.why_not(CONV, RPI4) == "not one filter to each channel"
    assert GEMM.why_not(Conv2d(1, 4, 4, 4, 4, 1, 1), RPI4) == "computes qconv2d, not conv2d"


@pytest.mark.parametrize("target", [RPI4, RPI5, GRAVITON], ids=lambda target: target.name)
@pytest.mark.parametrize(
    "conv",
    [
        CONV,
        replace(CONV, kh=1, kw=1, in_c=64),
        DEEP,
        QConv2d(1, 5, 5, 1, 1, 3, 3),
        QConv2d(1, 1, 1, 32, 1, 1, 1),
    ],
    ids=str,
)
def test_spaces_hold_the_recommendation_and_all_their_points_pack(conv, target):
    for kernel in (GEMM, DEPTHWISE):
        if kernel.why_not(conv, target) is not None:
            continue
        space = kernel.space(conv, target)
        assert space.why_not(kernel.recommend(conv, target)) is None
        for config in random.Random(3).sample(list(space), min(20, len(list(space)))):
            assert kernel.predict(conv, config, target) > 0
            weights = np.ones(conv.weight_shape, conv.weight_dtype)
            packed = kernel.pack(conv, config, target, weights)
            if dict(config.knobs).get("block") != "fours":  # test_qfours.py
                assert np.count_nonzero(packed) == weights.size


def test_rows_in_place_need_windows_that_lie_in_the_data():
    pointwise = replace(CONV, kh=1, kw=1, in_c=32)
    config = Config.of("qgemm", block="pairwise", chain=2, **{**KNOBS, "rows_from": "data"})

    def reason(conv):
        return GEMM.space(conv, RPI4).why_not(config)

    assert reason(pointwise) is None
    assert "multiple of 16" in reason(replace(pointwise, in_c=24))
    assert "overlap" in reason(replace(pointwise, stride=(2, 2)))
    assert "uint8" in reason(replace(pointwise, data_dtype="uint8"))
    assert GEMM.plan(pointwise, config, RPI4).in_place
