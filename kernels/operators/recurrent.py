"""LSTM, GRU and RNN in one direction: what each step adds to products of the whole input made before.

A step is a few rows times the recurrent weights, which lie in the order in which they are read, and then the
cell's functions by whole vectors. Gates are padded to whole vectors, so that each begins at one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels.arithmetic import ceil_div, even
from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.types import Buffer, Expr, Index, PrimFunc
from kernels.operators.cells import Cell
from kernels.operators.int8.dynamic import range_of
from kernels.operators.whole import Products, products_of
from kernels.target import Target

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
MOST_ROWS, MOST_VECTORS = 4, 8
"""Of one block of sums; eight vectors hide the latency of a multiply-add."""
INPUT_ROWS = 8
"""Steps of the data that are multiplied together where that is done here."""


@dataclass(frozen=True)
class Recurrence:
    """``steps`` steps of ``batch`` states of ``hidden`` floats; ``kind`` is one of ``GATES``, whose order is
    ONNX's. ``cells`` are its functions f, g, h.

    ``cell_clip`` bounds the memory of an LSTM, as TFLite does. ``reset_after`` is ONNX's
    ``linear_before_reset`` of a GRU, ``coupled`` the ``input_forget`` of an LSTM. ``whole`` is the type
    of recurrent weights that are whole numbers, int8 or int16: states are then rounded, before the
    product of a step, as DynamicQuantizeLinear does, and sums are of integers. ``lengths`` says that each
    row has a number of steps of its own, an argument of int32: its state stays as it is, and its output
    is zeros, in the steps from there on. A row of no steps ends in zeros. ``width`` is for lengths and one
    row: the data are then of so many floats a step, not multiplied yet, so that the product is made here,
    of the steps that there are.
    """

    kind: str
    steps: int
    batch: int
    hidden: int
    cells: tuple[Cell, ...]
    reverse: bool = False
    clip: float | None = None
    cell_clip: float | None = None
    reset_after: bool = False
    coupled: bool = False
    peepholes: bool = False
    whole: str | None = None
    lengths: bool = False
    width: int = 0

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """The gates whose products are made together; a GRU's last may need what the others come to."""
        gates = tuple(range(GATES[self.kind]))
        return (gates[:2], gates[2:]) if self.kind == "GRU" and not self.reset_after else (gates,)

    def depth(self, target: Target) -> int:
        """The states of a row that are multiplied, with zeros where several are taken together."""
        unit = products_of(bool(self.whole), target).unit
        return ceil_div(self.hidden, unit) * unit

    def shapes(self, target: Target) -> dict[str, tuple[int, ...]]:
        """Shapes of the arguments, results last."""
        state = (self.batch, self.hidden)
        shapes = {
            "data": (self.steps, self.batch, self.width or GATES[self.kind] * self.hidden),
            "weights": (_padded(self.hidden, target) * GATES[self.kind] * self.depth(target),),
            "initial_h": state,
        }
        if self.kind == "LSTM":
            shapes["initial_c"] = state
            if self.peepholes:
                shapes["peepholes"] = (3 * self.hidden,)
        if self.reset_after:
            shapes["bias"] = (self.hidden,)
        if self.whole:
            shapes["units"] = (GATES[self.kind] * self.hidden,)
        if self.lengths:
            shapes["lengths"] = (self.batch,)
        if self.width:
            shapes["input_weights"] = (_padded(self.hidden, target) * GATES[self.kind] * self.width,)
            shapes["input_bias"] = (GATES[self.kind] * self.hidden,)
        shapes["out"], shapes["last_h"] = (self.steps, *state), state
        if self.kind == "LSTM":
            shapes["last_c"] = state
        return shapes


def _padded(hidden: int, target: Target) -> int:
    return ceil_div(hidden, target.lanes()) * target.lanes()


def _blocks(recurrence: Recurrence, target: Target) -> list[list[tuple[int, int]]]:
    """For each phase (size, how many) of the blocks of vectors that are summed together."""
    rows = min(MOST_ROWS, recurrence.batch)
    most = max(1, min(MOST_VECTORS, (target.vector_registers - 2) // (rows + 1)))
    vectors = _padded(recurrence.hidden, target) // target.lanes()
    return [even(len(gates) * vectors, most) for gates in recurrence.phases]


def _input_blocks(recurrence: Recurrence, target: Target) -> tuple[int, list[tuple[int, int]]]:
    """How many steps are multiplied together, and (size, how many) of the blocks of vectors that are."""
    rows = min(INPUT_ROWS if target.vector_registers > 16 else MOST_ROWS, recurrence.steps)
    most = max(1, min(MOST_VECTORS, (target.vector_registers - 2) // (rows + 1)))
    vectors = _padded(recurrence.hidden, target) // target.lanes()
    return rows, even(GATES[recurrence.kind] * vectors, most)


def pack_recurrent(recurrence: Recurrence, weights: npt.NDArray[Any], target: Target) -> npt.NDArray[Any]:
    """Recurrent weights (gates * hidden, hidden) as the function takes them: block by block."""
    unit = products_of(bool(recurrence.whole), target).unit
    blocks = [each for phase in _blocks(recurrence, target) for each in phase]
    return _packed(recurrence, weights, recurrence.depth(target), unit, blocks, target)


def pack_inputs(recurrence: Recurrence, weights: npt.NDArray[Any], target: Target) -> npt.NDArray[Any]:
    """Weights of the data (gates * hidden, width) as the function takes them."""
    _, blocks = _input_blocks(recurrence, target)
    return _packed(recurrence, weights, recurrence.width, 1, blocks, target)


def _packed(
    recurrence: Recurrence,
    weights: npt.NDArray[Any],
    depth: int,
    unit: int,
    blocks: Sequence[tuple[int, int]],
    target: Target,
) -> npt.NDArray[Any]:
    hidden, padded, lanes = recurrence.hidden, _padded(recurrence.hidden, target), target.lanes()
    gates = np.zeros((GATES[recurrence.kind], padded, depth), weights.dtype)
    gates[:, :hidden, : weights.shape[1]] = weights.reshape(-1, hidden, weights.shape[1])
    columns, parts, first = gates.reshape(GATES[recurrence.kind] * padded, -1, unit), [], 0
    for size, count in blocks:
        for _ in range(count):
            parts.append(columns[first : first + size * lanes].swapaxes(0, 1).reshape(-1))
            first += size * lanes
    return np.ascontiguousarray(np.concatenate(parts))


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
        self.padded = _padded(recurrence.hidden, target)
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
        if it.lengths:
            lengths = (self.arguments["lengths"][row] for row in range(it.batch))
            longest = T.Bind(reduce(tirx.Max, lengths))
        # Where the data are, multiplied, and how far its gates and its rows lie apart.
        self.data, self.data_gate = self.arguments["data"], it.hidden
        if it.width:
            self.data, self.data_gate = tir.scratch(it.steps * self.row), self.padded
            self._multiply(longest)
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
        first = 0
        for blocks in _blocks(it, self.target):
            source = self.reset if first and self.reset is not None else self.seen
            products = partial(self._products, first, blocks, source)
            forth = T.Bind(turn % 2) == 0 if self._turns_back() else None
            tir.choose(forth, partial(products, False), partial(products, True))
            first += sum(size * count for size, count in blocks)
            if self.reset is not None and source is self.seen:
                self._each(step, self._reset)
        self._each(step, {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[it.kind])

    def _round(self) -> None:
        """The states as bytes less their zero: 256 steps from the least to the greatest, one of them 0."""
        hidden, way = self.it.hidden, self.way
        least, greatest = range_of(self.state, self.it.batch * hidden, 1, self.lanes)
        span = T.Bind(greatest - least)
        self.step = T.Bind(tirx.Select(span > tir.number(0.0), span / tir.number(255.0), tir.number(1.0)))
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

    def _multiply(self, longest: Index) -> None:
        """The product of the data, and its bias, of the steps before ``longest``."""
        rows, blocks = _input_blocks(self.it, self.target)
        bias = tir.scratch(self.row)
        for gate in range(GATES[self.it.kind]):
            with T.serial(0, self.it.hidden) as at:
                value = self.arguments["input_bias"][gate * self.it.hidden + at]
                tir.store(bias, value, gate * self.padded + at)
            with T.serial(self.it.hidden, self.padded) as at:
                tir.store(bias, tir.number(0.0), gate * self.padded + at)
        begin = 0
        for size, count in blocks:
            with tir.loop(count) as number:
                at = T.Bind(number * size + begin)
                with T.serial(0, (longest + (rows - 1)) // rows) as block:
                    # The last may begin within the one before.
                    top = T.Bind(tirx.Min(block * rows, self.it.steps - rows))
                    self._input(rows, top, at, size, bias)
            begin += size * count

    def _input(self, rows: int, top: Index, at: Index, size: int, bias: Buffer) -> None:
        """``rows`` steps of the data times the weights of ``size`` vectors of gates."""
        width, lanes = self.it.width, self.lanes
        cells = [(row, part) for row in range(rows) for part in range(size)]
        sums = tir.registers(len(cells) * lanes)
        slots = {cell: tir.vector(place * lanes, lanes) for place, cell in enumerate(cells)}
        for (_, part), slot in slots.items():
            tir.store(sums, bias[tir.vector((at + part) * lanes, lanes)], slot)
        with T.serial(0, width) as k:
            for (row, part), slot in slots.items():
                place = at * (lanes * width) + (k * size + part) * lanes
                weights = self.arguments["input_weights"][tir.vector(place, lanes)]
                value = tir.splat(self.arguments["data"][(top + row) * width + k], lanes)
                tir.store(sums, sums[slot] + value * weights, slot)
        for (row, part), slot in slots.items():
            place = (top + row) * self.row + (at + part) * lanes
            tir.store(self.data, sums[slot], tir.vector(place, lanes))

    def _turns_back(self) -> bool:
        """Whether every other step reads the weights backwards, so that it begins with what L1 still has."""
        element_bytes = {"int8": 1, "int16": 2, None: 4}[self.it.whole]
        size = self.row * self.depth * element_bytes
        return self.target.l1_bytes < size and self.it.batch <= MOST_ROWS and self.it.steps > 1

    def _products(self, first: int, blocks: Sequence[tuple[int, int]], source: Buffer, back: bool) -> None:
        """The sums of these blocks of vectors from the ``first`` on."""
        runs = []
        for size, count in blocks:
            runs.append((first, size, count))
            first += size * count
        for begin, size, count in reversed(runs) if back else runs:
            with tir.loop(count) as number:
                at = T.Bind(((count - 1 - number) if back else number) * size + begin)
                emit = partial(self._sums, at=at, size=size, source=source, back=back)
                tir.blocks(self.it.batch, MOST_ROWS, emit)

    def _sums(self, rows: int, top: Index, at: Index, size: int, source: Buffer, back: bool) -> None:
        """``rows`` rows of ``source`` times the weights of ``size`` vectors of gates."""
        depth, lanes, way = self.depth, self.lanes, self.way
        cells = [(row, part) for row in range(rows) for part in range(size)]
        sums = tir.registers(len(cells) * lanes, way.sums)
        slots = {cell: tir.vector(place * lanes, lanes) for place, cell in enumerate(cells)}
        for slot in slots.values():
            tir.store(sums, tir.splat(tirx.const(0, way.sums), lanes), slot)
        with T.serial(0, depth // way.unit) as turn:
            k = depth // way.unit - 1 - turn if back else turn
            for (row, part), slot in slots.items():
                place = at * (lanes * depth) + (k * size + part) * (lanes * way.unit)
                value = way.splat(source, (top + row) * depth + k * way.unit, lanes)
                tir.store(sums, way.add(sums[slot], value, self.arguments["weights"], place, lanes), slot)
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
