"""Direct quantized convolution on x86: windows are broadcast in units of channels, filters are vectors.

The sums stay in registers from the bias to the requantized result. Where the input is not of the type that
is multiplied, or needs padding, a band of its rows is copied right before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import machine, requantize
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qdirect_nest import BANDS, FILTERS, Nest, Plan
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QFunction
from kernels.qworkload import QConv2d
from kernels.qx86 import FORK_CYCLES, PARTS, WAYS, Multiply, ways, why_not_x86
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Workload

FINISH_CYCLES, FINISH_FOUR_CYCLES = 6.0, 5.0
"""Requantizing and storing one vector of sums, beside another and with three more windows."""
COPY_CYCLES = 1.5
"""Copying one vector of the input."""
PACKED_AT_ONCE = 1 << 18
"""Units of tiles that are packed together: more at a time is faster and takes more memory."""


class QuantizedDirect(QuantizedKernel):
    """Direct convolution by vpmaddwd, vpmaddubsw or VNNI.

    Knobs: ``multiply`` is the way (``kernels/qx86.py``); ``block`` is windows x vectors of filters in
    registers; ``rows`` the rows of output worked on at a time; ``order`` is ``ws`` (a filter tile stays while
    windows pass) or ``is``; ``prefetch`` asks for the next tile of filters while one is used; ``requant`` is
    how sums are scaled (``kernels/requantize.py``), and ``split`` is what threads share out.
    """

    name = "qdirect"
    version = 3

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Quantized convolutions on x86 whose groups have at least a vector of filters."""
        if not isinstance(workload, QConv2d):
            return "computes quantized convolutions"
        if workload.groups > 1 and workload.out_c // workload.groups < target.vector_bits // 32:
            return "groups have fewer filters than a vector"
        return why_not_x86(target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """All ways, blocks that fit the registers, whole planes and bands for L1 and L2, both orders."""
        conv = qconv_of(workload)
        blocks = {
            way.name: [f"{windows}x{vectors}" for windows, vectors in _blocks(conv, target, way)]
            for way in ways(conv, target)
        }
        knobs: dict[str, list[int | str]] = {
            "multiply": list(blocks),
            "block": list(dict.fromkeys(block for each in blocks.values() for block in each)),
            "rows": list(_bands(conv)),
            "order": ["ws", "is"],
            "prefetch": [0, 1],
            "requant": requantize.choices(conv, target),
        }
        if threads > 1:
            knobs["split"] = [BANDS, FILTERS]

        def invalid(point: Knobs) -> str | None:
            if point["block"] not in blocks[str(point["multiply"])]:
                return "sums and weights would not fit the registers"
            if threads > 1 and point["split"] == FILTERS and point["order"] == "is":
                return "threads would meet after every block of windows"
            if threads > 1 and point["split"] == BANDS:
                bands = conv.n * -(-conv.out_h // int(point["rows"]))
                most = conv.n * conv.out_h
                return "fewer bands than threads" if bands < min(threads, most) else None
            return None

        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Multiplications, requantization and copy, or the traffic of weights and windows."""
        plan = Plan.of(qconv_of(workload), config, target)
        conv, band = plan.conv, plan.band
        bands = conv.n * -(-conv.out_h // plan.rows)
        windows = plan.rows * conv.out_w
        blocks = -(-windows // plan.windows)
        vectors = conv.groups * plan.filters // plan.lanes
        tiles = conv.groups * -(-plan.filters // plan.lanes // plan.vectors)
        arithmetic = _depth_cycles(plan) * windows * vectors
        loads = blocks * tiles * plan.depth * (plan.windows + plan.vectors) / target.loads_per_cycle
        compute = max(arithmetic, loads) + blocks * tiles * (machine.CALL_CYCLES + 4 * plan.windows)
        compute += windows * vectors * (FINISH_FOUR_CYCLES if plan.vectors == 1 else FINISH_CYCLES)
        size = 2 if plan.way.data == "int16" else 1
        weights = plan.packed_length * (2 if plan.way.packed == "int16" else 1)
        held = band.elements * size
        copy = band.elements * size * 8 / plan.bits * COPY_CYCLES if band.copied else 0.0
        inner, outer, repeats = (held, weights, tiles) if plan.order == "ws" else (weights, held, blocks)
        stream = machine.stream_cycles(target, inner * repeats, inner + outer / repeats)
        cold = machine.cold_cycles(target, weights)
        again = (bands - 1) * machine.stream_cycles(target, weights, weights + held)
        cycles = max(compute, stream)
        if threads == 1:
            return machine.seconds(cold + again + bands * (copy + cycles))
        if plan.split == BANDS:
            shared = -(-bands // threads) * (copy + cycles)
            return machine.seconds(cold + again + shared + FORK_CYCLES)
        # Each thread reads its own filters, of windows that one has copied.
        shared = -(-tiles // threads) * (cold + bands * cycles) / tiles
        return machine.seconds(again + shared + bands * (copy + FORK_CYCLES))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact in every way; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 where int8 data are multiplied as uint8."""
        return WAYS[str(config["multiply"])].offset(workload)

    def fill(self, conv: QConv2d, config: Config, target: Target, values: Array) -> Array:
        """Each group's values, then zeros up to whole vectors."""
        plan = Plan.of(conv, config, target)
        groups = values.reshape(conv.groups, -1)
        return np.pad(groups, ((0, 0), (0, plan.filters - groups.shape[1]))).reshape(-1)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[group][tile][run][step][filter of the tile][channel of the unit], filled with zeros; where sums
        begin in int16, each tile as ``ShortSums.pack`` has it."""
        plan = Plan.of(conv, config, target)
        band, lanes, unit = plan.band, plan.lanes, plan.way.unit
        down, across = band.runs
        depth, of_group = conv.in_c // conv.groups, conv.out_c // conv.groups
        # (kh, kw, channel, group, filter) to (group, filter, run, element of the run)
        ordered = weights.reshape(conv.kh, conv.kw, depth, conv.groups, of_group).transpose(3, 4, 0, 1, 2)
        ordered = ordered.reshape(conv.groups, of_group, down * across, band.run)
        filled = np.zeros((conv.groups, plan.filters, down * across, band.steps * unit), plan.way.packed)
        filled[:, :of_group, :, : band.run] = ordered
        filled = filled.reshape(conv.groups, plan.filters, plan.depth, unit)
        parts = []
        for group in range(conv.groups):
            for first, vectors, count in plan.tiles():
                size = vectors * lanes
                tiles = filled[group, first * lanes : first * lanes + count * size]
                tiles = tiles.reshape(count, size, plan.depth, unit)
                if plan.short:
                    some = -(-PACKED_AT_ONCE // plan.depth)
                    chunks = [tiles[at : at + some] for at in range(0, count, some)]
                    parts += [plan.short.pack(chunk, plan.offsets()) for chunk in chunks]
                else:
                    parts.append(tiles.transpose(0, 2, 1, 3).reshape(-1))
        return np.ascontiguousarray(np.concatenate(parts))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Bands, groups, tiles of filters and blocks of windows around the micro-kernel."""
        plan = Plan.of(qconv_of(workload), config, target)
        filters = plan.conv.groups * plan.filters
        function = QFunction(plan.conv, name, plan.packed_length, plan.way.packed, filters)
        with function as args:
            Nest(plan, args, threads).emit()
        return function.result()


def _depth_cycles(plan: Plan) -> float:
    """All units of a vector of weights; where sums begin in int16, as far as weights are usually small."""
    if plan.short is None:
        return plan.way.cycles * plan.depth
    fitting = min(1.0, plan.depth / plan.short.usual)
    cycles = fitting * plan.way.cycles + (1 - fitting) * WAYS["bytes"].cycles
    return cycles * plan.short.steps * plan.short.parts


def _blocks(conv: QConv2d, target: Target, way: Multiply) -> list[tuple[int, int]]:
    """(windows, vectors) whose sums fit the registers beside weights, a window and a product."""
    most = max(1, -(-conv.out_c // conv.groups // (target.vector_bits // 32)))
    parts = PARTS.get(way.name)
    found = []
    for vectors in range(1, min(most, 4) + 1):
        if parts is None:
            windows = (target.vector_registers - 2 - vectors) // vectors
            found += [(w, vectors) for w in range(max(2, windows - 2), windows + 1)]
            continue
        windows = (target.vector_registers - 4 - parts * vectors) // vectors
        # Few windows for as many weights are slower than one vector.
        found += [(w, vectors) for w in range(windows - 2, windows + 1) if w >= 4]
    return found


def _bands(conv: QConv2d) -> list[int]:
    """The whole plane, or fewer rows: enough for two blocks of windows at least."""
    least = -(-12 // conv.out_w)
    return sorted({min(conv.out_h, max(-(-conv.out_h // count), least)) for count in (1, 2, 4, 7, 14)})
