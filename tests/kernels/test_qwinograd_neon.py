"""The exact Winograd convolution on Arm: what it takes, what it packs, which instructions it becomes."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from on_targets import AVX2, RPI4, assembly_of

from kernels import registry
from kernels.int8.arm.winograd.points import Points
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, QConv2d

KERNEL = registry.kernel("qwinograd_neon")
CONV = QConv2d(1, 9, 11, 12, 20, 3, 3, pad=(1, 1, 1, 1), weight_range=(-127, 127), scale="small")
KNOBS = {
    "rows": 4, "columns": 8, "band": 3, "slab": 1, "filters": 20, "requant": "high", "points": 6, "taps": 3
}  # fmt: skip


def test_what_it_cannot_compute():
    assert KERNEL.why_not(CONV, RPI4) is None
    assert KERNEL.why_not(CONV, AVX2) == "there is no NEON on x86-avx2"
    assert KERNEL.why_not(Conv2d(1, 4, 4, 4, 4, 3, 3), RPI4) == "computes qconv2d, not conv2d"
    for other in ({"stride": (1, 2)}, {"dilation": (2, 1)}, {"out_c": 12, "groups": 12}):
        assert KERNEL.why_not(replace(CONV, **other), RPI4) == "needs stride, dilation and groups of 1"
    assert "taps" in KERNEL.why_not(replace(CONV, kw=2), RPI4)
    assert "taps" in KERNEL.why_not(replace(CONV, kw=1, kh=2), RPI4)
    assert KERNEL.why_not(replace(CONV, kw=1), RPI4) is None
    assert "dot products" in KERNEL.why_not(CONV, CATALOGUE["rpi5"])


def test_algorithms_are_there_only_where_their_numbers_fit():
    """The proof is tight in 32 bits: one more channel, and a sum may lose its highest bit."""

    def algorithms(conv):
        return {(c.int("points"), c.int("taps")) for c in KERNEL.space(conv, RPI4)}

    assert algorithms(CONV) == {(4, 2), (4, 3), (6, 2), (6, 3), (8, 2), (8, 3)}
    most = ((1 << 28) - 1) // (9 * 255 * 127)
    assert (8, 3) in algorithms(replace(CONV, in_c=most))
    assert algorithms(replace(CONV, in_c=most + 1)) == {(4, 2), (4, 3)}
    with pytest.raises(ValueError, match="from -127 to 127, got -128"):
        KERNEL.pack(CONV, Config.of(KERNEL.name, **KNOBS), RPI4, np.full(CONV.weight_shape, -128, np.int8))


def test_filters_are_packed_point_by_point():
    """[point][panel][tap][channel][filter], the last panel narrower, channels filled with zeros."""
    weights = np.random.default_rng(1).integers(-127, 128, CONV.weight_shape, dtype=np.int8)
    packed = KERNEL.pack(CONV, Config.of(KERNEL.name, **KNOBS), RPI4, weights)
    expected = np.einsum("pk,ikcf->picf", Points(6, 3).filters, weights.astype(np.int64))
    by_point = packed.reshape(6, 20 * 3 * 16)
    panels = by_point[:, : 2 * 3 * 16 * 8].reshape(6, 2, 3, 16, 8)
    assert np.array_equal(panels[:, 1, :, :12], expected[..., 8:16])
    assert not panels[:, :, :, 12:].any()
    assert np.array_equal(by_point[:, 2 * 3 * 16 * 8 :].reshape(6, 3, 16, 4)[:, :, :12], expected[..., 16:])


@pytest.mark.parametrize(
    "conv", [CONV, replace(CONV, kw=1, kh=7), replace(CONV, kh=1, kw=5, in_c=3, out_c=1)], ids=str
)
def test_spaces_hold_the_recommendation_and_their_points_pack(conv):
    space = KERNEL.space(conv, RPI4)
    every = list(space)
    for config in (KERNEL.recommend(conv, RPI4), *random.Random(3).sample(every, min(15, len(every)))):
        assert space.why_not(config) is None
        assert KERNEL.predict(conv, config, RPI4) > 0
        assert KERNEL.pack(conv, config, RPI4, np.ones(conv.weight_shape, np.int8)).any()


def test_products_are_by_lane_and_leave_nothing_on_the_stack():
    conv = replace(CONV, in_c=64, out_c=64)
    config = Config.of(KERNEL.name, **{**KNOBS, "rows": 7, "band": 9, "filters": 64, "points": 8})
    assembly = assembly_of(KERNEL, conv, config, RPI4)
    blocks = re.split(r"\n(?=\.LBB)", assembly)
    loop = max(blocks, key=lambda block: len(re.findall(r"\ssmlal\s.*\.h\[\d\]", block)))
    # A step of 7x8 sums by 8 channels, in halves of vectors: a quarter of the registers' width each.
    assert len(re.findall(r"\ssmlal\s+v\d+\.4s, v\d+\.4h, v\d+\.h\[\d\]", loop)) == 7 * 2 * 8
    assert "smlal2" not in loop
    assert not re.findall(r"\[sp", loop)
    assert re.search(r"\smla\s+v\d+\.4s", assembly)  # the way back
