"""Depthwise convolution: every channel by a filter of its own, vectorised over channels.

Where channels lie innermost, windows are read where they are. In NCHW, the planes of one vector of channels
at a time are turned into that form and back, in cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from kernels import machine, tir
from kernels.depthwise_channels import Nest, whereabouts
from kernels.depthwise_plan import ChannelPlan, Place
from kernels.depthwise_turned import turn
from kernels.kernel import Array, Kernel, conv_of
from kernels.layout import NHWC, PLAIN, Layouts, layout_knobs, layouts_for, layouts_of
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

GROUPS, ROWS = "groups", "rows"
MOST_COLUMNS = 20
"""Windows of a block that keep the multiply-adds of every target busy; more only make longer code."""
STRIPS = (1, 8)
"""Groups of channels that take turns in NHWC."""
STORE_CYCLES = 1.5
BLOCK_CYCLES = 6.0
LOOP_CYCLES = 6.0
"""A vector's epilogue and store; a block's addresses and loop control; a turn of a loop over few taps."""
L1_WAYS = 8
SCATTERED_MISSES = 8
"""What most first caches have, and how many lines that lie apart a core loads at once."""


class Depthwise(Kernel):
    """Convolution of every channel by a filter of its own.

    Knobs: ``columns`` windows of a row are one register block. In NHWC that has one or two ``vectors`` of
    channels, and ``strip`` such groups take turns in each block. With threads ``split`` says whether they
    share out channels or rows.
    """

    name = "depthwise"

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 convolutions with as many groups as channels in and out."""
        return why_not_depthwise(workload)

    def layouts(self, workload: Workload, target: Target) -> tuple[Layouts, ...]:
        """Every layout, the output in that of the input."""
        return tuple(Layouts(word, word) for word in layouts_for(conv_of(workload).in_c, target))

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks that fit the registers beside a row of taps and a value."""
        conv = conv_of(workload)
        knobs = layout_knobs(layouts)
        most = max(1, min(MOST_COLUMNS, target.vector_registers - min(conv.kw, 8) - 1))
        fewest = -(-conv.out_w // most)
        knobs["columns"] = sorted({-(-conv.out_w // parts) for parts in (fewest, 2 * fewest, 3 * fewest)})
        if layouts.data == NHWC:
            lanes = _lanes(conv, target)
            knobs["vectors"] = [1, 2] if conv.in_c >= 2 * lanes else [1]
            knobs["strip"] = sorted({min(strip, conv.n * -(-conv.in_c // lanes)) for strip in STRIPS})
        if threads > 1:
            knobs["split"] = [GROUPS] if layouts == PLAIN else [GROUPS, ROWS]

        def invalid(point: Knobs) -> str | None:
            columns, vectors = int(point["columns"]), int(point.get("vectors", 1))
            if vectors == 1 or columns * vectors <= most:
                return None
            return f"{columns}x{vectors} accumulators spill: {target.name} holds {most}"

        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Arithmetic and loads of every register block, and the stream of inputs and outputs."""
        conv = conv_of(workload)
        plan, layouts = _plan(conv, config, target), layouts_of(config)
        cycles = 0.0
        for block in plan.blocks:
            reach = min(conv.kw, conv.stride[1]) * (block.windows - 1) + conv.kw
            loads = conv.kh * (reach + conv.kw) / target.loads_per_cycle
            work = max(block.windows * plan.taps / target.fmas_per_cycle, loads)
            cycles += block.count * (work + block.windows * STORE_CYCLES + BLOCK_CYCLES)
        cycles *= conv.out_h
        if layouts == PLAIN:
            cycles += machine.MOVE_CYCLES * (conv.in_h * conv.in_w + conv.out_h * conv.out_w)
        cycles *= conv.n * plan.groups * plan.vectors
        if layouts.data == NHWC:
            cycles += _scattered_cycles(plan, target)
        shared = conv.out_h if plan.split == ROWS else conv.n * plan.groups
        return streamed_seconds(conv, cycles, target, shared, threads)

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """[group of channels][tap][channel of the group]; a last group that overlaps repeats channels."""
        plan = _plan(conv_of(workload), config, target)
        taps = weights.reshape(-1, plan.taps)
        starts = [min(group * plan.width, len(taps) - plan.width) for group in range(plan.groups)]
        packed = np.stack([taps[start : start + plan.width].T for start in starts])
        return np.ascontiguousarray(packed).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Every thread's share of the vectors of channels, or of the rows."""
        conv = conv_of(workload)
        plan, layouts = _plan(conv, config, target), layouts_of(config)
        function = tir.Function(workload, name, plan.packed, layouts)
        members = conv.n * plan.groups
        with function as args, tir.loop(threads, threads) as part:
            share = {GROUPS: (0, members), ROWS: (0, conv.out_h)}
            share[plan.split] = tuple(
                T.Bind((part + more) * share[plan.split][1] // threads) for more in (0, 1)
            )
            if layouts == PLAIN:
                self._turned(plan, args, share[GROUPS], share[ROWS])
            else:
                data = Place.of(layouts.data, conv.in_c, conv.in_h, conv.in_w, plan.lanes)
                out = Place.of(layouts.out, conv.in_c, conv.out_h, conv.out_w, plan.lanes)

                def store(value: Any, at: Any) -> None:
                    args.store_out(value, at, plan.lanes)

                Nest(plan, args, args.data, data, out, store).run(share[GROUPS], share[ROWS])
        return function.result()

    def _turned(
        self, plan: ChannelPlan, args: tir.Arguments, members: tuple[Any, Any], rows: tuple[Any, Any]
    ) -> None:
        """Member by member: its planes with channels innermost, the same convolution, and back."""
        conv, lanes = plan.conv, plan.lanes
        pixels, results = conv.in_h * conv.in_w, conv.out_h * conv.out_w
        source, target = tir.scratch(pixels * lanes), tir.scratch(results * lanes)
        data, out = (Place(0, 0, width * lanes, lanes) for width in (conv.in_w, conv.out_w))
        nest = Nest(
            plan, args, source, data, out, lambda value, at: tir.store(target, value, tir.vector(at, lanes))
        )
        with T.serial(*members) as member:
            image, _, first = whereabouts(plan, member)
            channel = T.Bind(image * conv.in_c + first)
            turn(
                args.data,
                channel * pixels,
                lanes,
                pixels,
                lanes,
                lambda value, at, width: tir.store(source, value, tir.vector(at, width)),
            )
            nest.run((member, member + 1), rows)
            place = channel * results
            turn(
                target,
                tir.index(0),
                results,
                lanes,
                lanes,
                lambda value, at, width: args.store_out(value, place + at, width),
            )


def _scattered_cycles(plan: ChannelPlan, target: Target) -> float:
    """What loading the input costs in NHWC beyond a stream, as pixels lie apart.

    If they do so by a multiple of a power of two, the pixels of a block share few sets of the first cache,
    and what else their lines hold is used only after they have left.
    """
    conv, line = plan.conv, target.line_bytes
    apart = math.gcd(4 * conv.in_c, target.l1_bytes // L1_WAYS)
    pixels = conv.kh * ((plan.columns - 1) * conv.stride[1] + conv.kw)
    passes = 1.0
    if plan.strip == 1 or pixels * max(line, apart) > target.l1_bytes / 2:
        passes *= max(1.0, line / (4 * plan.width))
    if plan.strip == 1:
        passes += 1  # no line follows the one before
    lines = 4 * math.prod(conv.data_shape) / line
    return passes * lines * target.l2_cycles / SCATTERED_MISSES


def streamed_seconds(conv: Conv2d, cycles: float, target: Target, shared: int, threads: int) -> float:
    """Predicted seconds of ``cycles`` of work beside the stream of the input and the output.

    ``threads`` share out ``shared`` equal parts of both.
    """
    stream = machine.stream_cycles(target, _moved(conv), _moved(conv))
    return machine.seconds(machine.overlapped(cycles, stream)) * -(-shared // threads) / shared


def _moved(conv: Conv2d) -> float:
    """Bytes of the input, and of the output twice: its lines are loaded before they are written."""
    return 4.0 * (math.prod(conv.data_shape) + 2 * math.prod(conv.out_shape))


def why_not_depthwise(workload: Workload) -> str | None:
    """Why ``workload`` is no float32 convolution of one filter a channel, or None when it is one."""
    if not isinstance(workload, Conv2d):
        return "computes convolutions"
    if workload.dtype != "float32":
        return f"computes float32, not {workload.dtype}"
    if not 1 < workload.groups == workload.in_c == workload.out_c:
        return "needs as many groups as channels in and out"
    return None


def _lanes(conv: Conv2d, target: Target) -> int:
    return min(target.lanes(), 1 << (conv.in_c.bit_length() - 1))


def _plan(conv: Conv2d, config: Config, target: Target) -> ChannelPlan:
    knobs = dict(config.knobs)
    columns, vectors, strip = (int(knobs.get(name, 1)) for name in ("columns", "vectors", "strip"))
    return ChannelPlan(conv, _lanes(conv, target), columns, vectors, strip, str(knobs.get("split", GROUPS)))
