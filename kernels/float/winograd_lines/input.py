"""The input transform of Winograd along lines: a block's tiles, one vector of channels after another."""

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


class InputTransform:
    """Emits the transform of one block. In NCHW, its elements are first turned into vectors of channels."""

    def __init__(self, plan: Plan, args: Arguments, transformed: Buffer, threads: int) -> None:
        self.plan, self.args, self.lanes = plan, args, plan.lanes
        self.transformed, self.threads = transformed, threads
        lines = plan.lines
        shape = (plan.conv.n, plan.conv.in_c, lines.count, lines.length)
        self.pixels = Pixels.of(plan.layouts.data, shape, plan.lanes)
        # Of a tile's elements: those apart come after each other, where they do not lie next to each other.
        self.runs = 1 if plan.whole else plan.tile
        self.pitch = lines.dilation if plan.whole else plan.block_columns

    def run(self, place: Place) -> None:
        """The block there."""
        plan = self.plan
        self.place = place
        with tir.loop(self.threads, self.threads) as thread:
            if self.pixels is None:
                self.turned = tir.scratch(self.runs * plan.in_run * self.lanes)
                self._pad()
            with turns(plan.in_vectors, thread, self.threads) as channels:
                if self.pixels is None:
                    self._turn(channels)
                    self._tiles(channels, checked=False)
                else:
                    ends = (self.runs - 1) * plan.lines.dilation + plan.in_run
                    inside = tirx.all(place.reads >= 0, place.reads + ends <= plan.lines.length)
                    tir.choose(
                        inside,
                        lambda channels=channels: self._tiles(channels, checked=False),  # type: ignore[misc]
                        lambda channels=channels: self._tiles(channels, checked=True),  # type: ignore[misc]
                    )

    def _tiles(self, channels: Index, checked: bool) -> None:
        """Transform all tiles of some channels, with zeros for what is outside of the line if ``checked``."""
        plan, lanes = self.plan, self.lanes
        with tir.loop(plan.block_groups) as group, tir.loop(plan.block_columns) as column:
            first = T.Bind(group * plan.in_step + column)
            values = [T.Bind(self._value(channels, first, i, checked)) for i in range(plan.tile)]
            at = T.Bind(plan.at(channels, group * plan.block_columns + column))
            for point, value in enumerate(plan.transform.forward(values, self._times)):
                tir.store(self.transformed, value, tir.vector(at + point * plan.in_pitch, lanes))

    def _value(self, channels: Index, first: Index, i: int, checked: bool) -> Vector:
        """Element ``i`` of the tile whose first one is ``first`` in the block."""
        lanes, lines = self.lanes, self.plan.lines
        if self.pixels is None:
            return self.turned[tir.vector((first + i * self.pitch) * lanes, lanes)]
        x = self.place.reads + first + i * lines.dilation
        at = self.pixels.at(self.place.image, channels, self.place.line, x)
        value = self.args.data[tir.vector(at, lanes)]
        if not checked:
            return value
        return tirx.if_then_else(tirx.all(x >= 0, x < lines.length), value, tir.zeros(lanes))

    def _times(self, factor: float, value: Vector) -> Vector:
        return tir.splat(tir.number(factor), self.lanes) * value

    def _inside(self, run: Index) -> tuple[Index, Index]:
        """The elements of a run that are in the line: the first, and the one behind the last."""
        plan = self.plan
        start = self.place.reads + run * plan.lines.dilation
        low = T.Bind(tirx.Min(tirx.Max(-start, tir.index(0)), tir.index(plan.in_run)))
        high = tirx.Max(tirx.Min(plan.lines.length - start, tir.index(plan.in_run)), low)
        return low, T.Bind(high)

    def _pad(self) -> None:
        """What is outside of the line is zero, and stays so through all channels."""
        with tir.loop(self.runs) as run:
            low, high = self._inside(run)
            for first, end in ((tir.index(0), low), (high, tir.index(self.plan.in_run))):
                with T.serial(first, end) as x:
                    at = (run * self.plan.in_run + x) * self.lanes
                    tir.store(self.turned, tir.zeros(self.lanes), tir.vector(at, self.lanes))

    def _turn(self, channels: Index) -> None:
        """The block's elements of a vector of channels in NCHW to [element][channel]."""
        plan, conv, lines, lanes = self.plan, self.plan.conv, self.plan.lines, self.lanes
        starts = []
        for lane in range(lanes):
            # Missing channels read the last one: their results meet no weights.
            channel = channels * lanes + lane
            if conv.in_c % lanes:
                channel = tir.least(channel, conv.in_c - 1)
            plane = (self.place.image * conv.in_c + channel) * lines.count + self.place.line
            starts.append(T.Bind(plane * lines.length + self.place.reads))
        with tir.loop(self.runs) as run:
            low, high = self._inside(run)
            there, to = T.Bind(run * lines.dilation), T.Bind(run * plan.in_run)

            def group(at: Index) -> None:
                rows = [T.Bind(self.args.data[tir.vector(start + there + at, lanes)]) for start in starts]
                for lane, value in enumerate(transpose(rows)):
                    tir.store(self.turned, value, tir.vector((to + at + lane) * lanes, lanes))

            with T.If(high - low >= lanes):
                with T.Then():
                    with tir.loop((high - low) // lanes) as turn:
                        group(T.Bind(low + turn * lanes))
                    # The last group overlaps the one before it.
                    group(T.Bind(high - lanes))
                with T.Else(), T.serial(low, high) as at:
                    for lane, start in enumerate(starts):
                        tir.store(self.turned, self.args.data[start + there + at], (to + at) * lanes + lane)
