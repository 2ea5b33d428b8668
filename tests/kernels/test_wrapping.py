"""32-bit sums that wrap by design are not promised to LLVM not to, and all others cannot wrap."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels import registry
from kernels.emit import tir
from kernels.emit.compile import compile_module
from kernels.emit.elements import each_vector
from kernels.emit.function import Function
from kernels.int8 import constants as qconstants
from kernels.int8 import wrapping
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import QConv2d

CONV = QConv2d(1, 9, 9, 16, 20, 3, 3, pad=(1, 1, 1, 1), weight_range=(-127, 127), scale="small")
ENDS = np.array([-(1 << 31), (1 << 31) - 1, -1, 0, 1, 46341, -46341, 1 << 30], np.int32)


def test_wrapping_arithmetic_is_modulo_2_to_the_32():
    one, other = (np.ascontiguousarray(each.reshape(-1)) for each in np.meshgrid(ENDS, ENDS))
    names = ("added", "subtracted", "multiplied")
    shapes = dict.fromkeys(("one", "other", *names), one.shape)
    function = Function("main", shapes, dict.fromkeys(shapes, "int32"))
    with function as (a, b, *outs):

        def emit(first, lanes):
            at = tir.vector(first, lanes)
            for name, out in zip(names, outs, strict=True):
                tir.store(out, getattr(wrapping, name)(a[at], b[at], lanes), at)

        each_vector(one.size, 8, 1, emit)
    target = CATALOGUE["x86-avx2"]
    arrays = [guarded(each) for each in (one, other, one, one, one)]
    compile_module(function.result(), target)["main"](*map(tvm.runtime.from_dlpack, arrays))
    for got, operation in zip(arrays[2:], (np.add, np.subtract, np.multiply), strict=True):
        assert np.array_equal(got, operation(one, other))


@pytest.mark.parametrize("points", [4, 6, 8])
def test_winograd_on_arm_promises_nothing_of_what_wraps(points):
    kernel, target = registry.kernel("qwinograd_neon"), CATALOGUE["rpi4"]
    knobs = {"rows": 4, "columns": 8, "band": 3, "slab": 1, "filters": 20, "requant": "high", "taps": 3}
    config = Config.of(kernel.name, points=points, **knobs)
    text = compile_module(kernel.build(CONV, config, target, 1, "main"), target).inspect_source("ll")
    promised = re.findall(r"= (?:add|sub|shl|mul)(?: nuw)? nsw <4 x i32> .*|= \w+ nuw <4 x i32> .*", text)
    # Products of two words fit; so do the bias and what is left of the sums, shifted.
    products = set(re.findall(r"(%\S+) = mul nsw <4 x i32>", text))
    shifted = set(re.findall(r"(%\S+) = ashr <4 x i32>", text))
    sums = [line for line in promised if not line.startswith("= mul nsw")]
    assert sums
    for line in sums:
        assert line.startswith("= add nsw")
        assert set(re.findall(r"%[\w.]+", line)) & shifted
        assert not set(re.findall(r"%[\w.]+", line)) & products
    assert text.count("@llvm.vp.add.v4i32") > len(products)


def test_constants_by_which_sums_may_leave_32_bits_are_refused():
    """The limit is sharp: one more, and some data's sum is 2^31."""
    weights = np.full(CONV.weight_shape, 127, np.int8)
    room = (1 << 31) - 1 - 255 * 127 * 9 * 16
    qconstants.folded_bias(CONV, weights, np.full(20, room, np.int32))
    with pytest.raises(ValueError, match="may leave 32 bits, as 2147483648"):
        qconstants.folded_bias(CONV, weights, np.full(20, room + 1, np.int32))
    with pytest.raises(ValueError, match="may leave 32 bits"):
        qconstants.folded_bias(replace(CONV, data_zero=255), weights, np.full(20, -(1 << 31), np.int32))
