"""Our kernels as callables beside the peers."""

from __future__ import annotations

import numpy as np

from bench.peers import Peer
from kernels import registry
from kernels.emit.compile import compile_module
from kernels.kernel import Array
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import QConv2d, Workload


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


def quantized(conv: QConv2d, config: Config, target: Target, inputs: list[Array], threads: int) -> Peer:
    """``conv`` by ``config``, with constants made beforehand; inputs as ``random_inputs`` orders them."""
    import tvm

    family = registry.kernel(config.kernel)
    function = compile_module(family.build(conv, config, target, threads, "main"), target)["main"]
    output = tvm.runtime.tensor(np.zeros(conv.out_shape, conv.out_dtype))
    given = [inputs[0], *family.constants(conv, config, target, inputs)]
    arguments = [*map(tvm.runtime.tensor, given), output]
    return Peer(lambda: function(*arguments), output.numpy)
