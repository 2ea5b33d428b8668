"""A quantized layer whose sums are all stored before they are scaled: what fusing is measured against."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from bench.peers import Peer
from kernels import registry
from kernels.emit import tir
from kernels.emit.compile import compile_module
from kernels.emit.function import Function
from kernels.int8.tir import QArguments
from kernels.int8.x86.finish import Finish
from kernels.kernel import Array
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import QConv2d


def unfused(conv: QConv2d, config: Config, target: Target, inputs: list[Array]) -> Peer:
    """The sums of ``conv`` by ``config`` as int32, and then all of them scaled in the same way.

    Raises ValueError unless the filters are whole pairs of vectors.
    """
    if conv.out_c % (2 * target.lanes("int32")):
        raise ValueError(f"{conv} has no whole pairs of vectors of filters")
    import tvm

    sums = replace(conv, out_dtype="int32", out_zero=0, clamp=None, scale="any")
    family, knobs = registry.kernel(config.kernel), dict(config.knobs)
    plain = Config.of(config.kernel, **{**knobs, "requant": "none"})
    first = compile_module(family.build(sums, plain, target, 1, "main"), target)["main"]
    second = compile_module(_scaling(conv, str(knobs["requant"]), target), target)["main"]
    constants = family.constants(sums, plain, target, inputs[:3])
    data, *arrays = map(tvm.runtime.tensor, [inputs[0], *constants])
    between = tvm.runtime.tensor(np.zeros(conv.out_shape, np.int32))
    scales = [*map(tvm.runtime.tensor, inputs[3:])]
    output = tvm.runtime.tensor(np.zeros(conv.out_shape, conv.out_dtype))

    def run() -> None:
        first(data, *arrays, between)
        second(between, *scales, output)

    return Peer(run, output.numpy)


def _scaling(conv: QConv2d, how: str, target: Target) -> Any:
    """A function (sums, multiplier, shift, out): two vectors of filters of one pixel after the other."""
    lanes, pixels = target.lanes("int32"), conv.n * conv.out_h * conv.out_w
    shapes = {"sums": conv.out_shape, "multiplier": (conv.scale_length,), "shift": (conv.scale_length,)}
    dtypes = {**dict.fromkeys(shapes, "int32"), "out": conv.out_dtype}
    function = Function("main", {**shapes, "out": conv.out_shape}, dtypes)
    with function as (sums, *scales, out):
        arguments = QArguments(conv, sums, None, None, out, *scales)
        with tir.loop(conv.out_c // (2 * lanes)) as vector:
            filters = T.Bind(vector * (2 * lanes))
            finished = Finish(arguments, how, 32 * lanes).pair(filters)
            with tir.loop(pixels) as pixel:
                at = T.Bind(pixel * conv.out_c + filters)
                halves = [sums[tir.vector(at + half, lanes)] for half in (0, lanes)]
                tir.store(out, finished(halves), tir.vector(at, 2 * lanes))
    return function.result()
