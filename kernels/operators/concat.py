"""Concatenation along the channels in every layout, as copies of whole vectors."""

from __future__ import annotations

from math import prod

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, PrimFunc
from kernels.layout import NHWC, stored_shape
from kernels.target import Target

TILE = 4
"""Vectors that one turn of a loop copies."""
ROW_CYCLES = 4
"""Starting the copy of one pixel's channels."""


def out_shape(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """NCHW shape of the result of concatenating ``shapes``."""
    n, _, h, w = shapes[0]
    return (n, sum(shape[1] for shape in shapes), h, w)


def predict_concat(
    shapes: tuple[tuple[int, ...], ...], layout: str, target: Target, threads: int = 1
) -> float:
    """Predicted seconds: a copy, in NHWC one of a few vectors for every pixel of each input."""
    n, c, h, w = out_shape(shapes)
    lanes, elements = target.lanes(), n * c * h * w
    work = elements * machine.move_cycles(target) / lanes
    if layout == NHWC:
        vectors = sum(ceil_div(shape[1], lanes) for shape in shapes)
        work = 1.0 * n * h * w * (vectors * machine.move_cycles(target) + len(shapes) * ROW_CYCLES)
    cycles = machine.overlapped(work, machine.stream_cycles(target, 8 * elements, 8 * elements))
    return machine.seconds(target, machine.CALL_CYCLES + cycles / threads_for(elements, threads))


def build_concat(
    shapes: tuple[tuple[int, ...], ...], layout: str, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are tensors of NCHW ``shapes``, then the result."""
    whole = out_shape(shapes)
    arguments = {f"data{at}": stored_shape(layout, shape) for at, shape in enumerate(shapes)}
    function = Function(name, {**arguments, "out": stored_shape(layout, whole)})
    with function as (*inputs, out):
        # In NHWC a row of channels is what lies side by side in both; else all channels of an image are.
        rows = prod((whole[0], *whole[2:])) if layout == NHWC else whole[0]
        sizes = [prod(shape) // rows for shape in shapes]
        if layout == NHWC:
            with tir.loop(rows, threads_for(prod(whole), threads)) as row:
                for data, size, start in _parts(inputs, sizes):
                    copy_row(out, row * sum(sizes) + start, data, row * size, size, 1, target.lanes())
        else:
            for data, size, start in _parts(inputs, sizes):
                parallel = threads_for(rows * size, threads)
                _copy(out, data, rows, size, sum(sizes), start, target.lanes(), parallel)
    return function.result()


def _parts(inputs: list[Buffer], sizes: list[int]) -> list[tuple[Buffer, int, int]]:
    """(input, how much of it is in a row, where in the result's row that starts)."""
    return [(data, size, sum(sizes[:at])) for at, (data, size) in enumerate(zip(inputs, sizes, strict=True))]


def _copy(
    out: Buffer, data: Buffer, rows: int, size: int, stride: int, start: int, lanes: int, threads: int
) -> None:
    """Copy ``rows`` long rows; the last turns overlap those before."""
    width = TILE * lanes
    if size < width:
        with T.serial(0, rows) as row:
            copy_row(out, row * stride + start, data, row * size, size, 1, lanes)
        return
    turns = ceil_div(size, width)
    with tir.loop(rows * turns, threads) as turn:
        row = T.Bind(turn // turns)
        at = T.Bind(tir.least(turn % turns * width, size - width))
        for slot in range(0, width, lanes):
            value = data[tir.vector(row * size + at + slot, lanes)]
            tir.store(out, value, tir.vector(row * stride + start + at + slot, lanes))
