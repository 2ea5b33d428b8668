"""Packed GEMM with POWER10's matrix unit as its micro-kernel (seed 003, section 5.1).

The unit multiplies four elements of a column by four of a row, so tiles of the data are packed as well, each
with its rows side by side: once for all panels that meet them.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import mma, tir
from kernels.emit.shares import Share
from kernels.emit.tvm import T
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import load_part, split, transpose
from kernels.float.gemm.emit import Nest
from kernels.float.gemm.kernel import GemmPlan, PackedGemm, blocks_of
from kernels.float.gemm.plan import SPLITS
from kernels.float.plan import Arguments
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import Gemm

MOST = 8
"""Accumulators of the unit."""
TURN_CYCLES = 12.0
"""What it takes to pack four rows by four elements: loads, turns and stores of four vectors each."""


class MatrixPlan(GemmPlan):
    """A plan whose register block is made of 4x4 accumulators, and whose data are packed."""

    def why_not(self) -> str | None:
        """Why the unit has no such block, or leaves accumulators idle that the product could fill."""
        rows, vectors = self.high // mma.SIDE, self.knobs.vectors
        if rows * vectors > MOST or self.knobs.chains > 1:
            return f"{rows}x{vectors}x{self.knobs.chains} accumulators: the unit has {MOST}"
        if self.parts[1] > 1 and (self.parts[0] > self.panels or self.parts[1] > self.tiles):
            return "there are too few tiles for every thread to get one"
        return None

    @property
    def high(self) -> int:
        """Rows of a packed tile: whole accumulators."""
        return ceil_div(self.rows, mma.SIDE) * mma.SIDE

    def step_cycles(self, rows: int) -> float:
        """One product of each sum; those of missing rows are computed, too."""
        return mma.step_cycles(self.target, self.high, self.knobs.vectors)

    @property
    def packing_cycles(self) -> float:
        """All rows by four, once for each block of columns."""
        turns = ceil_div(self.workload.m, mma.SIDE) * ceil_div(self.workload.k, mma.SIDE)
        return TURN_CYCLES * turns * ceil_div(self.panels * self.width, self.nc)

    def body(self, args: Arguments) -> None:
        """Emit the code."""
        with mma.linked():
            MatrixNest(self, args).run()


class MatrixNest(Nest):
    """The loops of ``Nest`` around accumulators; ``packed`` has the tiles of a block of rows."""

    plan: MatrixPlan

    def _nest(self, over_panels: Share, tiles: Share) -> None:
        plan = self.plan
        self.packed = tir.scratch((plan.mc // plan.rows + 1) * plan.high * plan.kc)
        super()._nest(over_panels, tiles)

    def _prepare(self, rows: Share, k_block: Index, depth: Index) -> None:
        """Pack these tiles: of each the rows side by side, zeros where there are none."""
        plan = self.plan
        if plan.whole_tiles:
            with T.serial(rows.first, rows.stop) as tile:
                self._pack(plan.rows, tile * plan.rows, tile - rows.first, k_block, depth)
        if plan.edge_rows:
            with tir.when(rows.last):
                top, number = tir.index(plan.whole_tiles * plan.rows), plan.whole_tiles - rows.first
                self._pack(plan.edge_rows, top, number, k_block, depth)

    def _pack(self, rows: int, top: Index, number: Index, k_block: Index, depth: Index) -> None:
        plan, data, side = self.plan, self.args.data, mma.SIDE
        base = T.Bind(number * (plan.high * plan.kc))
        start = T.Bind(top * self.gemm.k + k_block * plan.kc)
        for group in range(0, plan.high, side):
            there = max(0, min(side, rows - group))

            def put(value: Vector, at: Index, group: int = group) -> None:
                tir.store(self.packed, value, tir.vector(base + at * plan.high + group, side))

            with T.serial(0, depth // side) as turn:
                lines = [
                    T.Bind(data[tir.vector(start + (group + row) * self.gemm.k + turn * side, side)])
                    for row in range(there)
                ]
                lines += [tir.zeros(side)] * (side - there)
                for place, value in enumerate(transpose(lines) if there else lines):
                    put(value, turn * side + place)
            with T.serial(depth // side * side, depth) as last:
                for row in range(side):
                    value = tir.number(0.0)
                    if row < there:
                        value = data[start + (group + row) * self.gemm.k + last]
                    tir.store(self.packed, value, base + last * plan.high + group + row)

    def _micro(
        self, rows: int, columns: int, top: Index, number: Index, panel: Index, k_block: Index, depth: Index
    ) -> None:
        """``rows`` x ``columns`` of the output, over one block of k: tile ``number`` of those packed."""
        plan, gemm, args, lanes = self.plan, self.gemm, self.args, self.plan.lanes
        vectors = ceil_div(columns, lanes)
        sums = tir.registers(plan.high * vectors * lanes)
        unit = mma.Accumulators(plan.high, vectors)

        def at(row: int, vector: int) -> Index:
            return (top + row) * gemm.n + panel * plan.width + vector * lanes

        def count(vector: int) -> int:
            return min(lanes, columns - vector * lanes)

        def slot(row: int, vector: int) -> Vector:
            return tir.vector((row * vectors + vector) * lanes, lanes)

        cells = [(row, vector) for row in range(plan.high) for vector in range(vectors)]

        def begin(first: bool) -> None:
            for row, vector in cells:
                value = tir.zeros(lanes)
                if row < rows and not first:
                    value = load_part(args.out, at(row, vector), count(vector), lanes)
                elif row < rows and args.bias is not None:
                    place = panel * plan.width + vector * lanes
                    value = load_part(args.bias, place, count(vector), lanes)
                tir.store(sums, value, slot(row, vector))

        def leave(final: bool) -> None:
            for row, vector in cells[: rows * vectors]:
                for offset, width, part in split(sums[slot(row, vector)], count(vector), lanes):
                    place = at(row, vector) + offset
                    if final:
                        args.store_out(part, place, width)
                    else:
                        tir.store(args.out, part, tir.vector(place, width))

        begins, ends = (None if self.k_blocks == 1 else k_block == end for end in (0, self.k_blocks - 1))
        tir.choose(begins, lambda: begin(True), lambda: begin(False))
        unit.load(sums)
        data = T.Bind(number * (plan.high * plan.kc))
        weights = T.Bind((panel * gemm.k + k_block * plan.kc) * plan.width)
        with T.serial(0, depth) as step:
            here = T.Bind(weights + step * plan.width)
            unit.add(
                self.packed,
                data + step * plan.high,
                args.weights,
                [here + vector * lanes for vector in range(vectors)],
            )
        unit.store(sums)
        tir.choose(ends, lambda: leave(True), lambda: leave(False))


class MatrixGemm(PackedGemm):
    """Packed GEMM by the matrix unit; the knobs are those of ``plan.Knobs``."""

    name = "gemm_mma"
    version = 1
    plan_type = MatrixPlan

    def why_unfit(self, workload: Gemm, target: Target) -> str | None:
        """Several rows, on targets with POWER10's matrix unit."""
        if target.matrix != mma.NAME:
            return f"{target.name} has no matrix unit of POWER10's kind"
        return "a single row fills no accumulator" if workload.m == 1 else None

    def knobs(self, workload: Gemm, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Blocks of accumulators whose operands are least, and up to three sizes of each cache block."""
        gemm = workload
        return {
            "rows": sorted({min(rows, gemm.m) for rows in (4, 8, 16)}),
            "vectors": [2, 4, 8],
            "chains": [1],
            "kc": blocks_of(gemm.k, 512),
            "mc": blocks_of(gemm.m, 96),
            "nc": blocks_of(gemm.n, 1024) if gemm.m > 96 else [gemm.n],
            **({"split": SPLITS} if threads > 1 else {}),
        }
