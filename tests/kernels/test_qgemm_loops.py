"""The loops around the quantized matrix product on Arm: their order, and the depth in parts."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import registry
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

GEMM, RPI4 = registry.kernel("qgemm"), CATALOGUE["rpi4"]
CONV = QConv2d(1, 3, 11, 1048, 35, 1, 1, data_dtype="int8", out_dtype="int32", weight_range=(-127, 127))
KNOBS = {"block": "fours", "rows": 2, "columns": 8, "chain": 1, "rows_from": "data", "requant": "none"}


def reason(conv, **knobs):
    return GEMM.plan(conv, Config.of("qgemm", **KNOBS | knobs), RPI4).why_not()


def test_spaces_have_orders_and_parts_where_neither_side_stays_near():
    def macro(conv):
        return {name: GEMM.space(conv, RPI4).knobs.get(name) for name in ("order", "split")}

    assert macro(CONV) == {"order": ["windows", "filters"], "split": [1, 2, 4]}
    assert macro(replace(CONV, in_h=30, in_w=30, in_c=512, out_c=128))["split"] is None
    assert macro(replace(CONV, in_h=1, in_w=1))["order"] is None
    assert macro(replace(CONV, out_c=8))["order"] is None


def test_orders_and_parts_that_cannot_be_say_why():
    assert reason(CONV, slab=1, order="filters", split=4) is None
    assert reason(CONV, slab=2, order="filters") == "with filters outside there are no slabs"
    assert reason(replace(CONV, in_c=64), slab=2, split=2) == "2 steps are too few for 2 parts"
    large = replace(CONV, in_h=40, in_w=40)
    assert "do not fit L2" in reason(large, rows_from="tiles", slab=1, order="filters")


@pytest.mark.parametrize("block", ["fours", "pairwise", "lane"])
def test_parts_of_the_depth_hold_all_weights(block):
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 40, CONV.weight_shape, dtype=np.int8)

    def packed(**knobs):
        config = Config.of("qgemm", **KNOBS | {"block": block, "rows_from": "tiles", "slab": 1} | knobs)
        return GEMM.plan(CONV, config, RPI4), GEMM.pack(CONV, config, RPI4, weights)

    plan, whole = packed()
    (part,) = plan.parts
    assert (part.first, part.steps, part.at) == (0, plan.steps, 0)
    split, parts = packed(split=4)
    assert [each.first for each in split.parts][1:] == list(np.cumsum([p.steps for p in split.parts]))[:-1]
    assert sum(each.steps for each in split.parts) == plan.steps
    assert parts.size == split.packed_length
    if block != "fours":  # whose lists of units are parts of their own
        assert np.array_equal(np.sort(parts), np.sort(whole))
