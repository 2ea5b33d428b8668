"""What the micro-kernels of integer matrix products on Arm have in common: rows and columns of sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.kernel import Array

QUAD = 4
"""Sums of 32 bits in one vector register."""


@dataclass(frozen=True)
class Rows:
    """Where a block finds its rows: element ``k`` of row ``r`` of step ``s`` is at
    ``at + s * step + r * pitch + k`` of ``buffer``."""

    buffer: Buffer
    at: Index
    pitch: int


@dataclass(frozen=True)
class Block(ABC):
    """``rows`` x ``columns`` sums. ``begin``, then ``step`` for each ``depth`` elements of k, then ``end``.

    A step reads ``rows`` x ``depth`` elements of the one operand as ``Rows`` says and the other's as
    ``weights_step`` orders them. ``arm32`` stands for a target of 32 bits.
    """

    rows: int
    columns: int
    signed: bool = True
    chain: int = 1
    arm32: bool = False
    name: ClassVar[str] = ""
    depth: ClassVar[int]
    """Elements of k in a step."""

    @property
    def unit(self) -> int:
        """Elements of k that are loaded together."""
        return self.depth

    @property
    @abstractmethod
    def accumulators(self) -> int:
        """Vector registers that the sums take."""

    @property
    @abstractmethod
    def operands(self) -> int:
        """Vector registers that operands and products take beside the sums."""

    @property
    @abstractmethod
    def cycles(self) -> float:
        """Vector instructions of a step, in whole vectors: what a unit of 128 bits takes."""

    @property
    def dtype(self) -> str:
        """The type of both packed operands."""
        return "int8" if self.signed else "uint8"

    @property
    def loads(self) -> float:
        """Loads of a step."""
        return (self.rows + self.panel) * self.depth * np.dtype(self.dtype).itemsize / 16

    @property
    def panel(self) -> int:
        """Columns of a step's weights as they are stored."""
        return self.columns

    def length(self, steps: int) -> int:
        """Elements of a panel as it is stored."""
        return self.panel * self.depth * steps

    def weights_step(self, panel: Array) -> Array:
        """An array (..., depth, self.panel) as its steps are stored: columns, each of ``depth``."""
        return panel.swapaxes(-1, -2)

    def panels(self, columns: int) -> list[tuple[int, int, Block]]:
        """(first column, panels, block) of the whole panels and of the narrower one that is left."""
        whole, rest = divmod(columns, self.columns)
        found = [(0, whole, self)] if whole else []
        return [*found, (whole * self.columns, 1, replace(self, columns=rest))] if rest else found

    def filled(self, columns: int) -> int:
        """``columns`` as their panels are stored."""
        return sum(count * block.panel for _, count, block in self.panels(columns))

    def panel_at(self, first: int) -> int:
        """How many columns are stored before the panel that begins with column ``first``."""
        return first // self.columns * self.panel

    def pack(self, weights: Array) -> Array:
        """``weights`` (steps, depth, columns) panel by panel, each step's block transposed as wanted."""
        parts = []
        for first, count, block in self.panels(weights.shape[-1]):
            part = weights[..., first : first + count * block.columns]
            part = part.reshape(*weights.shape[:2], count, block.columns).transpose(2, 0, 1, 3)
            part = np.pad(part, [(0, 0)] * 3 + [(0, block.panel - block.columns)])
            parts.append(block.stored(part))
        return np.concatenate(parts)

    def stored(self, panels: Array) -> Array:
        """``panels`` (panel, steps, depth, self.panel) one after the other, flat."""
        return np.ascontiguousarray(self.weights_step(panels)).reshape(-1)

    def of_rows(self, rows: int) -> Block:
        """The same block, ``rows`` high."""
        return replace(self, rows=rows)

    def begin(self, starts: list[list[Vector]]) -> Buffer:
        """Registers for the sums; ``starts`` is int32x4 of each group of four columns, row by row."""
        sums = tir.registers(self.accumulators * QUAD, "int32")
        for at, value in enumerate(self.start(starts)):
            tir.store(sums, value, quad_at(at))
        return sums

    def start(self, starts: list[list[Vector]]) -> list[Vector]:
        """What the accumulators hold before the first step; nothing when that step sets them."""
        return [value for row in starts for value in row]

    @property
    def first_apart(self) -> bool:
        """Whether the first step is to have code of its own, before the loop of the others."""
        return True

    @abstractmethod
    def step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, first: bool) -> None:
        """Add the products of one step, whose weights are at ``at``; ``first`` is the one after ``begin``."""

    @abstractmethod
    def end(self, sums: Buffer, bias: list[Vector]) -> list[list[Vector]]:
        """The sums and the bias by row and by group of four columns, int32x4 each.

        Lanes beyond ``columns`` hold anything.
        """


class Quads(Block):
    """Blocks whose accumulators hold four columns of one row."""

    @property
    def accumulators(self) -> int:
        """One for four columns of a row."""
        return self.rows * self._quads

    @property
    def panel(self) -> int:
        """Columns, filled up to fours."""
        return self._quads * QUAD

    @property
    def _quads(self) -> int:
        return ceil_div(self.columns, QUAD)

    def end(self, sums: Buffer, bias: list[Vector]) -> list[list[Vector]]:
        """The sums as they are: they began with the bias."""
        slots = [sums[quad_at(at)] for at in range(self.accumulators)]
        return [slots[at : at + self._quads] for at in range(0, self.accumulators, self._quads)]


def quad_at(at: int) -> Vector:
    """Where accumulator number ``at`` is among the sums."""
    return tir.vector(at * QUAD, QUAD)


def lanes_of(vector: Vector, start: int, lanes: int) -> Vector:
    """``lanes`` lanes of a vector from ``start`` on."""
    return T.Bind(tirx.Shuffle([vector], [tir.index(start + lane) for lane in range(lanes)]))


def call(dtype: str, name: str, *arguments: Vector) -> Vector:
    """One of LLVM's instructions, of a vector ``dtype``."""
    return tirx.call_llvm_pure_intrin(dtype, name, *arguments)
