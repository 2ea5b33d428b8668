"""Activations in epilogues: how far off each is, and that all families compute them for every channel."""

import dataclasses
import random
from typing import get_args

import numpy as np
import pytest
import tvm
from guarded import error_of, guarded
from on_targets import AVX2

from kernels import registry
from kernels.activated import activated
from kernels.emit.compile import compile_module
from kernels.layout import Layouts
from kernels.reference import max_error, random_inputs, reference
from kernels.workload.activation import PARAMETERS, Kind
from kernels.workload.base import RELU, Activation, Conv2d, Epilogue, Gemm, NarrowGemm, from_json, to_json
from worker.measure.host import host_target

NUMBERS = {"hard_swish": (1 / 6, 0.5), "hard_sigmoid": (0.2, 0.5), "silu": (1.702,)}
ALL = [
    Activation(kind, *NUMBERS.get(kind, (0.3,) * len(PARAMETERS.get(kind, ())))) for kind in get_args(Kind)
]
SLOPE = np.float32(0.3)
CLOSE = 4e-7
"""Stated are 2e-7, with fused multiply-add."""
EDGES = (np.inf, 3e38, 1e30, 1e6, 0.0, -0.0, -1e6, -1e30, -3e38, -np.inf, np.nan)


def values_of(activation, target):
    """Numbers of all sizes, and what an epilogue makes of them: products of one element by one."""
    sizes = np.concatenate([np.linspace(0, 100, 20001), np.geomspace(1e-30, 1e3, 10001)])
    x = np.concatenate([sizes, -sizes, EDGES]).astype(np.float32)
    gemm = Gemm(1, x.size, 1, epilogue=Epilogue(activation=activation))
    config = registry.recommendations(gemm, target)[0]
    kernel = registry.kernel(config.kernel)
    function = compile_module(kernel.build(gemm, config, target, 1, "candidate"), target)["candidate"]
    slopes = [np.full(x.size, SLOPE)] if activation.has_slope else []
    out = np.full((1, x.size), np.nan, np.float32)
    arrays = [np.ones((1, 1), np.float32), kernel.pack(gemm, config, target, x[None]), *slopes, out]
    arrays = [guarded(array) for array in arrays]
    function(*map(tvm.runtime.from_dlpack, arrays))
    return x, arrays[-1][0]


@pytest.mark.parametrize("target", [AVX2, host_target()], ids=["avx2", "host"])
@pytest.mark.parametrize("activation", ALL, ids=lambda activation: activation.kind)
def test_every_activation_is_right_for_numbers_of_all_sizes(activation, target):
    """The host may have instructions that AVX2 has not."""
    x, result = values_of(activation, target)
    with np.errstate(all="ignore"):
        slope = np.float64(SLOPE) if activation.has_slope else None
        expected = activated(activation, x.astype(np.float64), slope)
        bound = CLOSE * np.maximum(np.abs(expected), np.minimum(np.abs(x), 1)) + 1e-37
    if activation.kind in ("silu", "gelu", "tanh_gelu", "mish"):
        assert np.isnan(expected[np.isneginf(x)]).all()  # a product with zero
    finite = np.isfinite(expected)
    assert (np.abs(result[finite] - expected[finite]) <= bound[finite]).all()
    assert np.array_equal(result[~finite], expected[~finite].astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("activation", ALL, ids=lambda activation: activation.kind)
def test_families_apply_it_in_every_layout_before_or_behind_the_residual(activation):
    rng = random.Random(activation.kind)
    convs = [
        Conv2d(2, 6, 7, 9, 16, 1, 1),
        Conv2d(1, 5, 9, 7, 11, 3, 3, pad=(1, 1, 1, 1)),
        Conv2d(1, 16, 9, 10, 16, 3, 3, pad=(1, 0, 1, 1), groups=16),
        Conv2d(1, 8, 6, 5, 12, 3, 3, groups=2),
    ]
    for base in (*convs, Gemm(5, 21, 13)):
        late = rng.random() < 0.5
        epilogue = Epilogue(True, late or rng.random() < 0.5, rng.choice([None, RELU]), activation, late)
        workload = dataclasses.replace(base, epilogue=epilogue)
        configs = registry.recommendations(workload, AVX2, any_layout=True)
        for config in rng.sample(configs, min(2, len(configs))):
            kernel = registry.kernel(config.kernel)
            error = error_of(kernel, workload, config, AVX2)
            assert error < kernel.tolerance_of(workload, config), (workload, config)


@pytest.mark.parametrize("out", ["nchw", "nhwc", "nchw8c"])
def test_slopes_are_those_of_the_channel_in_every_layout_of_several_images(out):
    prelu = Epilogue(bias=True, activation=Activation("prelu"))
    conv = Conv2d(3, 4, 5, 6, 24, 1, 1, epilogue=prelu)
    space = registry.kernel("fconv").space(conv, AVX2, Layouts("nchw", out))
    config = space.sample(random.Random(out))
    assert error_of(registry.kernel("fconv"), conv, config, AVX2) < 1e-5


@pytest.mark.parametrize("activation", [ALL[0], Activation("prelu")], ids=lambda each: each.kind)
def test_products_by_narrow_weights_have_them_too(activation):
    gemm = NarrowGemm(3, 21, 64, bits=4, block=32, epilogue=Epilogue(True, True, None, activation, late=True))
    config = registry.recommendations(gemm, AVX2)[0]
    kernel = registry.kernel(config.kernel)
    function = compile_module(kernel.build(gemm, config, AVX2, 1, "candidate"), AVX2)["candidate"]
    inputs = random_inputs(gemm, np.random.default_rng())
    constants = kernel.constants(gemm, config, AVX2, inputs)
    arrays = [
        inputs[0],
        *constants,
        *inputs[1 + gemm.constants :],
        np.full(gemm.out_shape, np.nan, np.float32),
    ]
    arrays = [guarded(array) for array in arrays]
    function(*map(tvm.runtime.from_dlpack, arrays))
    assert max_error(arrays[-1], reference(gemm, inputs)) < 1e-5


def test_names_of_workloads_without_one_are_what_they_were():
    conv = Conv2d(1, 3, 8, 8, 4, 3, 3, epilogue=Epilogue(bias=True, clamp=RELU))
    assert to_json(conv)["epilogue"] == {"bias": True, "residual": False, "clamp": [0.0, None]}
    assert conv.key == "e39c72ae7bccc2a0"


def test_a_workload_with_one_comes_back_from_json():
    epilogue = Epilogue(True, True, None, Activation("hard_swish", 1 / 6, 0.5), late=True)
    gemm = Gemm(3, 4, 5, epilogue=epilogue)
    assert from_json(to_json(gemm)) == gemm
    assert str(gemm) == "gemm 3x5 by 5x4 +bias +hard_swish +residual"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"activation": {"kind": "silu"}}, "silu takes an alpha"),
        ({"activation": {"kind": "gelu", "beta": 1.0}}, "gelu takes no beta"),
        ({"activation": {"kind": "silu", "alpha": -1.0}}, "must be above zero"),
        ({"activation": {"kind": "swoosh"}}, "epilogue.activation.kind"),
        ({"residual": True, "late": True}, "behind an activation"),
    ],
)
def test_what_is_no_activation_is_refused_by_name(values, reason):
    with pytest.raises(ValueError, match=reason):
        from_json({"kind": "gemm", "m": 1, "n": 1, "k": 1, "epilogue": values})
