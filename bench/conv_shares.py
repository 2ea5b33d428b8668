"""What packing takes of one of SConv's calls (seed 003, figure 10): the same function without it, and without
the products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench.simulated import Bench
    from kernels.space import Config
    from kernels.target import Target
    from kernels.workload.base import Conv2d

PARTS = {"packing": "_pack", "kernel": "_micro"}
"""What emits each part; what is left is the copy with its padding, and loops."""


def shares(conv: Conv2d, config: Config, target: Target, bench: Bench) -> dict[str, int]:
    """Cycles of the whole ``call``, of ``packing`` and of the micro-``kernel``; ``config`` is one of SConv's.

    A part is what the call takes less when it is left out of the code.
    """
    from kernels import registry
    from kernels.reference import random_inputs, reference

    kernel = registry.kernel(config.kernel)
    data, weights = random_inputs(conv, np.random.default_rng(0))
    arguments = [data, kernel.pack(conv, config, target, weights)]
    expected = reference(conv, [data, weights]).astype(np.float32)

    def cycles() -> int:
        counted = bench.run(kernel.build(conv, config, target, 1, "main"), arguments, expected, target, False)
        return int(counted["cycles"])

    found = {"call": cycles()}
    for part, method in PARTS.items():
        with without(method):
            found[part] = max(0, found["call"] - cycles())
    return found


@contextmanager
def without(method: str) -> Iterator[None]:
    """Code without what ``method`` of SConv's loop nest emits."""
    from unittest import mock

    from kernels.float.sconv.emit import Nest

    with mock.patch.object(Nest, method):
        yield
