"""The sizes that one config of the grouped convolution implies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from kernels.arithmetic import ceil_div, even
from kernels.emit.padding import InputLayout
from kernels.float.plan import ConvPlan
from kernels.knobs import KnobSet
from kernels.workload.base import Conv2d

GROUPS, FILTERS = "groups", "filters"
"""What threads share out: the groups of all images, or the filters of each group."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``filters`` x ``rows`` x ``vectors`` of the output are one register block; ``flat`` treats a whole
    plane as one long row, which wastes fewer lanes on narrow planes and costs a copy of the output. ``split``
    says whether threads share out groups or filters.
    """

    filters: int
    rows: int
    vectors: int
    flat: bool
    split: str = GROUPS


@dataclass(frozen=True)
class Plan(ConvPlan):
    """One config's sizes."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why the register block does not fit the registers or the plane, or None when it does."""
        filters, rows, vectors = self.knobs.filters, self.knobs.rows, self.knobs.vectors
        sums, limit = filters * rows * vectors, self.target.vector_registers - 4
        if sums > limit:
            return f"{filters}x{rows}x{vectors} accumulators spill: {self.target.name} holds {limit}"
        if min(filters, rows, vectors) > 1 and sums > self.target.vector_registers // 2:
            return f"{filters}x{rows}x{vectors} accumulators leave no registers for the operands"
        if self.knobs.flat and rows > 1:
            return "the flat form has one row"
        across = ceil_div(self.conv.out_w, self.lanes)
        return f"a row has {across} vectors" if not self.knobs.flat and vectors > across else None

    @cached_property
    def group(self) -> Conv2d:
        """The convolution that each group of each image does by itself."""
        return replace(self.conv, n=1, in_c=self.conv.depth, out_c=self.conv.filters, groups=1)

    @property
    def split(self) -> str:
        """What threads share out."""
        return self.knobs.split

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.conv.out_c * self.conv.depth * self.conv.taps

    @property
    def layout(self) -> InputLayout:
        """Where a group's windows are. Vectors that stick out over the output need slack behind them."""
        sticks_out = self.knobs.flat or self.group.out_w < self.lanes
        return InputLayout(self.group, self.knobs.vectors * self.lanes if sticks_out else 0)

    @property
    def columns(self) -> int:
        """Elements of a row of output: in flat form all rows are one, as long as they are in the input."""
        if not self.knobs.flat:
            return self.group.out_w
        return (self.group.out_h - 1) * self.layout.row_pitch + self.group.out_w

    @property
    def lines(self) -> int:
        """Rows of output; one in flat form."""
        return 1 if self.knobs.flat else self.group.out_h

    @property
    def strips(self) -> list[tuple[int, int]]:
        """(vectors, how many) of the strips that cover a row."""
        return even(ceil_div(self.columns, self.lanes), self.knobs.vectors)

    @property
    def filter_blocks(self) -> int:
        """Blocks of filters of a group."""
        return ceil_div(self.group.out_c, self.knobs.filters)
