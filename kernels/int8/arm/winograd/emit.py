"""The loops of the exact Winograd convolution on Arm."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.int8 import wrapping
from kernels.int8.arm.blocks.block import QUAD, Block, Rows
from kernels.int8.arm.finish import Finish
from kernels.int8.arm.winograd.plan import LANES, Plan
from kernels.int8.band import emit_band
from kernels.int8.tir import QArguments
from kernels.isa.arm import ARM32


def emit(plan: Plan, args: QArguments) -> None:
    """Transform, products at each point, and the way back with the requantization."""
    with code_shape.linked():
        Nest(plan, args).run()


class Nest:
    """Emits one function's loops: bands; the data's transform, products by point, and the way back."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.finish = Finish(args, plan.knobs.requant, plan.target.isa is ARM32)

    def run(self) -> None:
        """All bands of all images, shared out over the threads."""
        plan, band = self.plan, self.plan.knobs.band
        with tir.loop(self.conv.n * plan.bands, plan.threads) as number:
            image = T.Bind(number // plan.bands)
            first = T.Bind(tir.least(number % plan.bands * band, tir.index(plan.lines - band)))
            self.copy = tir.scratch(plan.copy.elements, "int16")
            self.transformed = tir.scratch(plan.transformed, "int16")
            self.sums = tir.scratch(plan.points.count * plan.sums, "int32")
            emit_band(
                plan.copy, self.args.data, self.copy, image, first if plan.along else tir.index(0), LANES
            )
            self._forward()
            with tir.loop(plan.passes) as turn:
                with tir.loop(plan.points.count) as point:
                    self._products(point, turn)
                self._back(image, first, turn)

    def _forward(self) -> None:
        """Every cell's data to its points, by vectors of channels."""
        plan, points = self.plan, self.plan.points
        lines = plan.cells // plan.tiles
        # Along columns a line is a row of the copy, along rows a column of it.
        across, along = plan.copy.pitch, self.conv.in_c
        if not plan.along:
            across, along = along, across
        with tir.loop(lines) as line, tir.loop(plan.tiles) as tile, tir.loop(plan.groups) as group:
            start = T.Bind(line * across + (tile * points.results + group * points.taps) * along)
            cell = group * plan.cells + self._cell(line, tile, lines)
            with tir.loop(plan.channels // LANES) as vector:
                here, target = T.Bind(start + vector * LANES), T.Bind(cell * plan.channels + vector * LANES)
                data = [T.Bind(self.copy[tir.vector(here + k * along, LANES)]) for k in range(points.count)]
                for number, value in enumerate(_evaluated(points.data.tolist(), data)):
                    at = target + number * (plan.groups * plan.cells * plan.channels)
                    tir.store(self.transformed, value, tir.vector(at, LANES))

    def _cell(self, line: Index, tile: Index, lines: int) -> Index:
        """The number of a tile: neighbours in memory are neighbours in the data."""
        return line * self.plan.tiles + tile if self.plan.along else tile * lines + line

    def _products(self, point: Index, turn: Index) -> None:
        """One point's matrix product of all windows and a pass of filters, a slab of windows at a time."""
        plan, most = self.plan, self.plan.knobs.slab
        whole, rest = divmod(plan.windows, plan.block.rows)
        weights = T.Bind((turn * plan.points.count + point) * (plan.width * plan.depth))
        with tir.loop(ceil_div(whole, most)) as slab:
            first = T.Bind(slab * most)
            count = T.Bind(tir.least(most, whole - first)) if whole % most else most
            self._slab(plan.block, first * plan.block.rows, count, point, weights)
        if rest:
            last = tir.index(whole * plan.block.rows)
            self._slab(plan.block.of_rows(rest), last, 1, point, weights)

    def _slab(self, block: Block, first: Index, count: Index, point: Index, weights: Index) -> None:
        plan = self.plan
        for filter_, panels, panel in plan.block.panels(plan.knobs.filters):
            with tir.loop(panels) as p, tir.loop(count) as t:
                column = T.Bind(p * panel.panel + plan.block.panel_at(filter_))
                window = T.Bind(first + t * block.rows)
                self._sums(
                    panel.of_rows(block.rows), point, window, column, T.Bind(weights + column * plan.depth)
                )

    def _sums(self, block: Block, point: Index, window: Index, column: Index, weights: Index) -> None:
        """One block, over all taps and channels, and to memory."""
        plan = self.plan
        quads = block.panel // QUAD
        sums = block.begin([[tir.const(0, lanes=QUAD)] * quads] * block.rows)
        with T.serial(0, plan.taps) as tap:
            cell = (point * plan.groups + tap % plan.groups) * plan.cells + window
            cell += tap // plan.groups * plan.tiles
            rows, panel = T.Bind(cell * plan.channels), T.Bind(weights + tap * (plan.channels * block.panel))
            with code_shape.kept_loop(plan.steps) as k:
                source = Rows(self.transformed, T.Bind(rows + k * block.depth), plan.channels)
                at = T.Bind(panel + k * (block.depth * block.panel))
                block.step(sums, source, self.args.weights, at, False)
        target = T.Bind(point * plan.sums + window * plan.width + column)
        for row in range(block.rows):
            for quad in range(quads):
                value = sums[tir.vector((row * quads + quad) * QUAD, QUAD)]
                tir.store(self.sums, value, tir.vector(target + row * plan.width + quad * QUAD, QUAD))

    def _back(self, image: Index, first: Index, turn: Index) -> None:
        """From sums at points to results, the last tile of a line as far as there are any."""
        plan = self.plan
        results = plan.points.results
        last = plan.length - (plan.tiles - 1) * results
        whole = plan.tiles if last == results else plan.tiles - 1

        def tile(line: Index, number: Index, count: int) -> None:
            window = T.Bind(self._cell(line, number, plan.knobs.band))
            whole_vectors, rest = divmod(plan.knobs.filters, LANES)
            groups = [(whole_vectors, 0, LANES)]
            if rest:
                groups.append((1, whole_vectors * LANES, rest))
            for vectors, start, filters in groups:
                with tir.loop(vectors) as vector:
                    filter_ = T.Bind(start + vector * LANES)
                    self._tile(image, first + line, number, window, turn, filter_, filters, count)

        with tir.loop(plan.knobs.band) as line:
            if whole:
                with tir.loop(whole) as number:
                    tile(line, number, results)
            if last != results:
                tile(line, tir.index(plan.tiles - 1), last)

    def _tile(
        self,
        image: Index,
        line: Index,
        number: Index,
        window: Index,
        turn: Index,
        filter_: Index,
        filters: int,
        count: int,
    ) -> None:
        """``count`` results of one tile, up to eight filters."""
        plan, conv = self.plan, self.conv
        filter_at = T.Bind(turn * plan.knobs.filters + filter_)
        rows: list[list[Vector]] = [[] for _ in range(count)]
        for quad in range(0, filters, QUAD):
            bias = T.Bind(self.args.bias[tir.vector(filter_at + quad, QUAD)])
            at = T.Bind(window * plan.width + filter_ + quad)
            sums = [T.Bind(self.sums[tir.vector(at + p * plan.sums, QUAD)]) for p in range(plan.points.count)]
            for row, value in zip(rows, _interpolated(plan.points.results_matrix[:count], sums), strict=True):
                row.append(T.Bind(tirx.shift_right(value, tir.const(plan.points.loss, lanes=QUAD)) + bias))
        begin = number * plan.points.results
        y, x = (line, begin) if plan.along else (begin, line)
        pixel = (image * conv.out_h + y) * conv.out_w + x
        pitch = conv.out_c if plan.along else conv.out_w * conv.out_c
        self.finish.block(rows, filter_at, filters, T.Bind(pixel * conv.out_c + filter_at), pitch)


def _evaluated(matrix: list[list[int]], data: list[Vector]) -> list[Vector]:
    """The matrix times the vectors, in int16: what rows of a pair have in common once."""

    def part(row: list[int], parity: int) -> Vector:
        total: Vector = None
        for factor, value in list(zip(row, data, strict=True))[parity::2]:
            if factor:
                term = value if factor == 1 else value * tir.const(factor, "int16", LANES)
                total = term if total is None else total + term
        return T.Bind(total)

    found = [part(matrix[0], 0)]
    for row in matrix[1:-1:2]:
        even, odd = part(row, 0), part(row, 1)
        found += [even + odd, even - odd]
    return [*found, part(matrix[-1], 1)]


def _interpolated(matrix: list[list[int]], sums: list[Vector]) -> list[Vector]:
    """The matrix times the sums, modulo 2^32."""
    pairs = range(1, len(sums) - 1, 2)
    folded = {
        0: [T.Bind(wrapping.added(sums[at], sums[at + 1], QUAD)) for at in pairs],
        1: [T.Bind(wrapping.subtracted(sums[at], sums[at + 1], QUAD)) for at in pairs],
    }
    found = []
    for k, row in enumerate(matrix):
        values = [sums[0], *folded[k % 2], sums[-1]]
        total: Vector = None
        for factor, value in zip([row[0], *row[1:-1:2], row[-1]], values, strict=True):
            if factor:
                signed = (factor + (1 << 31)) % (1 << 32) - (1 << 31)
                term = (
                    value if factor == 1 else wrapping.multiplied(value, tir.const(signed, lanes=QUAD), QUAD)
                )
                total = term if total is None else wrapping.added(total, term, QUAD)
        found.append(T.Bind(total))
    return found
