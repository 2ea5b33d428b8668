"""Packed GEMM: constant weights in column panels, an outer-product register block, Goto's cache blocks.

The micro-kernel is the outer product of seed 003, section 5.2: broadcasts of one operand times vectors of the
other. The weights are packed when the model is built, and the activations are broadcast from where they lie,
so nothing is packed at run time. With one row it is a GEMV that streams the panels once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import machine, tir
from kernels.kernel import Array, Kernel
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.vectors import load_part, split
from kernels.workload import Gemm, Workload


class PackedGemm(Kernel):
    """Matrix product by packed constant weights.

    Knobs: ``rows`` x ``vectors`` is the register block, ``chains`` the sets of accumulators that take turns
    along k (one row alone cannot hide the latency of a multiply-add), and ``kc``, ``mc``, ``nc`` are how much
    of k, m and n is worked on at a time, for L1, L2 and L3.
    """

    name = "gemm"

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
            return None

        return Space(
            self.name,
            {
                "rows": heights,
                "vectors": widths,
                "chains": chains,
                "kc": _blocks(gemm.k, (512,)),
                "mc": _blocks(gemm.m, (96,)),
                "nc": _blocks(gemm.n, (1024,)) if gemm.m > 96 else [gemm.n],
            },
            invalid,
        )

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The config that the machine model predicts fastest."""
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: self.predict(workload, config, target, threads),
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Micro-kernel steps, plus each operand's traffic at the distance at which it is used again."""
        gemm = _gemm(workload)
        plan = _Plan.of(gemm, config, target)
        k_blocks, m_blocks = -(-gemm.k // plan.kc), -(-gemm.m // plan.mc)
        compute = 0.0
        for rows, row_tiles in ((plan.rows, gemm.m // plan.rows), (gemm.m % plan.rows, 1)):
            if rows:
                step = machine.step_cycles(target, rows, plan.vectors, plan.chains)
                calls = row_tiles * plan.panels
                compute += calls * (
                    gemm.k * step + k_blocks * (machine.CALL_CYCLES + 2 * rows * plan.vectors)
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
        return machine.seconds(machine.overlapped(max(compute, reloads), cold))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Panels of ``vectors`` x lanes columns, each k x columns, the last one filled up with zeros."""
        gemm = _gemm(workload)
        plan = _Plan.of(gemm, config, target)
        filled = np.zeros((gemm.k, plan.panels * plan.width), np.float32)
        filled[:, : gemm.n] = weights
        panels = filled.reshape(gemm.k, plan.panels, plan.width).transpose(1, 0, 2)
        return np.ascontiguousarray(panels).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest n block, k block, m block, panel, row tile around the micro-kernel."""
        gemm = _gemm(workload)
        plan = _Plan.of(gemm, config, target)
        function = tir.Function(workload, name, gemm.k * plan.panels * plan.width)
        with function as args:
            _Emitter(gemm, plan, args).run(threads)
        return function.result()


@dataclass(frozen=True)
class _Plan:
    """A config's block sizes, in elements, fitted to the workload."""

    rows: int
    vectors: int
    chains: int
    lanes: int
    kc: int
    mc: int
    nc: int
    panels: int

    @classmethod
    def of(cls, gemm: Gemm, config: Config, target: Target) -> _Plan:
        lanes, vectors = target.lanes(), config.int("vectors")
        rows, width = min(config.int("rows"), gemm.m), vectors * lanes
        return cls(
            rows=rows,
            vectors=vectors,
            chains=config.int("chains"),
            lanes=lanes,
            kc=min(config.int("kc"), gemm.k),
            mc=max(1, config.int("mc") // rows) * rows,
            nc=max(1, config.int("nc") // width) * width,
            panels=-(-gemm.n // width),
        )

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class _Range:
    """The whole panels or whole row tiles one thread works on; ``last`` when it owns the edge as well."""

    start: Any
    stop: Any
    last: Any

    @classmethod
    def share(cls, total: int, thread: Any, threads: int) -> _Range:
        return cls(thread * total // threads, (thread + 1) * total // threads, thread == threads - 1)


class _Emitter:
    """Emits the loops of one function."""

    def __init__(self, gemm: Gemm, plan: _Plan, args: tir.Arguments) -> None:
        self.gemm, self.plan, self.args = gemm, plan, args
        self.whole_panels, self.edge_columns = divmod(gemm.n, plan.width)
        self.whole_tiles, self.edge_rows = divmod(gemm.m, plan.rows)
        self.k_blocks = -(-gemm.k // plan.kc)

    def run(self, threads: int) -> None:
        """All of it, panels or else row tiles shared out over the threads."""
        panels, tiles = _Range(0, self.whole_panels, True), _Range(0, self.whole_tiles, True)
        if threads == 1:
            self._nest(panels, tiles)
            return
        with tir.loop(threads, threads) as thread:
            if self.whole_panels >= min(2 * threads, self.whole_tiles):
                panels = _Range.share(self.whole_panels, thread, threads)
            else:
                tiles = _Range.share(self.whole_tiles, thread, threads)
            self._nest(panels, tiles)

    def _nest(self, panels: _Range, tiles: _Range) -> None:
        plan, gemm = self.plan, self.gemm
        n_step, m_step = plan.nc // plan.width, plan.mc // plan.rows
        n_blocks = max(1, -(-self.whole_panels // n_step))
        m_blocks = max(1, -(-self.whole_tiles // m_step))
        with tir.loop(n_blocks) as n_block, tir.loop(self.k_blocks) as k_block:
            first = T.Bind(panels.start + n_block * n_step)
            end = T.Bind(tir.least(panels.stop, first + n_step))
            depth = plan.kc
            if gemm.k % plan.kc:
                depth = T.Bind(tir.least(plan.kc, gemm.k - k_block * plan.kc))
            with tir.loop(m_blocks) as m_block:
                top = T.Bind(tiles.start + m_block * m_step)
                rows = _Range(
                    top,
                    T.Bind(tir.least(tiles.stop, top + m_step)),
                    _both(tiles.last, m_block == m_blocks - 1),
                )
                with T.serial(first, end) as panel:
                    self._tiles(panel, plan.width, rows, k_block, depth)
                if self.edge_columns:
                    with tir.when(_both(panels.last, n_block == n_blocks - 1)):
                        self._tiles(tir.index(self.whole_panels), self.edge_columns, rows, k_block, depth)

    def _tiles(self, panel: Any, columns: int, rows: _Range, k_block: Any, depth: Any) -> None:
        if self.whole_tiles:
            with T.serial(rows.start, rows.stop) as tile:
                self._micro(self.plan.rows, columns, tile * self.plan.rows, panel, k_block, depth)
        if self.edge_rows:
            with tir.when(rows.last):
                top = tir.index(self.whole_tiles * self.plan.rows)
                self._micro(self.edge_rows, columns, top, panel, k_block, depth)

    def _micro(self, rows: int, columns: int, top: Any, panel: Any, k_block: Any, depth: Any) -> None:
        """``rows`` x ``columns`` of the output, over one block of k."""
        plan, gemm, args, lanes = self.plan, self.gemm, self.args, self.plan.lanes
        cells = [(row, start) for row in range(rows) for start in range(0, columns, lanes)]
        slots = {cell: slot * lanes for slot, cell in enumerate(cells)}
        registers = tir.registers(plan.chains * len(cells) * lanes)

        def count(start: int) -> int:
            return min(lanes, columns - start)

        def out_at(row: int, start: int) -> Any:
            return (top + row) * gemm.n + panel * plan.width + start

        def accumulator(cell: tuple[int, int], chain: int = 0) -> Any:
            return tir.vector(chain * len(cells) * lanes + slots[cell], lanes)

        def begin() -> None:
            for row, start in cells:
                value = tir.zeros(lanes)
                if args.bias is not None:
                    value = load_part(args.bias, panel * plan.width + start, count(start), lanes)
                tir.store(registers, value, accumulator((row, start)))

        def resume() -> None:
            for row, start in cells:
                value = load_part(args.out, out_at(row, start), count(start), lanes)
                tir.store(registers, value, accumulator((row, start)))

        def step(at: Any, chain: int) -> None:
            for row, start in cells:
                slot = accumulator((row, start), chain)
                weights = args.weights[tir.vector((panel * gemm.k + at) * plan.width + start, lanes)]
                data = tir.splat(args.data[(top + row) * gemm.k + at], lanes)
                tir.store(registers, registers[slot] + data * weights, slot)

        def leave(final: bool) -> None:
            for row, start in cells:
                value = registers[accumulator((row, start))]
                for offset, width, part in split(value, count(start), lanes):
                    at = out_at(row, start) + offset
                    if final:
                        args.store_out(part, at, width)
                    else:
                        tir.store(args.out, part, tir.vector(at, width))

        _either(self.k_blocks, k_block == 0, begin, resume)
        for chain in range(1, plan.chains):
            for cell in cells:
                tir.store(registers, tir.zeros(lanes), accumulator(cell, chain))
        at = k_block * plan.kc
        whole = depth // plan.chains
        with T.serial(0, whole) as turn:
            for chain in range(plan.chains):
                step(at + turn * plan.chains + chain, chain)
        if plan.chains > 1:
            with T.serial(whole * plan.chains, depth) as last:
                step(at + last, 0)
            for chain in range(1, plan.chains):
                for cell in cells:
                    total = registers[accumulator(cell)] + registers[accumulator(cell, chain)]
                    tir.store(registers, total, accumulator(cell))
        _either(self.k_blocks, k_block == self.k_blocks - 1, lambda: leave(True), lambda: leave(False))


def _either(blocks: int, condition: Any, yes: Any, no: Any) -> None:
    """``yes()`` where the condition holds, else ``no()``; with a single block it always holds."""
    if blocks == 1:
        yes()
        return
    with T.If(condition):
        with T.Then():
            yes()
        with T.Else():
            no()


def _both(one: Any, other: Any) -> Any:
    return other if one is True else tirx.all(one, other)


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
