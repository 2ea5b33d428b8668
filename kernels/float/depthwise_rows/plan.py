"""The sizes of one config of a depthwise convolution whose vectors are neighbouring columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.float.depthwise.plan import GROUPS
from kernels.float.plan import ConvPlan
from kernels.knobs import KnobSet


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``rows`` x ``vectors`` of the output are one register block; ``split`` is what threads share out,
    channels or rows."""

    rows: int
    vectors: int
    split: str = GROUPS


@dataclass(frozen=True)
class Plan(ConvPlan):
    """A register block is ``rows`` rows by ``vectors`` vectors of columns."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why too few registers are left to values and taps, or None when half of them are."""
        rows, vectors, limit = self.knobs.rows, self.knobs.vectors, self.target.vector_registers // 2
        if rows * vectors <= limit:
            return None
        return f"{rows}x{vectors} accumulators spill: {self.target.name} holds {limit}"

    @property
    def packed_length(self) -> int:
        """Elements of the weights."""
        return self.conv.out_c * self.conv.taps

    @property
    def span(self) -> int:
        """Columns of the input between the first and last window of a vector, and those they skip."""
        return self.lanes * self.conv.stride[1]

    @property
    def blocks(self) -> list[tuple[tuple[int, ...], int]]:
        """The first columns of a block's vectors, and how many blocks follow each other like that.

        Together they cover a row; its last vector ends with the row and may overlap the one before it.
        """
        columns, lanes = self.conv.out_w, self.lanes
        starts = [min(at, columns - lanes) for at in range(0, columns, lanes)]
        blocks: list[tuple[tuple[int, ...], int]] = []
        for first in range(0, len(starts), self.knobs.vectors):
            block = tuple(starts[first : first + self.knobs.vectors])
            if blocks:
                last, count = blocks[-1]
                step = count * self.knobs.vectors * lanes
                if block == tuple(at + step for at in last) and self._inner(last) and self._inner(block):
                    blocks[-1] = (last, count + 1)
                    continue
            blocks.append((block, 1))
        return blocks

    def source(self, window: int, tap: int) -> int:
        """The column of the input that a window in a column meets with a tap of a row."""
        return window * self.conv.stride[1] - self.conv.pad[1] + tap * self.conv.dilation[1]

    def _inner(self, starts: Sequence[int]) -> bool:
        """Whether all vectors of the input lie inside the row."""
        last = self.source(starts[-1], self.conv.kw - 1) + self.span
        return self.source(starts[0], 0) >= 0 and last <= self.conv.in_w
