"""A quantized layer on a simulated Arm whose sums are all stored before they are scaled (seed 002)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.space import Config

if TYPE_CHECKING:
    from kernels.target import Target
    from kernels.workload.base import QConv2d

VECTOR = 8
"""Sums that are scaled and stored together."""
TIMEOUT_S = 600


def unfused_cycles(conv: QConv2d, config: Config, target: Target, board: Any, folder: Path) -> int | None:
    """Cycles of the sums by ``config`` as int32, and of scaling all of them in the same way afterwards.

    None where filters are no whole vectors. Raises SystemExit when the results are not exact.
    """
    from tvm import rpc

    from kernels import registry
    from kernels.emit.compile import compile_object
    from kernels.reference import random_inputs, reference
    from worker.build.toolchain import link
    from worker.measure.wire import Wire

    if conv.out_c % VECTOR:
        return None
    family, knobs = registry.kernel(config.kernel), dict(config.knobs)
    sums = replace(conv, out_dtype="int32", out_zero=0, clamp=None, scale="any")
    plain = Config.of(config.kernel, **{**knobs, "requant": "none"})
    inputs = random_inputs(conv, np.random.default_rng(0))  # integers take other times for other values
    functions = {
        "sums": family.build(sums, plain, target, 1, "main"),
        "scaling": _scaling(conv, str(knobs["requant"]), target),
    }
    wire = Wire(lambda: rpc.connect(board.host, board.port, board.key, session_timeout=TIMEOUT_S))
    constants = family.constants(sums, plain, target, inputs[:3])
    scales = family.constants(conv, config, target, inputs)[2:]
    between, out = wire.tensor(np.zeros(conv.out_shape, np.int32)), wire.tensor(~reference(conv, inputs))
    arguments = {
        "sums": [*map(wire.tensor, [inputs[0], *constants]), between],
        "scaling": [between, *map(wire.tensor, scales), out],
    }
    cycles = 0
    for name, function in functions.items():
        path = folder / f"{name}.so"
        path.write_bytes(link(compile_object(function, target)))
        wire.session.upload(str(path), target=path.name)
        module = wire.session.load_module(path.name)
        module.time_evaluator("main", wire.device, number=1, repeat=1)(*arguments[name])
        cycles += json.loads(wire.session.get_function("tilefleet.stats")())["cycles"]
    if not np.array_equal(wire.get(out), reference(conv, inputs)):
        raise SystemExit(f"bench.int8: {conv} is not exact when scaled afterwards")
    return cycles


def _scaling(conv: QConv2d, how: str, target: Target) -> Any:
    """A function (sums, multiplier, shift, out): eight filters of one pixel after the other."""
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir
    from kernels.emit.function import Function
    from kernels.int8.arm.finish import Finish
    from kernels.int8.tir import QArguments
    from kernels.isa.arm import ARM32

    pixels = conv.n * conv.out_h * conv.out_w
    scales = conv.out_c + 3 if conv.per_channel else 1
    shapes = {"sums": conv.out_shape, "multiplier": (scales,), "shift": (scales,)}
    dtypes = {**dict.fromkeys(shapes, "int32"), "out": conv.out_dtype}
    function = Function("main", {**shapes, "out": conv.out_shape}, dtypes)
    with function as (sums, multiplier, shift, out):
        finish = Finish(QArguments(conv, sums, None, None, out, multiplier, shift), how, target.isa is ARM32)
        with tir.loop(pixels) as pixel, tir.loop(conv.out_c // VECTOR) as vector:
            filters = T.Bind(vector * VECTOR)
            at = T.Bind(pixel * conv.out_c + filters)
            quads = [sums[tir.vector(at + start, 4)] for start in (0, 4)]
            finish.block([quads], filters, VECTOR, at, conv.out_c)
    return function.result()
