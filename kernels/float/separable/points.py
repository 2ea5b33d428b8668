"""The pointwise convolution of a run of pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.outer_product import Sums
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.float.plan import Arguments
from kernels.float.separable.plan import LANE, SeparablePlan


@dataclass(frozen=True)
class Pixels:
    """Pixels that lie ``apart`` elements from each other, from ``start`` on. Channels lie innermost, in runs
    of ``run``, and the runs ``step`` from each other."""

    array: Buffer
    start: Index
    apart: int
    run: int
    step: int


def first_channels(plan: SeparablePlan, group: Index) -> list[Index]:
    """The first channel of each vector of a group."""
    channels, lanes, together = plan.pointwise.out_c, plan.lanes, plan.together
    begin = group * together
    if plan.vectors % together:
        begin = tir.least(begin, plan.vectors - together)
    starts = [(begin + each) * lanes for each in range(together)]
    if channels % lanes:
        starts = [tir.least(start, channels - lanes) for start in starts]
    return [T.Bind(tir.index(start)) for start in starts]


def points(
    plan: SeparablePlan,
    args: Arguments,
    pixels: Pixels,
    count: int,
    group: Index,
    channels: Sequence[Index],
    store: Callable[[Vector, Index, Index], None],
) -> None:
    """``store(vector, pixel, first channel)`` the sums, with the bias, of a group of vectors that begin with
    ``channels``, for ``count`` pixels."""
    lanes, depth = plan.lanes, plan.pointwise.in_c
    width = len(channels) * lanes
    assert args.bias is not None
    bias = [T.Bind(args.bias[tir.vector(channel, lanes)]) for channel in channels]
    filters = T.Bind(tir.index(group * (depth * width)))

    def block(windows: int, first: Index) -> None:
        sums = Sums(windows, width, lanes)
        sums.begin(lambda _, column: bias[column // lanes])
        place = T.Bind(pixels.start + first * pixels.apart)

        def add(run: Index) -> None:
            at = T.Bind(place + run * pixels.step)
            tap = T.Bind(filters + run * (pixels.run * width))

            def element(window: int, k: Index) -> Index:
                return at + window * pixels.apart + k

            def taps(column: int, k: Index) -> Vector:
                return args.weights[tir.vector(tap + k * width + column, lanes)]

            if plan.knobs.broadcast == LANE:
                sums.add_by_lanes(
                    pixels.run, lambda window, k: pixels.array[tir.vector(element(window, k), lanes)], taps
                )
            else:
                sums.add(0, pixels.run, lambda window, k: pixels.array[element(window, k)], taps)

        if depth == pixels.run:
            add(tir.index(0))
        else:
            with tir.loop(depth // pixels.run) as run:
                add(run)
        for window, column, value in sums.values():
            store(value, first + window, channels[column // lanes])

    tir.blocks(count, plan.knobs.block[0], block)
