"""What a recurrence is, and the order in which its weights are read.

Gates are padded to whole vectors, so that each begins at one. Weights lie block by block of vectors that are
summed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.arithmetic import ceil_div, even
from kernels.int8.x86.instructions import why_not_x86
from kernels.operators.cells import Cell
from kernels.operators.whole import products_of
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
    is zeros, in the steps from there on. A row of no steps ends in zeros. ``width`` is for one row of floats:
    the data are then of so many floats a step, not multiplied yet. Their product is made here, of the steps
    that there are; on a target that ``overlaps``, beside the products of the states: those wait for their
    weights to come from L2, and leave half of the multiply-adds free.
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
        gates = GATES[self.kind]
        shapes = {
            "data": (self.steps, self.batch, self.width or gates * self.hidden),
            "weights": (gates * padded(self.hidden, target) * self.depth(target),),
            "initial_h": state,
        }
        if self.kind == "LSTM":
            shapes["initial_c"] = state
            if self.peepholes:
                shapes["peepholes"] = (3 * self.hidden,)
        if self.reset_after:
            shapes["bias"] = (self.hidden,)
        if self.whole:
            shapes["units"] = (gates * self.hidden,)
        if self.lengths:
            shapes["lengths"] = (self.batch,)
        if self.width:
            shapes["input_weights"] = (gates * padded(self.hidden, target) * self.width,)
            shapes["input_bias"] = (gates * self.hidden,)
        shapes["out"], shapes["last_h"] = (self.steps, *state), state
        if self.kind == "LSTM":
            shapes["last_c"] = state
        return shapes


def padded(hidden: int, target: Target) -> int:
    """``hidden``, or as many more as fill the last vector."""
    return ceil_div(hidden, target.lanes()) * target.lanes()


def ahead_pays(kind: str, steps: int, hidden: int, width: int) -> bool:
    """Whether one row's data (``steps``, ``width``) are better multiplied beside the steps than before them.

    They are where the weights of the states come from L2, being too many for L1, and where their product is
    not the smaller part. From further away than L2 the weights of the data hold up those of the states.
    """
    states = 4 * GATES[kind] * hidden**2
    return 1 << 15 < states < 3 << 18 and steps >= 2 * INPUT_ROWS and width <= 2 * hidden


def overlaps(target: Target) -> bool:
    """Whether products beside those of the states cost little: where operands come from memory, repeated."""
    return not why_not_x86(target)


def input_rows(recurrence: Recurrence, target: Target) -> int:
    """How many steps of the data are multiplied together."""
    return min(INPUT_ROWS if target.vector_registers > 16 else MOST_ROWS, recurrence.steps)


def blocks(recurrence: Recurrence, target: Target) -> list[list[tuple[int, int]]]:
    """For each phase (size, how many) of the blocks of vectors that are summed together."""
    rows = min(MOST_ROWS, recurrence.batch)
    most = max(1, min(MOST_VECTORS, (target.vector_registers - 2) // (rows + 1)))
    if recurrence.width and overlaps(target):
        # Beside each block stands a vector of that many steps of the data: they then come round in time.
        most = min(most, input_rows(recurrence, target))
    vectors = padded(recurrence.hidden, target) // target.lanes()
    return [even(len(gates) * vectors, most) for gates in recurrence.phases]


def pack_recurrent(recurrence: Recurrence, weights: npt.NDArray[Any], target: Target) -> npt.NDArray[Any]:
    """Recurrent weights (gates * hidden, hidden) as the function takes them: block by block."""
    unit = products_of(bool(recurrence.whole), target).unit
    each = [block for phase in blocks(recurrence, target) for block in phase]
    return _packed(recurrence, weights, recurrence.depth(target), unit, each, target)


def pack_inputs(recurrence: Recurrence, weights: npt.NDArray[Any], target: Target) -> npt.NDArray[Any]:
    """Weights of the data (gates * hidden, width) as the function takes them: vector by vector."""
    vectors = GATES[recurrence.kind] * padded(recurrence.hidden, target) // target.lanes()
    return _packed(recurrence, weights, recurrence.width, 1, [(1, vectors)], target)


def _packed(
    recurrence: Recurrence,
    weights: npt.NDArray[Any],
    depth: int,
    unit: int,
    each: Sequence[tuple[int, int]],
    target: Target,
) -> npt.NDArray[Any]:
    hidden, whole, lanes = recurrence.hidden, padded(recurrence.hidden, target), target.lanes()
    gates = np.zeros((GATES[recurrence.kind], whole, depth), weights.dtype)
    gates[:, :hidden, : weights.shape[1]] = weights.reshape(-1, hidden, weights.shape[1])
    columns, parts, first = gates.reshape(GATES[recurrence.kind] * whole, -1, unit), [], 0
    for size, count in each:
        for _ in range(count):
            parts.append(columns[first : first + size * lanes].swapaxes(0, 1).reshape(-1))
            first += size * lanes
    return np.ascontiguousarray(np.concatenate(parts))
