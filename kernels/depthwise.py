"""Depthwise convolution: every channel by a filter of its own, vectorised over channels.

Where channels lie innermost, windows are read where they are. In NCHW, the planes of one vector of channels
at a time are turned into that form and back, in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from kernels import machine, tir
from kernels.depthwise_channels import Nest, whereabouts
from kernels.depthwise_plan import ChannelPlan, Place
from kernels.depthwise_turned import turn
from kernels.kernel import Array, Kernel, conv_of
from kernels.layout import NHWC, PLAIN, Layouts, layout_knobs, layouts_for, layouts_of
from kernels.space import Config, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

GROUPS, ROWS = "groups", "rows"


class Depthwise(Kernel):
    """Convolution of every channel by a filter of its own.

    Knobs: ``columns`` windows of a row are one register block; in NHWC ``strip`` vectors of channels take
    turns in each block; with threads ``split`` says whether they share out channels or rows.
    """

    name = "depthwise"

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 convolutions with as many groups as channels in and out."""
        if not isinstance(workload, Conv2d):
            return "computes convolutions"
        if workload.dtype != "float32":
            return f"computes float32, not {workload.dtype}"
        if not 1 < workload.groups == workload.in_c == workload.out_c:
            return "needs as many groups as channels in and out"
        return None

    def layouts(self, workload: Workload, target: Target) -> tuple[Layouts, ...]:
        """Every layout, the output in that of the input."""
        return tuple(Layouts(word, word) for word in layouts_for(conv_of(workload).in_c, target))

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks that fit the registers beside a row of taps and a value."""
        conv = conv_of(workload)
        most = max(1, target.vector_registers - min(conv.kw, 8) - 1)
        knobs = layout_knobs(layouts)
        knobs["columns"] = sorted({min(columns, most, conv.out_w) for columns in (2, 4, 7, 8, 10, 14, 20)})
        if layouts.data == NHWC:
            vectors = conv.n * -(-conv.in_c // _lanes(conv, target))
            knobs["strip"] = sorted({min(strip, vectors) for strip in (1, 2, 4, 8, 16, vectors)})
        if threads > 1:
            knobs["split"] = [GROUPS] if layouts == PLAIN else [GROUPS, ROWS]
        return Space(self.name, knobs)

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The config that the machine model predicts fastest."""
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: self.predict(workload, config, target, threads),
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Multiply-adds and loads of every register block, and the stream of inputs and outputs."""
        plan = _plan(conv_of(workload), config, target)
        conv = plan.conv
        cycles = 0.0
        for block in plan.blocks:
            loads = plan.taps + conv.kh * (block.windows * min(conv.kw, conv.stride[1]) + conv.kw)
            work = block.windows * plan.taps / target.fmas_per_cycle
            cycles += block.count * (max(work, loads / target.loads_per_cycle) + 2 * block.windows + 3)
        cycles *= conv.out_h * plan.vectors * conv.n
        moved = 4.0 * (np.prod(conv.data_shape) + 2 * np.prod(conv.out_shape))
        return machine.seconds(machine.overlapped(cycles, machine.stream_cycles(target, moved, moved)))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """[vector of channels][tap][channel of the vector]; a last vector that overlaps repeats channels."""
        plan = _plan(conv_of(workload), config, target)
        taps = weights.reshape(-1, plan.taps)
        starts = [min(vector * plan.lanes, len(taps) - plan.lanes) for vector in range(plan.vectors)]
        packed = np.stack([taps[start : start + plan.lanes].T for start in starts])
        return np.ascontiguousarray(packed).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Every thread's share of the vectors of channels, or of the rows."""
        conv = conv_of(workload)
        plan, layouts = _plan(conv, config, target), layouts_of(config)
        function = tir.Function(workload, name, plan.packed, layouts)
        members = conv.n * plan.vectors
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


def _lanes(conv: Conv2d, target: Target) -> int:
    return min(target.lanes(), 1 << (conv.in_c.bit_length() - 1))


def _plan(conv: Conv2d, config: Config, target: Target) -> ChannelPlan:
    knobs = dict(config.knobs)
    return ChannelPlan(
        conv,
        _lanes(conv, target),
        config.int("columns"),
        int(knobs.get("strip", 1)),
        str(knobs.get("split", GROUPS)),
    )
