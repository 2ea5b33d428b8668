"""The product of one row's data, made a few steps ahead of the states and beside their own products."""

from __future__ import annotations

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels.emit import tir
from kernels.emit.types import Buffer, Expr, Index
from kernels.operators.recurrent.recurrence import GATES, Recurrence, blocks, input_rows, padded
from kernels.target import Target


class Inputs:
    """Products of all gates, and the bias, of ``rows`` steps at once, a vector of gates at a time.

    ``product`` holds them, the padded gates of a step one after the other. While the steps of one run of
    ``rows`` are taken, the vectors of the next run are made, one beside each block of the states' products.
    The first ``longest`` steps are taken.
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
        self.product = tir.scratch(recurrence.steps * self.row)
        self.bias = tir.scratch(self.row)
        for number in range(GATES[recurrence.kind]):
            with T.serial(0, hidden) as at:
                tir.store(self.bias, arguments["input_bias"][number * hidden + at], number * gate + at)
            with T.serial(hidden, gate) as at:
                tir.store(self.bias, tir.number(0.0), number * gate + at)

    def begin(self) -> None:
        """The products of the first run of steps."""
        top = T.Bind(self._top(tir.index(0)))
        with T.serial(0, self.row // self.lanes) as vector:
            some = Some(self, vector, top)
            with T.serial(0, self.it.width) as k:
                some.add(k)
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

    def add(self, k: Index) -> None:
        """The products of element ``k`` of each step's data."""
        it, lanes = self.it, self.it.lanes
        weights = it.weights[tir.vector((self.vector * it.it.width + k) * lanes, lanes)]
        for row, slot in enumerate(self.slots):
            value = tir.splat(it.data[(self.top + row) * it.it.width + k], lanes)
            tir.store(self.sums, self.sums[slot] + value * weights, slot)

    def finish(self) -> None:
        """Keep the sums."""
        for row, slot in enumerate(self.slots):
            place = (self.top + row) * self.it.row + self.vector * self.it.lanes
            tir.store(self.it.product, self.sums[slot], tir.vector(place, self.it.lanes))
