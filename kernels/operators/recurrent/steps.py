"""LSTM, GRU and RNN in one direction: what each step adds to the products of the input.

A step is a few rows times the recurrent weights, which lie in the order in which they are read, and then the
cell's functions by whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc
from kernels.operators.cells import Cell
from kernels.operators.int8.dynamic import range_of
from kernels.operators.recurrent.inputs import Ahead, Inputs, Some
from kernels.operators.recurrent.recurrence import GATES, MOST_ROWS, Recurrence, blocks, padded
from kernels.operators.whole import Products, products_of
from kernels.target import Target


def build_recurrent(recurrence: Recurrence, target: Target, name: str) -> PrimFunc:
    """The PrimFunc ``name``; its arguments are those of ``Recurrence.shapes``.

    All are float32 but whole weights and lengths.
    """
    shapes = recurrence.shapes(target)
    function = Function(name, shapes, {"weights": recurrence.whole or tir.F32, "lengths": "int32"})
    with function as buffers:
        _Emitter(recurrence, target, dict(zip(shapes, buffers, strict=True))).run()
    return function.result()


class _Emitter:
    def __init__(self, recurrence: Recurrence, target: Target, arguments: dict[str, Buffer]) -> None:
        self.it, self.target, self.lanes = recurrence, target, target.lanes()
        self.arguments = arguments
        self.padded = padded(recurrence.hidden, target)
        self.row = GATES[recurrence.kind] * self.padded
        self.depth = recurrence.depth(target)
        self.way: Products = products_of(bool(recurrence.whole), target)
        self.step: Expr | None = None
        self.state = arguments["last_h"]
        self.memory = arguments.get("last_c")

    def run(self) -> None:
        it = self.it
        self.gates = tir.scratch(it.batch * self.row)
        self.reset = tir.scratch(it.batch * it.hidden) if len(it.phases) > 1 else None
        self.seen = self.state
        if it.whole:
            self.seen = tir.scratch(it.batch * self.depth, self.way.dtype)
            with T.serial(0, it.batch * self.depth) as at:
                tir.store(self.seen, tir.const(0, self.way.dtype), at)
        for state in ("h", "c") if it.kind == "LSTM" else ("h",):
            with T.serial(0, it.batch) as row, T.serial(0, it.hidden) as at:
                value = self.arguments[f"initial_{state}"][row * it.hidden + at]
                if it.lengths:
                    value = tirx.Select(self.arguments["lengths"][row] > 0, value, tir.number(0.0))
                tir.store(self.arguments[f"last_{state}"], value, row * it.hidden + at)
        longest: Index = tir.index(it.steps)
        if it.lengths:
            lengths = (self.arguments["lengths"][row] for row in range(it.batch))
            longest = T.Bind(reduce(tirx.Max, lengths))
        # Where the data are, multiplied, and how far the gates of a row lie apart.
        self.data, self.data_gate = self.arguments["data"], it.hidden
        self.inputs: Inputs | None = None
        if it.width:
            self.inputs = Inputs(it, self.target, self.arguments, longest)
            self.data, self.data_gate = self.inputs.product, self.padded
            self.inputs.begin()
        with T.serial(0, it.steps) as turn:
            step = T.Bind(it.steps - 1 - turn if it.reverse else turn + 0)
            if it.lengths:
                tir.choose(step < longest, partial(self._step, turn, step), partial(self._each, step, None))
            else:
                self._step(turn, step)

    def _step(self, turn: Index, step: Index) -> None:
        """The products of all rows, and what the cell makes of them."""
        it = self.it
        if it.whole:
            self._round()
        ahead, more = self.inputs.ahead(step) if self.inputs and self.inputs.beside else (None, None)
        vector = block = 0
        for runs in blocks(it, self.target):
            source = self.reset if vector and self.reset is not None else self.seen
            products = partial(self._products, vector, block, runs, source)
            forth = T.Bind(turn % 2) == 0 if self._turns_back() else None

            def both(ahead: Ahead | None, products: Any = products, forth: Expr | None = forth) -> None:
                tir.choose(forth, partial(products, False, ahead), partial(products, True, ahead))

            tir.choose(more, partial(both, ahead), partial(both, None))
            vector += sum(size * count for size, count in runs)
            block += sum(count for _, count in runs)
            if self.reset is not None and source is self.seen:
                self._each(step, self._reset)
        self._each(step, {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[it.kind])

    def _round(self) -> None:
        """The states as bytes less their zero: 256 steps from the least to the greatest, one of them 0."""
        hidden, way = self.it.hidden, self.way
        least, greatest = range_of(self.state, self.it.batch * hidden, 1, self.lanes)
        span = T.Bind(greatest - least)
        # NaN is no range, but it must not be lost.
        self.step = T.Bind(
            tirx.Select(span.equal(tir.number(0.0)), tir.number(1.0), span / tir.number(255.0))
        )
        low = T.Bind(tirx.nearbyint(least / self.step))
        width = min(self.lanes, 1 << (hidden.bit_length() - 1))

        def some(row: Index, first: Index) -> None:
            state = self.state[tir.vector(row * hidden + first, width)]
            quantum = tirx.nearbyint(state / tir.splat(self.step, width))
            top, bottom = (tir.splat(end, width) for end in (low + tir.number(255.0), low))
            quantum = tirx.Max(tirx.Min(quantum, top), bottom)
            value = tir.convert(tir.convert(quantum, "int32", width), way.dtype, width)
            tir.store(self.seen, value, tir.vector(row * self.depth + first, width))

        with T.serial(0, self.it.batch) as row:
            with T.serial(0, hidden // width) as turn:
                some(row, turn * width)
            if hidden % width:
                some(row, tir.index(hidden - width))

    def _turns_back(self) -> bool:
        """Whether every other step reads the weights backwards, so that it begins with what L1 still has."""
        element_bytes = {"int8": 1, "int16": 2, None: 4}[self.it.whole]
        size = self.row * self.depth * element_bytes
        return self.target.l1_bytes < size and self.it.batch <= MOST_ROWS and self.it.steps > 1

    def _products(
        self,
        vector: int,
        block: int,
        runs: Sequence[tuple[int, int]],
        source: Buffer,
        back: bool,
        ahead: Ahead | None,
    ) -> None:
        """The sums of these (size, how many) blocks from ``vector`` on, the first being number ``block``, and
        what is made ``ahead`` beside them."""
        placed = []
        for size, count in runs:
            placed.append((vector, block, size, count))
            vector, block = vector + size * count, block + count
        for begin, number, size, count in reversed(placed) if back else placed:
            with tir.loop(count) as turn:
                which = T.Bind((count - 1 - turn) if back else turn + 0)
                some = ahead.beside(which + number) if ahead else None
                at = T.Bind(which * size + begin)
                emit = partial(self._sums, at=at, size=size, source=source, back=back, some=some)
                tir.blocks(self.it.batch, MOST_ROWS, emit)

    def _sums(
        self, rows: int, top: Index, at: Index, size: int, source: Buffer, back: bool, some: Some | None
    ) -> None:
        """``rows`` rows of ``source`` times the weights of ``size`` vectors of gates, and ``some`` beside."""
        depth, lanes, way = self.depth, self.lanes, self.way
        cells = [(row, part) for row in range(rows) for part in range(size)]
        sums = tir.registers(len(cells) * lanes, way.sums)
        slots = {cell: tir.vector(place * lanes, lanes) for place, cell in enumerate(cells)}
        for slot in slots.values():
            tir.store(sums, tir.splat(tirx.const(0, way.sums), lanes), slot)

        def add(turn: Index) -> None:
            k = depth // way.unit - 1 - turn if back else turn
            for (row, part), slot in slots.items():
                place = at * (lanes * depth) + (k * size + part) * (lanes * way.unit)
                value = way.splat(source, (top + row) * depth + k * way.unit, lanes)
                tir.store(sums, way.add(sums[slot], value, self.arguments["weights"], place, lanes), slot)

        both = 0
        if some:
            unit, width = some.it.unit, self.it.width
            both = min(depth, width) // unit * unit
            with T.serial(0, both // unit) as turn:
                for part in range(unit):
                    add(turn * unit + part)
                some.add(turn)
            with T.serial(both // unit, width // unit) as turn:
                some.add(turn)
            some.finish()
        with T.serial(both, depth // way.unit) as turn:
            add(turn)
        for (row, part), slot in slots.items():
            place = (top + row) * self.row + (at + part) * lanes
            total = tir.convert(sums[slot], tir.F32, lanes) if self.it.whole else sums[slot]
            tir.store(self.gates, total, tir.vector(place, lanes))

    def _each(self, step: Index, cell: Callable[[Index, Index, Index, Index], None] | None) -> None:
        """``cell`` for every element of the states, vector by vector; zeros come out behind a row's end, and
        without a cell they are all behind it."""
        with T.serial(0, self.it.batch) as row:
            data = T.Bind((step * self.it.batch + row) * (GATES[self.it.kind] * self.data_gate))
            inside = step < self.arguments["lengths"][row] if self.it.lengths else None
            nothing = partial(self._vectors, lambda at: self._nothing(step, row, at))
            if cell is None:
                nothing()
            else:
                tir.choose(inside, lambda: self._vectors(lambda at: cell(step, row, data, at)), nothing)

    def _vectors(self, element: Callable[[Index], None]) -> None:
        hidden, lanes = self.it.hidden, self.lanes
        whole = hidden // lanes * lanes
        if whole:
            with T.serial(0, hidden // lanes) as group, T.vectorized(lanes) as lane:
                element(group * lanes + lane)
        if whole < hidden:
            with T.serial(whole, hidden) as rest:
                element(rest)

    def _nothing(self, step: Index, row: Index, at: Index) -> None:
        place = (step * self.it.batch + row) * self.it.hidden + at
        tir.store(self.arguments["out"], tir.number(0.0), place)

    def _gate(self, number: int, row: Index, data: Index, at: Index) -> Expr:
        return self._given(number, data, at) + self._product(number, row, at)

    def _given(self, number: int, data: Index, at: Index) -> Expr:
        return self.data[data + number * self.data_gate + at]

    def _product(self, number: int, row: Index, at: Index) -> Expr:
        total = self.gates[row * self.row + number * self.padded + at]
        if self.step is None:
            return total
        return total * (self.step * self.arguments["units"][number * self.it.hidden + at])

    def _keep(self, number: int, row: Index, at: Index, function: Cell, value: Expr) -> Expr:
        """``function`` of ``value``, once: it replaces the products of gate ``number``."""
        if self.it.clip is not None:
            limit = self.it.clip
            value = tirx.Max(tirx.Min(value, tir.number(limit)), tir.number(-limit))
        place = row * self.row + number * self.padded + at
        tir.store(self.gates, function(value), place)
        return self.gates[place]

    def _leave(self, step: Index, row: Index, at: Index, value: Expr) -> None:
        place = row * self.it.hidden + at
        tir.store(self.state, value, place)
        tir.store(self.arguments["out"], self.state[place], step * (self.it.batch * self.it.hidden) + place)

    def _rnn(self, step: Index, row: Index, data: Index, at: Index) -> None:
        value = self._keep(0, row, at, self.it.cells[0], self._gate(0, row, data, at))
        self._leave(step, row, at, value)

    def _reset(self, step: Index, row: Index, data: Index, at: Index) -> None:
        """What a GRU's last gate is made of where it is reset before the product."""
        value = self._keep(1, row, at, self.it.cells[0], self._gate(1, row, data, at))
        assert self.reset is not None
        place = row * self.it.hidden + at
        tir.store(self.reset, value * self.state[place], place)

    def _gru(self, step: Index, row: Index, data: Index, at: Index) -> None:
        f, g = self.it.cells
        update = self._keep(0, row, at, f, self._gate(0, row, data, at))
        if self.reset is None:
            reset = self._keep(1, row, at, f, self._gate(1, row, data, at))
            product = reset * (self._product(2, row, at) + self.arguments["bias"][at])
            value = self._given(2, data, at) + product
        else:
            value = self._gate(2, row, data, at)
        new = self._keep(2, row, at, g, value)
        before = self.state[row * self.it.hidden + at]
        self._leave(step, row, at, new + update * (before - new))

    def _lstm(self, step: Index, row: Index, data: Index, at: Index) -> None:
        f, g, h = self.it.cells
        assert self.memory is not None
        place = row * self.it.hidden + at
        before = self.memory[place]

        def sees(number: int, memory: Expr) -> Expr:
            if not self.it.peepholes:
                return tir.number(0.0)
            return self.arguments["peepholes"][number * self.it.hidden + at] * memory

        taken = self._keep(0, row, at, f, self._gate(0, row, data, at) + sees(0, before))
        if self.it.coupled:
            kept = tir.number(1.0) - taken
        else:
            kept = self._keep(2, row, at, f, self._gate(2, row, data, at) + sees(2, before))
        new = self._keep(3, row, at, g, self._gate(3, row, data, at))
        memory = kept * before + taken * new
        if self.it.cell_clip is not None:
            limit = self.it.cell_clip
            memory = tirx.Max(tirx.Min(memory, tir.number(limit)), tir.number(-limit))
        tir.store(self.memory, memory, place)
        shown = self._keep(1, row, at, f, self._gate(1, row, data, at) + sees(1, self.memory[place]))
        self._leave(step, row, at, shown * h(self.memory[place]))
