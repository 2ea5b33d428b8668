"""Our kernels as callables beside the peers."""

from __future__ import annotations

import numpy as np

from bench.peers import Array, Peer
from kernels import registry
from kernels.compile import compile_module
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Workload


def kernel(
    workload: Workload, config: Config, target: Target, data: Array, weights: Array, threads: int
) -> Peer:
    """``workload`` (which must have no epilogue inputs) by ``config``, weights packed beforehand."""
    import tvm

    family = registry.kernel(config.kernel)
    module = compile_module(family.build(workload, config, target, threads, "main"), target)
    function = module["main"]
    output = tvm.runtime.tensor(np.full(workload.out_shape, np.nan, np.float32))
    arguments = [
        tvm.runtime.tensor(data),
        tvm.runtime.tensor(family.pack(workload, config, target, weights)),
        output,
    ]
    return Peer(lambda: function(*arguments), output.numpy)
