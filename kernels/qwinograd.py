"""Exact Winograd convolution of 3x3 filters of 8-bit integers on x86, in int16 and int32.

Tiles are of two or four results along each axis. The transforms of data and filters are integers that fit
int16, products are added in pairs into int32 (vpmaddwd), and what wraps there wraps back at the end, where
the result is divided by up to 576.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import machine, requantize
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QFunction
from kernels.qwinograd_nest import Nest
from kernels.qwinograd_plan import (
    BANDS,
    BLOCKS,
    TILES,
    Plan,
    offset_of,
    tiles_of,
    why_tile_inexact,
)
from kernels.qworkload import QConv2d
from kernels.qx86 import FORK_CYCLES, why_not_x86
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Workload

# Fitted to 470 configs of ten layers on one core of a Zen 4.
PRODUCT_CYCLES, STEP_CYCLES, HINT_CYCLES = 0.58, 0.6, 0.15
"""One vector of products and sums; each turn of the loop around a block of them, and a prefetch in it."""
TRANSFORM_CYCLES = 9.5
"""One vector of the data at one point."""
RESULT_CYCLES, SLAB_CYCLES = 11.5, 8.0
"""One vector of results, from the sums of the points to bytes; and each further slab's part of it."""
AHEAD, WAITING = 2.0, 4.5
"""How much longer filters take to arrive than the caches need, asked for in time and not."""
SCATTERED_CYCLES = 0.5
"""A line of filters from beyond L2 that does not follow the one before: a tile of filters at all points."""


class QuantizedWinograd(QuantizedKernel):
    """F(2x2), F(4x2), F(2x4) and F(4x4) of 3x3 filters with stride 1: 4, 3 or 2.25 multiplications for 9.

    Channels whose sums would not fit together are split in slabs, as few as do.
    Knobs: ``tile`` is the results of a tile, down and across, of those for which the workload proves that all
    numbers fit; ``rows`` x ``columns`` tiles are transformed at a time; ``block`` is tiles x vectors of
    filters in registers; ``order`` is what is outside: ``points``, whose tiles then stay in L1, or tiles of
    ``filters``, whose sums do; ``prefetch`` asks for the next tile of filters while one is used; ``requant``
    is how sums are scaled, and ``split`` is what threads share out.
    """

    name = "qwinograd"
    version = 3

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """3x3 filters with stride, dilation and groups of one, and channels of which a part of
        ``MOST_SLABS`` leaves two bits of int32 free."""
        if not isinstance(workload, QConv2d):
            return "computes quantized convolutions"
        if (workload.kh, workload.kw, *workload.stride, *workload.dilation) != (3, 3, 1, 1, 1, 1):
            return "needs 3x3 filters, and stride and dilation of 1"
        if workload.groups > 1:
            return "grouped"
        return why_tile_inexact(workload, "2x2") or why_not_x86(target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Blocks of about 12 to 64 tiles; register blocks of two and three vectors of filters."""
        conv = qconv_of(workload)
        tiles = [tile for tile in TILES if why_tile_inexact(conv, tile) is None]
        planes = {tile: tiles_of(conv, tile) for tile in tiles}
        lanes = target.vector_bits // 32
        vectors = sorted({min(v, -(-conv.out_c // lanes)) for v in (2, 3)})
        room = target.vector_registers - 2
        largest = {v: (room - v) // v for v in vectors}
        blocks = [(size, v) for v in vectors for size in range(max(2, largest[v] - 2), largest[v] + 1)]
        rows = {
            tile: {-(-down // parts) for parts in range(1, down + 1)} for tile, (down, _) in planes.items()
        }
        columns = {
            tile: sorted({-(-across // parts) for parts in (1, 2, 4) if across // parts >= 7 or parts == 1})
            for tile, (_, across) in planes.items()
        }

        def invalid(point: Knobs) -> str | None:
            tile, height, width = str(point["tile"]), int(point["rows"]), int(point["columns"])
            down, across = planes[tile]
            if height not in rows[tile] or width not in columns[tile]:
                return f"{height} x {width} tiles do not divide {down} x {across} into like parts"
            if height * width > 64 and height * width > columns[tile][0]:
                return f"{height * width} tiles at a time are more than the caches take"
            size, v = map(int, str(point["block"]).split("x"))
            if (size - 1, v) in blocks and -(-height * width // size) == -(-height * width // (size - 1)):
                return f"the same as {size - 1}x{v}, as blocks are of like sizes"
            if threads > 1 and point["split"] == BLOCKS and point["order"] == "filters":
                return "threads would share the sums of one tile of filters"
            if threads > 1 and point["split"] == BANDS:
                bands = conv.n * -(-down // height)
                return "fewer bands than threads" if bands < min(threads, conv.n * down) else None
            if height * width < min(12, down * across) and height < down:
                return f"{height * width} tiles at a time are too few for the weights they load"
            return None

        knobs: dict[str, list[int | str]] = {
            "tile": list(tiles),
            "rows": sorted({n for each in rows.values() for n in each}),
            "columns": sorted({n for each in columns.values() for n in each}),
            "block": [f"{size}x{v}" for size, v in blocks],
            "order": ["points", "filters"],
            "prefetch": [0, 1],
            "requant": requantize.choices(conv, target),
        }
        if threads > 1:
            knobs["split"] = [BANDS, BLOCKS]
        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Matrix products, both transforms, and the traffic of weights and of what is transformed."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config, target)
        down, across = tiles_of(conv, plan.tile)
        bands, parts = conv.n * -(-down // plan.rows), -(-across // plan.columns)
        tiles, vectors = plan.tiles, plan.filters // plan.lanes
        groups, panels = -(-tiles // plan.block), -(-vectors // plan.vectors)
        steps = plan.points * plan.units
        turn = STEP_CYCLES + HINT_CYCLES * plan.prefetch
        arithmetic = steps * (PRODUCT_CYCLES * tiles * vectors + turn * groups * panels)
        loads = groups * panels * steps * (plan.block + plan.vectors) / target.loads_per_cycle
        compute = max(arithmetic, loads)
        compute += TRANSFORM_CYCLES * tiles * plan.points * -(-conv.in_c // (2 * plan.lanes))
        back = RESULT_CYCLES + SLAB_CYCLES * (plan.slabs - 1)
        compute += back * tiles * plan.results * vectors
        weights, data, sums = plan.sizes
        held = data + sums
        stream = machine.stream_cycles(target, panels * data if plan.filters_outside else 2 * held, held)
        near = plan.prefetch or weights + held <= target.l2_bytes
        again = machine.stream_cycles(target, weights, weights + held) * (AHEAD if near else WAITING)
        if plan.filters_outside and weights > target.l2_bytes:
            stream += SCATTERED_CYCLES * weights / target.line_bytes
        blocks = parts * (bands if plan.split == BLOCKS else -(-bands // threads))
        total = blocks * (compute + stream) + (blocks - 1) * again
        cold = machine.cold_cycles(target, weights)
        total = machine.overlapped(total, cold) if plan.prefetch else total + cold
        if threads == 1:
            return machine.seconds(total)
        if plan.split == BANDS:
            return machine.seconds(total + FORK_CYCLES)
        # Each thread reads its own filters; they meet after both transforms and the products of each block.
        shared = -(-plan.points // threads) * total / plan.points
        return machine.seconds(shared + 3 * blocks * FORK_CYCLES)

    def offset(self, workload: QConv2d, config: Config) -> int:
        """The data are around zero."""
        return offset_of(workload)

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """Whole vectors."""
        return Plan.of(workload, config, target).filters

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[point][tile of filters][pair of channels][filter of the tile][channel of the pair]."""
        plan = Plan.of(conv, config, target)
        down, across = (np.array(axis.filters) for axis in plan.axes)
        points = np.einsum("ir,js,rsck->ijck", down, across, weights.astype(np.int64))
        filled = np.zeros((plan.points, 2 * plan.units, plan.filters), np.int16)
        filled[:, : conv.in_c, : conv.out_c] = points.reshape(plan.points, conv.in_c, conv.out_c)
        pairs = filled.reshape(plan.points, plan.units, 2, plan.filters).transpose(0, 3, 1, 2)
        parts = []
        for point in pairs:
            for first, vectors, count in plan.panels():
                size = vectors * plan.lanes
                panel = point[first * plan.lanes :][: count * size].reshape(count, size, plan.units, 2)
                parts.append(panel.transpose(0, 2, 1, 3).reshape(-1))
        return np.ascontiguousarray(np.concatenate(parts))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Blocks of tiles: transform, one matrix product a point, transform back and requantize."""
        plan = Plan.of(qconv_of(workload), config, target)
        function = QFunction(plan.conv, name, plan.packed_length, "int16", plan.filters)
        with function as args:
            Nest(plan, args, threads).emit()
        return function.result()
