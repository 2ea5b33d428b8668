"""Where the filter-vectorised convolution keeps sums between channel sets, and how it stores finished ones.

Sums leave registers as vectors of filters, one for each window. The two classes below have the same methods;
``slot`` numbers the filter tiles whose sums are kept at a time.
"""

from __future__ import annotations

from itertools import product

from kernels.emit import code_shape, tir
from kernels.emit.tvm import T
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import load_part, split, transpose
from kernels.float.fconv.plan import WEIGHT_STATIONARY, Plan
from kernels.float.plan import Arguments
from kernels.layout import NHWC


class TurnedSums:
    """For NCHW: a block's sums lie window by window in a scratch, and are turned in registers at its end."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.args = plan, args
        self.slots = 1 if plan.knobs.order == WEIGHT_STATIONARY else plan.filter_tiles
        # Turning the last windows reads whole vectors of them.
        self.slot_size = (plan.block + plan.lanes) * plan.filters
        self.scratch = tir.scratch(plan.threads * self.slots * self.slot_size)

    def place(self, chunk: Index, image: Index, tile: Index, start: Index, at: Index) -> Index:
        """Where the sums of a filter tile for windows from ``start + at`` are, for ``load`` and ``store``."""
        return T.Bind(tir.index(self._slot(chunk, tile) + at * self.plan.filters))

    def prefetch(self, place: Index, size: int, vectors: int) -> None:
        """Nothing: the scratch is in the caches."""

    def load(self, place: Index, i: int, j: int, tile: Index) -> Vector:
        """The unfinished sums of window ``i`` and vector ``j``."""
        return self.scratch[self._home(place, i, j)]

    def store(self, value: Vector, place: Index, i: int, j: int, tile: Index, finished: bool) -> None:
        """Keep the sums of window ``i`` and vector ``j``."""
        tir.store(self.scratch, value, self._home(place, i, j))

    def finish(self, chunk: Index, image: Index, tile: Index, vectors: int, start: Index, count: int) -> None:
        """Turn a tile's sums for ``count`` windows from ``start``, and store them with their epilogue."""
        plan, lanes = self.plan, self.plan.lanes
        whole, rest = divmod(count, lanes)

        def square(first: Index, width: int) -> None:
            """``lanes`` filters by ``width`` windows from ``first`` of the block."""
            for j in range(vectors):
                at = self._slot(chunk, tile) + first * plan.filters + j * lanes
                rows = [T.Bind(self.scratch[tir.vector(at + i * plan.filters, lanes)]) for i in range(lanes)]
                for k, turned in enumerate(transpose(rows)[: plan.real(tile, j)]):
                    channel = image * plan.conv.out_c + tile * plan.filters + j * lanes + k
                    out = channel * plan.conv.windows + start + first
                    for offset, size, part in split(turned, width, lanes):
                        self.args.store_out(part, out + offset, size)

        if whole:
            with tir.loop(whole) as w:
                square(w * lanes, lanes)
        if rest:
            square(whole * lanes, rest)

    def _home(self, place: Index, i: int, j: int) -> Vector:
        return tir.vector(place + i * self.plan.filters + j * self.plan.lanes, self.plan.lanes)

    def _slot(self, chunk: Index, tile: Index) -> Index:
        return (chunk * self.slots + (0 if self.slots == 1 else tile)) * self.slot_size


class DirectSums:
    """For NHWC and blocks: vectors of filters lie in the output as they are; sums wait there for more."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.args = plan, args
        conv, lanes = plan.conv, plan.lanes
        self.nhwc = plan.layouts.out == NHWC
        self.window_pitch = conv.out_c if self.nhwc else lanes
        self.vector_pitch = lanes if self.nhwc else lanes * plan.conv.windows

    def place(self, chunk: Index, image: Index, tile: Index, start: Index, at: Index) -> Index:
        """Where the sums of a filter tile for windows from ``start + at`` are, for ``load`` and ``store``."""
        plan = self.plan
        vector = image * (plan.conv.out_c * plan.conv.windows) + tile * (plan.vectors * self.vector_pitch)
        return T.Bind(tir.index(vector + (start + at) * self.window_pitch))

    def prefetch(self, place: Index, size: int, vectors: int) -> None:
        """Let the lines of a micro-kernel's output, and of its residual, come before they are needed."""
        step = max(1, self.plan.line // self.plan.lanes)
        along_windows, along_vectors = (1, step) if self.nhwc else (step, 1)
        for i, j in product(range(0, size, along_windows), range(0, vectors, along_vectors)):
            at = self._home(place, i, j)
            for buffer in (self.args.out, self.args.residual):
                if buffer is not None:
                    code_shape.prefetch(buffer, at)

    def load(self, place: Index, i: int, j: int, tile: Index) -> Vector:
        """The unfinished sums of window ``i`` and vector ``j``."""
        return load_part(self.args.out, self._home(place, i, j), self.plan.real(tile, j), self.plan.lanes)

    def store(self, value: Vector, place: Index, i: int, j: int, tile: Index, finished: bool) -> None:
        """Store the sums of window ``i`` and vector ``j``, with their epilogue when they are finished."""
        home, plan = self._home(place, i, j), self.plan
        for offset, size, part in split(value, plan.real(tile, j), plan.lanes):
            if finished:
                self.args.store_out(part, home + offset, size)
            else:
                tir.store(self.args.out, part, tir.vector(home + offset, size))

    def finish(self, chunk: Index, image: Index, tile: Index, vectors: int, start: Index, count: int) -> None:
        """Nothing: finished sums are where they belong."""

    def _home(self, place: Index, i: int, j: int) -> Vector:
        return place + i * self.window_pitch + j * self.vector_pitch
