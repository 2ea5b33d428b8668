"""The loops of the quantized convolution with groups on Arm."""

from __future__ import annotations

from kernels.arithmetic import even
from kernels.emit import code_shape, tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.finish import Finish
from kernels.int8.arm.grouped.plan import LANE, Plan, Tile
from kernels.int8.arm.operands import multiplied
from kernels.int8.band import emit_band
from kernels.int8.tir import QArguments
from kernels.isa.arm import ARM32


def emit(plan: Plan, args: QArguments) -> None:
    """The loop nest around the micro-kernel."""
    with code_shape.linked():
        Nest(plan, args).run()


class Nest:
    """Emits one function's loops: bands, groups, tiles of filters, rows, and blocks of windows."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args, self.band = plan, plan.conv, args, plan.band
        self.finish = Finish(args, plan.knobs.requant, plan.target.isa is ARM32)

    def run(self) -> None:
        """All bands of all images, shared out over the threads; the last one of an image ends with it."""
        plan, conv = self.plan, self.conv
        bands, rows = plan.bands // conv.n, plan.knobs.rows
        with tir.loop(plan.bands, plan.threads) as number:
            image = T.Bind(number // bands)
            first = T.Bind(tir.least(number % bands * rows, conv.out_h - rows))
            copy = tir.scratch(self.band.elements, self.band.dtype)
            emit_band(self.band, self.args.data, copy, image, first, plan.lanes)
            pixel = T.Bind((image * conv.out_h + first) * conv.out_w)
            with tir.loop(conv.groups) as group:
                for tile in plan.tiles:
                    with tir.loop(tile.count) as turn:
                        filters = T.Bind(turn * tile.filters + tile.first)
                        self._tile(tile, copy, pixel, group, filters)

    def _tile(self, tile: Tile, copy: Buffer, pixel: Index, group: Index, filters: Index) -> None:
        """One tile of filters, of all windows of the band."""
        plan, conv = self.plan, self.conv
        weights = T.Bind(group * plan.packed_group + filters * (conv.taps * plan.channels))
        first = T.Bind(group * conv.filters + filters)
        with tir.loop(plan.knobs.rows) as row:
            start = 0
            for width, count in even(conv.out_w, plan.knobs.block[0]):
                with tir.loop(count) as number:
                    column = T.Bind(number * width + start)
                    at = T.Bind(self.band.window(row, column) + group * conv.depth)
                    sums = self._sums(tile, width, copy, at, weights, first)
                    out = T.Bind((pixel + row * conv.out_w + column) * conv.out_c + first)
                    self.finish.block(sums, first, tile.filters, out, conv.out_c)
                start += width * count

    def _sums(
        self, tile: Tile, windows: int, copy: Buffer, at: Index, weights: Index, first: Index
    ) -> list[list[Vector]]:
        """The sums of a block by window and by four filters, with the bias."""
        plan, conv, quads = self.plan, self.conv, range(tile.quads)
        sums = tir.registers(windows * tile.quads * QUAD, "int32")
        slots = [
            [tir.vector((window * tile.quads + quad) * QUAD, QUAD) for quad in quads]
            for window in range(windows)
        ]
        bias = [T.Bind(self.args.bias[tir.vector(first + quad * QUAD, QUAD)]) for quad in quads]
        for row in slots:
            for slot, value in zip(row, bias, strict=True):
                tir.store(sums, value, slot)

        unit, most = plan.unit, plan.lanes

        def step(source: Index, panel: Index, channels: int) -> None:
            pitch = self.band.window(0, 1)
            starts = [source + window * pitch for window in range(windows)]
            data = [T.Bind(multiplied(copy, start, plan.packed_dtype, most)) for start in starts]
            for number in range(channels // unit):
                for quad in quads:
                    place = panel + (number * tile.quads + quad) * (QUAD * unit)
                    column = T.Bind(self.args.weights[tir.vector(place, QUAD * unit)])
                    for window, row in enumerate(slots):
                        tir.store(sums, self._added(sums[row[quad]], column, data[window], number), row[quad])

        whole, rest = divmod(plan.channels, most)
        width = tile.quads * QUAD
        with T.serial(0, conv.kh) as down, code_shape.kept_loop(conv.kw) as across:
            source = T.Bind(at + self.band.tap(down, across))
            panel = T.Bind(weights + (down * conv.kw + across) * (plan.channels * width))
            if whole:
                with code_shape.kept_loop(whole) as part:
                    step(T.Bind(source + part * most), T.Bind(panel + part * (most * width)), most)
            if rest:
                step(source + whole * most, panel + whole * most * width, rest)
        return [[sums[slot] for slot in row] for row in slots]

    def _added(self, total: Vector, column: Vector, data: Vector, unit: int) -> Vector:
        """``total`` and the products of four filters' ``column`` by one unit of ``data``."""
        if self.plan.knobs.multiply == LANE:
            lane = tirx.Shuffle([data], [tir.index(unit)] * QUAD)
            return total + column.astype("int32x4") * lane.astype("int32x4")
        lane = tirx.Shuffle([data], [tir.index(unit * 4 + byte) for _ in range(QUAD) for byte in range(4)])
        name = f"llvm.aarch64.neon.{'s' if self.plan.packed_dtype == 'int8' else 'u'}dot.v4i32.v16i8"
        return tirx.call_llvm_pure_intrin("int32x4", name, total, column, lane)
