"""Every peer of quantized layers computes what our reference does, within the one that float scales cost."""

from __future__ import annotations

import numpy as np
import pytest

from bench import litert_peer
from bench.int8_suite import WEIGHT_RANGES, layers_of, quantized
from bench.qpeers import qconv_peers
from kernels.reference import max_error, random_inputs, reference
from kernels.workload.base import Conv2d, Gemm, QConv2d

LAYERS = [
    QConv2d(1, 17, 15, 3, 8, 7, 7, (2, 2), (3, 3, 3, 3), data_zero=128, out_zero=3),
    QConv2d(1, 9, 11, 8, 6, 1, 1, data_zero=7, out_zero=128),
    QConv2d(1, 9, 9, 16, 24, 3, 3, pad=(1, 1, 1, 1), data_zero=128, per_channel=False),
    QConv2d(1, 10, 10, 16, 16, 3, 3, (2, 2), (0, 0, 1, 1), groups=16, data_zero=128),
]
LAYERS = [QConv2d(**{**vars(layer), "weight_range": WEIGHT_RANGES[7], "scale": "small"}) for layer in LAYERS]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_peer_is_right(layer: QConv2d) -> None:
    inputs = random_inputs(layer, np.random.default_rng(5))
    expected = reference(layer, inputs)
    for name, make in qconv_peers(layer).items():
        peer = make(layer, inputs, 1)
        peer.run()
        difference = np.abs(peer.result().astype(int) - expected)
        assert max_error(peer.result(), expected) <= 1, name
        assert np.mean(difference > 0) < 0.01, name


def test_layers_keep_their_shape() -> None:
    conv = Conv2d(1, 6, 10, 11, 9, 3, 2, (2, 1), (1, 0, 2, 1), (1, 2), 3)
    layer = quantized(conv, 7)
    n, out_c, out_h, out_w = conv.out_shape
    assert layer.out_shape == (n, out_h, out_w, out_c)
    assert layer.flops == conv.flops
    assert quantized(Gemm(5, 40, 30), 8).out_shape == (1, 5, 1, 40)
    assert quantized(Gemm(5, 40, 30), 8).weight_range == (-127, 127)


def test_the_layers_of_mobilenet_v2() -> None:
    layers = layers_of("mobilenet_v2", 7)
    assert sum(layer.count for layer in layers) == 53
    assert sum(layer.count for layer in layers if layer.conv.groups > 1) == 17
    assert len({layer.name for layer in layers}) == len(layers)


def test_litert_says_what_it_cannot_take() -> None:
    layer = QConv2d(1, 4, 4, 8, 8, 1, 1, weight_zero=3)
    assert litert_peer.why_not(layer) is not None
