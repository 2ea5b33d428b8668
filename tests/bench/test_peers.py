"""Every peer computes what our reference computes: a ratio against a wrong result means nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench.peers import conv_peers
from kernels.reference import random_inputs, reference
from kernels.workload.base import Conv2d

LAYERS = [
    Conv2d(1, 3, 17, 15, 8, 7, 7, (2, 2), (3, 3, 3, 3)),
    Conv2d(2, 8, 9, 11, 6, 1, 1),
    Conv2d(1, 4, 9, 11, 6, 3, 3, pad=(0, 1, 2, 0), dilation=(2, 1)),
    Conv2d(1, 6, 10, 10, 6, 3, 3, (1, 2), (1, 1, 1, 1), groups=6),
    Conv2d(1, 2, 3, 3, 2, 3, 3, pad=(2, 4, 2, 4)),
]


@pytest.mark.parametrize("name", sorted(conv_peers()))
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_peer_is_right(name: str, layer: Conv2d) -> None:
    data, weights = random_inputs(layer, np.random.default_rng())
    peer = conv_peers()[name](layer, data, weights, 1)
    peer.run()
    expected = reference(layer, [data, weights])
    np.testing.assert_allclose(peer.result(), expected, atol=1e-4 * np.abs(expected).max())
