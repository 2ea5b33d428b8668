"""Chains of two float convolutions: the seed's sizes, and results between pages that nobody may touch."""

import random

import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels import registry
from kernels.chains.slices import Slices
from kernels.emit.compile import compile_module
from kernels.float.chain.kernel import Chain
from kernels.float.separable.kernel import Separable
from kernels.int8.chain.kernel import QChain
from kernels.layout import NHWC, PLAIN, Layouts, from_layout, to_layout
from kernels.reference import inputs_of, max_error, random_inputs, reference
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, ConvChain, Epilogue, QConv2d, QConvChain, from_json, to_json

K = 1024
RELU = Epilogue(bias=True, clamp=(0.0, None))


def pair(first, **second):
    return ConvChain(first, Conv2d(first.n, first.out_c, first.out_h, first.out_w, **second))


def published(side):
    return pair(Conv2d(1, 128, 64, 64, 128, side, side), out_c=128, kh=side, kw=side)


@pytest.mark.parametrize(
    ("side", "h_split", "k_split", "sizes"),
    [(1, 1, 1, (64, 4, 64)), (1, 2, 2, (128, 8, 128)), (3, 2, 2, (192, 72, 192))],
)
def test_published_caches(side, h_split, k_split, sizes):
    chain = published(side)
    slices = Slices(*chain.parts, 8, h_split, k_split, kept=False)
    assert tuple(slices.cache_elements.values()) == tuple(size * K for size in sizes)


def chain_error(chain, config, target, threads=1):
    kernel, inputs = registry.kernel(config.kernel), random_inputs(chain, np.random.default_rng())
    function = compile_module(kernel.build(chain, config, target, threads, "chain"), target)["chain"]
    constants = kernel.constants(chain, config, target, inputs)
    residual = inputs[-1:] if chain.epilogue.residual else []
    layouts = config.layouts
    stored = [to_layout(inputs[0], layouts.data), *constants, *(to_layout(r, layouts.out) for r in residual)]
    out = guarded(to_layout(np.full(chain.out_shape, np.nan, np.float32), layouts.out))
    function(*(tvm.runtime.from_dlpack(each) for each in (*map(guarded, stored), out)))
    return max_error(from_layout(out, layouts.out), reference(chain, inputs))


CHAINS = {
    "pointwise": pair(Conv2d(1, 40, 19, 13, 36, 1, 1, epilogue=RELU), out_c=44, kh=1, kw=1, epilogue=RELU),
    "padded": pair(
        Conv2d(2, 5, 11, 17, 33, 3, 3, pad=(1, 1, 1, 1), epilogue=RELU),
        out_c=7,
        kh=3,
        kw=3,
        pad=(1, 0, 2, 1),
        epilogue=Epilogue(bias=True, residual=True, clamp=(-1.0, 1.0)),
    ),
    "unpadded": pair(Conv2d(1, 32, 20, 18, 64, 3, 3), out_c=96, kh=3, kw=3),
    "expanded": pair(
        Conv2d(1, 6, 15, 15, 40, 1, 1, epilogue=RELU),
        out_c=40,
        kh=3,
        kw=3,
        groups=40,
        pad=(0, 0, 1, 1),
        stride=(2, 2),
        epilogue=RELU,
    ),
    "separable": pair(
        Conv2d(1, 35, 14, 14, 35, 5, 5, pad=(2, 2, 2, 2), groups=35, stride=(2, 1), epilogue=RELU),
        out_c=18,
        kh=1,
        kw=1,
    ),
    "dilated": pair(
        Conv2d(1, 3, 21, 23, 8, 3, 2, stride=(2, 3), dilation=(2, 1), pad=(2, 0, 0, 3)),
        out_c=1,
        kh=2,
        kw=3,
        dilation=(3, 2),
        pad=(3, 2, 3, 2),
        stride=(1, 2),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_results(name):
    chain, target, rng = CHAINS[name], CATALOGUE["x86-avx2"], random.Random()
    for layouts in (PLAIN, Layouts(NHWC, NHWC)):
        config = Chain().space(chain, target, layouts).sample(rng)
        assert chain_error(chain, config, target) < 1e-5, config


PAIRS = {
    "expanded": CHAINS["expanded"],
    "separable": CHAINS["separable"],
    "blocks": pair(
        Conv2d(2, 16, 13, 11, 16, 3, 3, pad=(1, 1, 1, 1), groups=16, epilogue=RELU),
        out_c=32,
        kh=1,
        kw=1,
        epilogue=Epilogue(bias=True, residual=True, clamp=(-1.0, 1.0)),
    ),
    "dilated": pair(
        Conv2d(2, 16, 9, 17, 48, 1, 1, epilogue=RELU),
        out_c=48,
        kh=3,
        kw=3,
        groups=48,
        pad=(1, 1, 1, 1),
        dilation=(2, 1),
        epilogue=Epilogue(residual=True),
    ),
    "rows left out": pair(
        Conv2d(1, 8, 20, 9, 12, 1, 1),
        out_c=12,
        kh=2,
        kw=1,
        groups=12,
        stride=(4, 3),
        pad=(3, 1, 0, 0),
        epilogue=RELU,
    ),
    "three channels": pair(Conv2d(1, 3, 7, 7, 3, 3, 3, groups=3), out_c=1, kh=1, kw=1),
}


@pytest.mark.parametrize("name", PAIRS)
def test_separable(name):
    chain, target, rng = PAIRS[name], CATALOGUE["x86-avx2"], random.Random()
    for number, layouts in enumerate(Separable().layouts(chain, target)):
        threads = 1 + number % 2
        config = Separable().space(chain, target, layouts, threads).sample(rng)
        assert chain_error(chain, config, target, threads) < 1e-5, config


def test_elements_as_lanes():
    # On Arm alone it is offered, as x86 loads an element into all lanes at no cost.
    chain, target = PAIRS["blocks"], CATALOGUE["x86-avx2"]
    assert "lane" in Separable().knobs(chain, CATALOGUE["rpi4"], Layouts(NHWC, NHWC), 1)["broadcast"]
    for layouts in (Layouts(NHWC, NHWC), Layouts("nchw8c", "nchw8c")):
        config = Config.of("separable", layouts, block="4x2", columns=4, rows=3, broadcast="lane")
        assert chain_error(chain, config, target) < 1e-5, config


def test_what_is_not_separable():
    reason = Separable().why_not(published(1), CATALOGUE["rpi4"])
    assert "needs as many groups as channels" in reason
    assert Separable().why_not(CHAINS["padded"], CATALOGUE["rpi4"]) is not None


def test_threads():
    chain, target = CHAINS["padded"], CATALOGUE["x86-avx2"]
    config = Chain().recommend(chain, target, threads=2)
    assert chain_error(chain, config, target, threads=2) < 1e-5


def test_json_and_inputs():
    chain = CHAINS["padded"]
    assert from_json(to_json(chain)) == chain
    assert len(random_inputs(chain, np.random.default_rng())) == inputs_of(chain.first) + 3
    assert chain.flops == chain.first.flops + chain.second.flops


def test_errors_are_one_line():
    first = Conv2d(1, 8, 9, 9, 8, 3, 3)
    with pytest.raises(ValueError, match="second takes 1x 9x9x8"):
        ConvChain(first, Conv2d(1, 8, 9, 9, 8, 1, 1))
    with pytest.raises(ValueError, match="first must have no residual"):
        pair(Conv2d(1, 8, 9, 9, 8, 1, 1, epilogue=Epilogue(residual=True)), out_c=8, kh=1, kw=1)
    grouped = pair(Conv2d(1, 8, 9, 9, 8, 1, 1, groups=2), out_c=8, kh=1, kw=1)
    assert "the first convolution is grouped" in registry.why_not_tunable(grouped, CATALOGUE["rpi4"])
    # What pads the second is what the first makes of windows that are not there.
    first = QConv2d(1, 8, 9, 8, 8, 1, 1, scale="small", clamp=(10, 60))
    second = QConv2d(1, 8, 9, 8, 8, 3, 3, pad=(1, 1, 1, 1), scale="small")
    reason = registry.why_not_tunable(QConvChain(first, second), CATALOGUE["hexagon-v68"])
    assert "clamp leaves out the zero point" in reason


def test_fast_memory_is_respected():
    target, scale = CATALOGUE["hexagon-v66"], {"scale": "small", "weight_range": (-127, 127)}

    def of(channels):
        first = QConv2d(1, 20, 20, channels, 64, 3, 3, **scale)
        return QConvChain(first, QConv2d(1, 18, 18, 64, 64, 3, 3, **scale))

    # 32 filters of 224 channels take 63 KB, 32 of 512 take 144 KB.
    for channels, fits in ((224, (1, 2)), (512, (1,))):
        space = QChain().space(of(channels), target, PLAIN)
        for k_split in (1, 2):
            knobs = {"h_split": 1, "k_split": k_split, "height": 8, "adjacent": "again", "block": "4x1"}
            reason = space.why_not(space.config(knobs))
            assert reason is None if k_split in fits else "hexagon-v66 has 256 KB of fast memory" in reason
    reason = registry.why_not_tunable(of(1024), target)
    assert "no split fits: its filters need 288.1 KB, and" in reason
    assert "\n" not in reason
