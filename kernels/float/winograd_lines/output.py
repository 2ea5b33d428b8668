"""The output transform of Winograd along lines, with the epilogue: one vector of filters after another."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import transpose
from kernels.float.plan import Arguments
from kernels.float.winograd.pixels import Pixels
from kernels.float.winograd_lines.place import Place
from kernels.float.winograd_lines.plan import Plan


class OutputTransform:
    """Emits the transform of one block. In NCHW, vectors of filters are then turned into their lines."""

    def __init__(self, plan: Plan, args: Arguments, products: Buffer, threads: int) -> None:
        self.plan, self.args, self.lanes = plan, args, plan.lanes
        self.products, self.threads = products, threads
        lines = plan.lines
        shape = (plan.conv.n, plan.conv.out_c, lines.count, lines.out_length)
        self.pixels = Pixels.of(plan.layouts.out, shape, plan.lanes)
        # As of the input: results of a tile that do not lie next to those of others come after each other.
        self.runs = 1 if plan.whole else plan.knobs.m
        self.pitch = lines.dilation if plan.whole else plan.block_columns

    def run(self, place: Place) -> None:
        """The block there."""
        plan, lines = self.plan, self.plan.lines
        self.place = place
        with tir.loop(self.threads, self.threads) as thread:
            if self.pixels is None:
                self.turned = tir.scratch(self.runs * plan.out_run * self.lanes)
            with turns(plan.out_vectors, thread, self.threads) as filters:
                self.bias = self._bias(filters)
                if self.pixels is None:
                    self._tiles(filters, checked=False)
                    self._turn(filters)
                else:
                    ends = (self.runs - 1) * lines.dilation + plan.out_run
                    tir.choose(
                        place.computes + ends <= lines.out_length,
                        lambda filters=filters: self._tiles(filters, checked=False),  # type: ignore[misc]
                        lambda filters=filters: self._tiles(filters, checked=True),  # type: ignore[misc]
                    )

    def _bias(self, filters: Index) -> Vector | None:
        """The bias of a vector of filters, or None. Missing filters take the last one's."""
        if self.args.bias is None:
            return None
        lanes, last = self.lanes, self.plan.conv.out_c - 1
        if self.plan.conv.out_c % lanes == 0:
            return T.Bind(self.args.bias[tir.vector(filters * lanes, lanes)])
        each = [self.args.bias[tir.least(filters * lanes + lane, last)] for lane in range(lanes)]
        return T.Bind(tirx.Shuffle(each, [tir.index(lane) for lane in range(lanes)]))

    def _tiles(self, filters: Index, checked: bool) -> None:
        """Transform all tiles of some filters; if ``checked``, only what is in the line is stored."""
        plan, lanes = self.plan, self.lanes
        with tir.loop(plan.block_groups) as group, tir.loop(plan.block_columns) as column:
            at = T.Bind(plan.at(filters, group * plan.block_columns + column))
            values = [
                T.Bind(self.products[tir.vector(at + point * plan.out_pitch, lanes)])
                for point in range(plan.points)
            ]
            first = T.Bind(group * plan.out_step + column)
            for j, value in enumerate(plan.transform.backward(values, self._times, T.Bind)):
                value = value if self.bias is None else value + self.bias
                if self.pixels is None:
                    tir.store(self.turned, value, tir.vector((first + j * self.pitch) * lanes, lanes))
                    continue
                x = T.Bind(self.place.computes + first + j * plan.lines.dilation)
                with tir.when(x < plan.lines.out_length if checked else None):
                    to = T.Bind(self.pixels.at(self.place.image, filters, self.place.line, x))
                    self.args.store_out(value, to, lanes)

    def _times(self, factor: float, value: Vector) -> Vector:
        return tir.splat(tir.number(factor), self.lanes) * value

    def _turn(self, filters: Index) -> None:
        """Vectors of filters to a run of each filter's line, with the epilogue, as far as the line goes."""
        plan, conv, lines, lanes = self.plan, self.plan.conv, self.plan.lines, self.lanes
        pitch = lines.count * lines.out_length
        plane = (self.place.image * conv.out_c + filters * lanes) * pitch
        start = T.Bind(plane + self.place.line * lines.out_length + self.place.computes)
        with tir.loop(self.runs) as run:
            there, of = T.Bind(start + run * lines.dilation), T.Bind(run * plan.out_run)
            left = lines.out_length - self.place.computes - run * lines.dilation
            count = T.Bind(tirx.Max(tirx.Min(left, tir.index(plan.out_run)), tir.index(0)))

            def exists(lane: Index) -> Vector | None:
                return filters * lanes + lane < conv.out_c if conv.out_c % lanes else None

            def group(at: Index) -> None:
                rows = [
                    T.Bind(self.turned[tir.vector((of + at + lane) * lanes, lanes)]) for lane in range(lanes)
                ]
                for lane, value in enumerate(transpose(rows)):
                    with tir.when(exists(lane)):
                        self.args.store_out(value, T.Bind(there + lane * pitch + at), lanes)

            with T.If(count >= lanes):
                with T.Then():
                    with tir.loop(count // lanes) as turn:
                        group(T.Bind(turn * lanes))
                    # The last group overlaps the one before it.
                    group(T.Bind(count - lanes))
                with T.Else(), T.serial(tir.index(0), count) as at, tir.loop(lanes) as lane:
                    value = self.turned[(of + at) * lanes + lane]
                    with tir.when(exists(lane)):
                        self.args.store_out(value, T.Bind(there + lane * pitch + at), 1)
