"""Quantized convolution by POWER10's matrix unit, which multiplies four bytes, or two int16, of four filters
by those of four windows.

The windows of a band are packed first, four side by side, each unit of all taps behind the one before. Then
tiles of filters meet blocks of windows; the weights lie as for ``qdot``. Instructions as in section 5.1 of
seed 003, which has them for floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import machine, mma, tir
from kernels.emit.tir import const, reinterpret
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index
from kernels.emit.vectors import transpose
from kernels.int8 import requantize
from kernels.int8.dot.instructions import Dots
from kernels.int8.dot.kernel import DotPlan
from kernels.int8.tir import QArguments
from kernels.int8.x86.direct.emit import Nest
from kernels.int8.x86.direct.kernel import QuantizedDirect, bands
from kernels.int8.x86.direct.plan import INPUT_STATIONARY, WEIGHT_STATIONARY
from kernels.isa.power import POWER
from kernels.kernel import KnobValues
from kernels.knobs import Block
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

SIDE = mma.SIDE
BLOCKS: tuple[Block, ...] = ((16, 2), (8, 4), (4, 8))
"""Windows and vectors of filters of a block: all eight accumulators."""
WAYS = {
    way.name: way
    for way in (
        Dots("bytes", 4, "uint8", "int8", 1.0, isa=POWER),
        Dots("words", 2, "int16", "int16", 1.0, isa=POWER),
    )
}
"""Four bytes or two int16 a step; what takes how long is the unit's."""
PACK_CYCLES, FINISH_CYCLES = 12.0, 6.0
"""Four windows by 16 bytes: loads, turns and stores of four vectors; a vector of results turned, scaled and
stored."""


@dataclass(frozen=True)
class MatrixPlan(DotPlan):
    """A plan whose block is made of accumulators, and whose windows are packed."""

    ways = WAYS

    def why_not(self) -> str | None:
        """Why threads cannot share this out, or why blocks would be larger than all there is."""
        windows, vectors = self.knobs.block
        if windows > SIDE * self.quads or (vectors > 2 and vectors // 2 * self.lanes >= self.filters):
            return "a block has more windows or filters than there are"
        return "fewer bands than threads" if self.bands < self.threads else None

    @property
    def quads(self) -> int:
        """Groups of four windows of a band; the last may want some."""
        return ceil_div(self.knobs.rows * self.conv.out_w, SIDE)

    @property
    def line(self) -> int:
        """Elements of a unit of four windows, or filters: 16 bytes."""
        return SIDE * self.way.unit

    def cycles(self) -> float:
        """Outer products or the traffic of their operands, packing, copies and results."""
        conv, target, knobs = self.conv, self.target, self.knobs
        windows, vectors = knobs.block
        blocks, tiles = ceil_div(self.quads * SIDE, windows), ceil_div(self.filters // self.lanes, vectors)
        step = mma.step_cycles(target, vectors * SIDE, windows // SIDE)
        compute = blocks * tiles * (self.depth * step + machine.CALL_CYCLES)
        compute += knobs.rows * conv.out_w * self.filters // self.lanes * FINISH_CYCLES
        packing = self.quads * ceil_div(self.depth, SIDE) * PACK_CYCLES
        packed, weights = self.quads * self.depth * 16.0, self.filters * self.depth * 4.0
        copied = self.band.elements * 8 / self.bits * machine.move_cycles(target) if self.band.copied else 0.0
        still = knobs.order == WEIGHT_STATIONARY
        inner, outer, turns = (packed, weights, tiles) if still else (weights, packed, blocks)
        traffic = machine.stream_cycles(target, inner * turns + outer, inner + outer / turns)
        traffic += machine.stream_cycles(target, packed, packed)
        # A window's results of a tile are less than a line. Such stores are strided: nothing hides them.
        results = knobs.rows * conv.out_w * conv.out_c
        if still and results + packed + weights > target.l1_bytes:
            traffic += knobs.rows * conv.out_w * (tiles - 1) * target.l2_cycles
        cold = machine.cold_cycles(target, weights * conv.groups)
        band = copied + conv.groups * (packing + compute + traffic)
        return cold + ceil_div(self.bands, self.threads) * band

    def body(self, args: QArguments) -> None:
        """Emit the code."""
        with mma.linked(self.way.data):
            MatrixNest(self, args).emit()


class MatrixNest(Nest):
    """The loops of the direct convolution around accumulators."""

    plan: MatrixPlan

    def _group(self, source: Buffer, start: Index, out: Index, group: Index) -> None:
        plan = self.plan
        packed = tir.scratch(plan.quads * plan.depth * plan.line, plan.way.data)
        self._pack(source, start, packed)

        def block(windows: int, first: Index, tile: Index, vectors: int) -> None:
            self._block(packed, out, group, windows, first, tile, vectors)

        if plan.knobs.order == INPUT_STATIONARY:
            self._quads(lambda windows, first: self._tiles(lambda *tile: block(windows, first, *tile)))
        else:
            self._tiles(lambda *tile: self._quads(lambda windows, first: block(windows, first, *tile)))

    def _quads(self, block: Callable[[int, Index], None]) -> None:
        """``block(windows, first group of four)`` over a band: as many as a block has, then the rest."""
        size = self.plan.windows // SIDE
        whole, rest = divmod(self.plan.knobs.rows * self.conv.out_w, self.plan.windows)
        if whole:
            with tir.loop(whole) as number:
                block(self.plan.windows, T.Bind(number * size))
        if rest:
            block(rest, tir.index(whole * size))

    def _pack(self, source: Buffer, start: Index, packed: Buffer) -> None:
        """Put the windows of a band four side by side, unit by unit."""
        plan, band, line = self.plan, self.band, self.plan.line
        last = plan.knobs.rows * self.conv.out_w - 1
        down, across = band.runs
        turns, rest = divmod(band.steps, SIDE)
        whole, unit = SIDE * plan.way.unit, plan.way.unit
        with tir.loop(plan.quads) as quad:
            numbers = [quad * SIDE + i for i in range(SIDE)]
            if (last + 1) % SIDE:
                numbers = [tir.least(number, last) for number in numbers]
            windows = [T.Bind(start + band.numbered(number)) for number in numbers]
            with tir.loop(down) as row, tir.loop(across) as column:
                run = T.Bind(band.tap(row, column))
                at = T.Bind((quad * plan.depth + (row * across + column) * band.steps) * line)
                with tir.loop(turns) as turn:
                    lines = [
                        T.Bind(
                            reinterpret(source[tir.vector(each + run + turn * whole, whole)], "int32", SIDE)
                        )
                        for each in windows
                    ]
                    for step, value in enumerate(transpose(lines)):
                        part = reinterpret(value, plan.way.data, line)
                        tir.store(packed, part, tir.vector(at + (turn * SIDE + step) * line, line))
                with tir.loop(rest) as step:
                    for i, each in enumerate(windows):
                        one = source[tir.vector(each + run + turns * whole + step * unit, unit)]
                        tir.store(packed, one, tir.vector(at + (turns * SIDE + step) * line + i * unit, unit))

    def _block(
        self, packed: Buffer, out: Index, group: Index, windows: int, first: Index, tile: Index, vectors: int
    ) -> None:
        """Results of so many windows from group ``first`` on and ``vectors`` of filters from ``tile`` on."""
        plan, line, filters = self.plan, self.plan.line, vectors * SIDE
        quads = ceil_div(windows, SIDE)
        products = tir.registers(filters * quads * SIDE, "int32")
        for row in range(filters * quads):
            tir.store(products, const(0, lanes=SIDE), tir.vector(row * SIDE, SIDE))
        unit = mma.Accumulators(filters, quads, "int32")
        unit.load(products)
        weights = T.Bind((group * (plan.filters // SIDE) + tile) * plan.packed_vector)
        data = T.Bind(first * (plan.depth * line))
        with tir.loop(plan.depth) as step:
            columns = [data + (i * plan.depth + step) * line for i in range(quads)]
            rows_at = weights + step * (vectors * line)
            unit.add(self.args.weights, rows_at, packed, columns, pitch=line)
        unit.store(products)
        begin = T.Bind(group * plan.filters + tile * SIDE)
        slots = [[tir.vector((i * vectors + j) * SIDE, SIDE) for j in range(vectors)] for i in range(windows)]
        sums = tir.registers(windows * vectors * SIDE, "int32")
        for j in range(vectors):
            bias = self.args.start(begin + j * SIDE, SIDE)
            for quad in range(quads):
                places = [((j * SIDE + row) * quads + quad) * SIDE for row in range(SIDE)]
                turned = transpose([products[tir.vector(place, SIDE)] for place in places])
                for i, value in enumerate(turned):
                    if quad * SIDE + i < windows:
                        tir.store(sums, value + bias, slots[quad * SIDE + i][j])
        numbers = [first * SIDE + i for i in range(windows)]
        self._finish(sums, slots, out, group, numbers, begin, tile, vectors)


class QuantizedMatrix(QuantizedDirect):
    """Quantized convolution by the matrix unit; the knobs are those of ``qdot``, blocks of accumulators."""

    name = "qmma"
    version = 1
    dynamic = False
    plan_type = MatrixPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Several windows, and groups of four filters, on targets with POWER10's matrix unit."""
        if target.matrix != mma.NAME:
            return f"{target.name} has no matrix unit of POWER10's kind"
        if workload.filters < SIDE or workload.out_h * workload.out_w < SIDE:
            return "fewer than four filters or windows fill no accumulator"
        return None if _ways(workload, target) else "its weights less their zero point do not fit int16"

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """The better way, blocks of all accumulators, whole planes and bands, both orders."""
        return {
            "multiply": _ways(workload, target)[:1],
            "block": [f"{windows}x{vectors}" for windows, vectors in BLOCKS],
            "rows": bands(workload),
            "order": [WEIGHT_STATIONARY, INPUT_STATIONARY],
            "prefetch": [0],
            "requant": requantize.choices(workload, target),
        }


def _ways(conv: QConv2d, target: Target) -> list[int | str]:
    return [way.name for way in WAYS.values() if way.why_not(conv, target) is None]
