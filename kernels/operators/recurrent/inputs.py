"""The product of one row's data: before the first step, or a few steps ahead of the states beside theirs."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index
from kernels.operators.recurrent.recurrence import GATES, Recurrence, blocks, input_rows, overlaps, padded
from kernels.target import Target


class Inputs:
    """Products of all gates, and the bias, of ``rows`` steps at once, a vector of gates at a time.

    ``product`` holds them, the padded gates of a step one after the other. Where the target ``overlaps``, the
    vectors of the next run of ``rows`` steps are made while those of one are taken: one beside each block of
    the states' products. The first ``longest`` steps are taken. ``unit`` elements of a step's data are read
    together, which pays where an instruction multiplies by a lane.
    """

    def __init__(
        self, recurrence: Recurrence, target: Target, arguments: dict[str, Buffer], longest: Index
    ) -> None:
        self.it, self.lanes, self.longest = recurrence, target.lanes(), longest
        self.data, self.weights = arguments["data"], arguments["input_weights"]
        hidden, gate = recurrence.hidden, padded(recurrence.hidden, target)
        self.row = GATES[recurrence.kind] * gate
        self.rows = input_rows(recurrence, target)
        self.blocks = sum(count for phase in blocks(recurrence, target) for _, count in phase)
        self.beside = overlaps(target)
        by_lanes = not self.beside and recurrence.width % self.lanes == 0
        self.unit = self.lanes if by_lanes else 1
        self.product = tir.scratch(recurrence.steps * self.row)
        self.bias = tir.scratch(self.row)
        for number in range(GATES[recurrence.kind]):
            with T.serial(0, hidden) as at:
                tir.store(self.bias, arguments["input_bias"][number * hidden + at], number * gate + at)
            with T.serial(hidden, gate) as at:
                tir.store(self.bias, tir.number(0.0), number * gate + at)

    def begin(self) -> None:
        """The products of the first run of steps, or of all where none are made beside the states'."""
        runs = tir.index(1) if self.beside else (self.longest + (self.rows - 1)) // self.rows
        with T.serial(0, self.row // self.lanes) as vector, T.serial(0, runs) as run:
            some = Some(self, vector, T.Bind(self._top(run)))
            with T.serial(0, self.it.width // self.unit) as turn:
                some.add(turn)
            some.finish()

    def _top(self, run: Index) -> Index:
        """The lowest step of run number ``run``; it may begin or end among those of another."""
        if self.it.reverse:
            return tirx.Max(self.longest - (run + 1) * self.rows, 0)
        return tirx.Min(run * self.rows, self.it.steps - self.rows)

    def ahead(self, step: Index) -> tuple[Ahead, Expr]:
        """What is made beside ``step``, and whether there is anything left to make."""
        turn = T.Bind(self.longest - 1 - step if self.it.reverse else step + 0)
        run = T.Bind(turn // self.rows + 1)
        first = T.Bind(turn % self.rows * self.blocks)
        return Ahead(self, T.Bind(self._top(run)), first), run * self.rows < self.longest


class Ahead:
    """The part of the run of steps from ``top`` on that is made beside one step, from vector ``first`` on."""

    def __init__(self, inputs: Inputs, top: Index, first: Index) -> None:
        self.inputs, self.top, self.first = inputs, top, first

    def beside(self, block: Index) -> Some:
        """What is made beside block number ``block`` of the states' products; the last may come twice."""
        last = self.inputs.row // self.inputs.lanes - 1
        return Some(self.inputs, T.Bind(tirx.Min(self.first + block, last)), self.top)


class Some:
    """Vector number ``vector`` of the gates of ``rows`` steps from ``top`` on, summed in registers."""

    def __init__(self, inputs: Inputs, vector: Index, top: Index) -> None:
        self.it, self.vector, self.top = inputs, vector, top
        lanes = inputs.lanes
        self.sums = tir.registers(inputs.rows * lanes)
        self.slots = [tir.vector(row * lanes, lanes) for row in range(inputs.rows)]
        for slot in self.slots:
            tir.store(self.sums, inputs.bias[tir.vector(vector * lanes, lanes)], slot)

    def add(self, turn: Index) -> None:
        """The products of unit number ``turn`` of each step's data."""
        it, lanes, k = self.it, self.it.lanes, turn * self.it.unit
        lines = [(self.top + row) * it.it.width + k for row in range(it.rows)]
        if it.unit > 1:
            data = [T.Bind(it.data[tir.vector(line, it.unit)]) for line in lines]
            values = [
                [tirx.Shuffle([each], [tir.index(lane)] * lanes) for each in data] for lane in range(it.unit)
            ]
        else:
            values = [[tir.splat(it.data[line], lanes) for line in lines]]
        for lane, each in enumerate(values):
            weights = it.weights[tir.vector((self.vector * it.it.width + k + lane) * lanes, lanes)]
            for slot, value in zip(self.slots, each, strict=True):
                tir.store(self.sums, self.sums[slot] + value * weights, slot)

    def finish(self) -> None:
        """Keep the sums."""
        for row, slot in enumerate(self.slots):
            place = (self.top + row) * self.it.row + self.vector * self.it.lanes
            tir.store(self.it.product, self.sums[slot], tir.vector(place, self.it.lanes))
