"""Packed GEMM: constant weights in column panels, an outer-product register block, Goto's cache blocks.

The micro-kernel is the outer product of seed 003, section 5.2: broadcasts of one operand times vectors of the
other. The weights are packed when the model is built, and the activations are broadcast from where they lie,
so nothing is packed at run time. With one row it is a GEMV that streams the panels once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import machine, shares, tir
from kernels.gemm_nest import Nest
from kernels.gemm_plan import Plan
from kernels.kernel import Array, Kernel
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Gemm, Workload


class PackedGemm(Kernel):
    """Matrix product by packed constant weights.

    Knobs: ``rows`` x ``vectors`` is the register block, ``chains`` the sets of accumulators that take turns
    along k (one row alone cannot hide the latency of a multiply-add), and ``kc``, ``mc``, ``nc`` are how much
    of k, m and n is worked on at a time, for L1, L2 and L3. With threads ``split`` says which tiles they
    share out, ``panels`` of columns, tiles of ``rows`` or ``both``.
    """

    name = "gemm"
    version = 3

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 matrix products."""
        if not isinstance(workload, Gemm):
            return "computes matrix products, not convolutions"
        return None if workload.dtype == "float32" else f"computes float32, not {workload.dtype}"

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks that fit the registers, and up to three sizes of each cache block."""
        gemm = _gemm(workload)
        lanes, limit = target.lanes(), _accumulators(target)
        columns = -(-gemm.n // lanes)
        widths = [v for v in ((2, 3, 4) if gemm.m > 1 else (2, 4, 8, limit)) if v <= columns] or [columns]
        heights = sorted({_even(gemm.m, _tallest(v, target) // c) for v in widths for c in (1, 2)})
        chains = [1, 2, 4] if limit // max(heights) // min(widths) > 1 else [1]

        def invalid(point: Knobs) -> str | None:
            rows, vectors, sets = int(point["rows"]), int(point["vectors"]), int(point["chains"])
            if rows * vectors * sets > limit:
                return f"{rows}x{vectors}x{sets} accumulators spill: {target.name} holds {limit}"
            if rows > 1 and rows * vectors * sets + vectors + 1 > target.vector_registers:
                return f"{rows}x{vectors}x{sets} accumulators leave no registers for the operands"
            if sets > 1 and rows * vectors * sets > max(8, limit // 2) and rows > 1:
                return "more chains than it takes to hide the latency"
            full = limit // (vectors * sets)
            if rows < min(gemm.m, _even(gemm.m, full)) and rows * vectors < 8:
                return f"{rows}x{vectors} accumulators leave registers idle"
            return Plan.of(gemm, Config.of(self.name, **point), target, threads).why_not()

        return Space(
            self.name,
            {
                "rows": heights,
                "vectors": widths,
                "chains": chains,
                "kc": _blocks(gemm.k, (512,)),
                "mc": _blocks(gemm.m, (96,)),
                "nc": _blocks(gemm.n, (1024,)) if gemm.m > 96 else [gemm.n],
                **({"split": ["panels", "rows", "both"]} if threads > 1 else {}),
            },
            invalid,
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Micro-kernel steps of the thread with most, plus each operand's traffic at the distance at which it
        is used again."""
        gemm = _gemm(workload)
        plan = Plan.of(gemm, config, target, threads)
        m_blocks = -(-gemm.m // plan.mc)
        compute = max(
            plan.share_cycles(target, panels, tiles)
            for panels in shares.sizes(plan.whole_panels, plan.edge_columns > 0, plan.parts[0])
            for tiles in shares.sizes(plan.whole_tiles, plan.edge_rows > 0, plan.parts[1])
        )
        weights, data = 4.0 * gemm.k * plan.panels * plan.width, 4.0 * gemm.m * gemm.k
        panel = 4.0 * plan.kc * (plan.width + plan.rows)
        block = panel + 4.0 * plan.kc * min(plan.mc, gemm.m)
        tiles = -(-gemm.m // plan.rows)
        reloads = (tiles - m_blocks) * machine.stream_cycles(target, weights, panel)
        reloads += (m_blocks - 1) * machine.stream_cycles(
            target, weights, 4.0 * plan.kc * min(plan.nc, gemm.n)
        )
        reloads += plan.panels * machine.stream_cycles(target, data, block)
        cold = machine.cold_cycles(target, weights)
        return machine.seconds(machine.overlapped(max(compute, reloads / threads), cold))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Panels of ``vectors`` x lanes columns, each k x columns, the last one filled up with zeros."""
        gemm = _gemm(workload)
        plan = Plan.of(gemm, config, target)
        filled = np.zeros((gemm.k, plan.panels * plan.width), np.float32)
        filled[:, : gemm.n] = weights
        panels = filled.reshape(gemm.k, plan.panels, plan.width).transpose(1, 0, 2)
        return np.ascontiguousarray(panels).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest n block, k block, m block, panel, row tile around the micro-kernel."""
        gemm = _gemm(workload)
        plan = Plan.of(gemm, config, target, threads)
        function = tir.Function(workload, name, gemm.k * plan.panels * plan.width)
        with function as args:
            Nest(plan, args).run()
        return function.result()


def _gemm(workload: Workload) -> Gemm:
    if not isinstance(workload, Gemm):
        raise ValueError(f"gemm computes matrix products, not {workload}")
    return workload


def _accumulators(target: Target) -> int:
    """How many accumulators fit beside the operands: with more, LLVM spills."""
    return target.vector_registers - 4


def _tallest(vectors: int, target: Target) -> int:
    """Rows of the tallest register block of that width whose operands still find registers."""
    return min(_accumulators(target), target.vector_registers - vectors - 1) // vectors


def _even(rows: int, most: int) -> int:
    """The height of tiles of at most ``most`` that share ``rows`` out evenly."""
    tiles = -(-rows // max(1, most))
    return -(-rows // tiles)


def _blocks(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """The sizes below ``extent``, and all of it."""
    return [size for size in sizes if size < extent] + [extent]
