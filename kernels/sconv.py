"""SConv: direct convolution sliced for the caches, packing on demand (seed 003, sections 4 to 6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, csa, machine, mma, tir
from kernels.kernel import Array, Kernel, Resident, conv_of, why_not_ungrouped
from kernels.layout import PLAIN, Layouts
from kernels.sconv_nest import Nest
from kernels.sconv_plan import SPLITS, Plan
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

SHORTEST_DEPTH = 128
"""Products a sum gets at a time, below which moving the sums costs too much to be worth a trial."""


def register_blocks(target: Target) -> list[tuple[int, int]]:
    """(filters, vectors of windows) of the micro-kernels that fill the registers.

    A block needs its accumulators, a vector for each vector of windows, and one for a broadcast filter.
    """
    most = {vectors: (target.vector_registers - 1 - vectors) // vectors for vectors in (2, 3, 4)}
    return [(filters, vectors) for vectors, filters in most.items() if filters >= vectors]


class SConv(Kernel):
    """Window-vectorised SConv for ungrouped convolution in NCHW.

    Knobs: ``block`` is the register block, n_f filters x n_win / lanes vectors of windows; ``order`` is
    ``is`` or ``ws``; ``channels`` is n_c; ``k2_halvings`` and ``k3_halvings`` are how often k2 and k3 are
    halved from all tiles, as the analysis does; ``pack`` is 0 when windows are read where they are; with
    threads ``split`` says which tiles they share out, those of ``windows``, ``filters`` or ``both``.
    """

    name = "sconv"
    version = 4

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only ungrouped float32 convolutions."""
        return why_not_ungrouped(workload)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """The analysis's slicings for every block and order, and some that are halved less or more."""
        conv = conv_of(workload)
        slicings = self._slicings(conv, target)
        deep = [conv.in_c >> n for n in (1, 2) if (conv.in_c >> n) * conv.kh * conv.kw >= SHORTEST_DEPTH]
        knobs: dict[str, list[int | str]] = {
            "block": [f"{filters}x{vectors}" for filters, vectors in self.blocks(target)],
            "order": [csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY],
            "channels": sorted({s.n_c for s in slicings} | {conv.in_c, *deep}),
            "k2_halvings": sorted({s.k2_halvings for s in slicings} | {0, 2}),
            "k3_halvings": sorted({s.k3_halvings for s in slicings}),
            "pack": [1, 0],
            **({"split": list(SPLITS)} if threads > 1 else {}),
        }

        def invalid(point: Knobs) -> str | None:
            return Plan.of(conv, Config.of(self.name, **point), target, threads).why_not()

        return Space(self.name, knobs, invalid)

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The analysis's slicing, with the block, the packing and the split that are predicted fastest."""
        conv = conv_of(workload)
        picks = [
            self._config(
                csa.analyse(conv, filters, vectors * target.lanes(), target, pack == 1), vectors, split
            )
            for filters, vectors in self.blocks(target)
            for pack in (1, 0)
            for split in (SPLITS if threads > 1 else (None,))
        ]
        valid = [config for config in picks if Plan.of(conv, config, target, threads).why_not() is None]
        return min(valid, key=lambda config: self.predict(workload, config, target, threads))

    def blocks(self, target: Target) -> list[tuple[int, int]]:
        """(filters, vectors of windows) of the micro-kernels to choose from."""
        return register_blocks(target)

    def _slicings(self, conv: Conv2d, target: Target) -> list[csa.Slicing]:
        """The analysis's slicing for every block, order and way of packing."""
        return [
            csa.slice_for(conv, filters, vectors * target.lanes(), order, target, packed)
            for filters, vectors in self.blocks(target)
            for order in (csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY)
            for packed in (True, False)
        ]

    def _config(self, slicing: csa.Slicing, vectors: int, split: str | None) -> Config:
        return Config.of(
            self.name,
            block=f"{slicing.n_f}x{vectors}",
            order=slicing.order,
            channels=slicing.n_c,
            k2_halvings=slicing.k2_halvings,
            k3_halvings=slicing.k3_halvings,
            pack=int(slicing.packed),
            **({} if split is None else {"split": split}),
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Micro-kernel steps, packing and padding, or the analysis's reloads when those are more.

        The analysis's cold loads are left out: they are the same for all its slicings of one block, and count
        a packed input as if it came from memory. The weights' are added, as for every kernel.
        """
        plan = Plan.of(conv_of(workload), config, target, threads)
        slicing = _slicing(plan, target)
        weights = machine.cold_cycles(target, plan.packed_length * 4.0)
        overflow = target.l2_cycles * slicing.l1_overflow_lines
        reloads = (slicing.reload_cycles + overflow) / target.misses_in_flight / threads
        return machine.seconds(weights + plan.conv.n * max(plan.compute_cycles(target), reloads))

    def residents(self, workload: Workload, config: Config, target: Target) -> list[Resident]:
        """The tiles of equations 2, 4 and 5."""
        plan = Plan.of(conv_of(workload), config, target)
        slicing = _slicing(plan, target)
        still, moving = ("IN", "FS") if plan.order == csa.INPUT_STATIONARY else ("FS", "IN")
        results = plan.k2 * plan.k3
        return [
            Resident("L1", "1 IN, 1 FS, 1 OUT tile", slicing.in_l1),
            Resident("L2", f"1 {still}, {plan.k2} {moving}, {plan.k2} OUT tiles", slicing.in_l2),
            Resident("L3", f"{plan.k3} {still}, {plan.k2} {moving}, {results} OUT tiles", slicing.in_l3),
        ]

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Channel set, filter tile, channel, tap, filter: the micro-kernel's order (section 6.3)."""
        conv = conv_of(workload)
        plan = Plan.of(conv, config, target)
        padded = np.zeros((plan.filter_tiles * plan.filters, conv.in_c, plan.taps), np.float32)
        padded[: conv.out_c] = weights.reshape(conv.out_c, conv.in_c, plan.taps)
        tiled = padded.reshape(plan.filter_tiles, plan.filters, conv.in_c, plan.taps).transpose(0, 2, 3, 1)
        sets = [
            tiled[:, start : start + plan.channels].reshape(-1)
            for start in range(0, conv.in_c, plan.channels)
        ]
        return np.ascontiguousarray(np.concatenate(sets))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The macro-kernel of section 4.2 around the micro-kernel of section 5."""
        plan = Plan.of(conv_of(workload), config, target, threads)
        function = tir.Function(workload, name, plan.packed_length)
        with function as args, mma.linked() if plan.matrix else code_shape.linked():
            Nest(plan, args).emit()
        return function.result()


def _slicing(plan: Plan, target: Target) -> csa.Slicing:
    """The tiling strategy that a config stands for."""
    return csa.Slicing(
        plan.conv,
        target,
        plan.filters,
        plan.width,
        plan.order,
        plan.channels,
        plan.k2,
        plan.k3,
        plan.packed,
    )
