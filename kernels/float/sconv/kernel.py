"""SConv: direct convolution sliced for the caches, packing on demand (seed 003, sections 4 to 6)."""

from __future__ import annotations

from typing import ClassVar

from kernels.float.plan import why_not_ungrouped
from kernels.float.sconv import cost, csa
from kernels.float.sconv.emit import emit
from kernels.float.sconv.micro import VectorProducts
from kernels.float.sconv.pack import tiles
from kernels.float.sconv.plan import SHIFTED, SPLITS, Plan, can_shift
from kernels.kernel import Kernel, KnobValues, Resident
from kernels.knobs import Block
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d

SHORTEST_DEPTH = 128
"""Products a sum gets at a time, below which moving the sums costs too much to be worth a trial."""
AVX512_BLOCK = (24, 1)
"""The paper's 24 filters x 16 windows (section 5.2): with vectors of 512 bits seven registers stay free."""


class SConvPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = tiles
    body = emit

    def residents(self) -> list[Resident]:
        """The tiles of equations 2, 4 and 5."""
        slicing, results = self.slicing, self.k2 * self.k3
        still, moving = ("IN", "FS") if self.knobs.order == csa.INPUT_STATIONARY else ("FS", "IN")
        return [
            Resident("L1", "1 IN, 1 FS, 1 OUT tile", slicing.in_l1),
            Resident("L2", f"1 {still}, {self.k2} {moving}, {self.k2} OUT tiles", slicing.in_l2),
            Resident("L3", f"{self.k3} {still}, {self.k2} {moving}, {results} OUT tiles", slicing.in_l3),
        ]


class SConv(Kernel[Conv2d]):
    """Window-vectorised SConv for ungrouped convolution in NCHW; its knobs are those of ``plan.Knobs``."""

    name = "sconv"
    version = 4
    workload_type = Conv2d
    products: ClassVar[type[VectorProducts]] = VectorProducts
    """The micro-kernel."""

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only ungrouped convolutions."""
        return why_not_ungrouped(workload)

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """The analysis's slicings for every block and order, and some that are halved less or more."""
        conv, blocks = workload, self.blocks(target)
        slicings = [
            csa.slice_for(conv, filters, vectors * target.lanes(), order, target, packed)
            for filters, vectors in blocks
            for order in (csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY)
            for packed in (True, False)
        ] + self._near(workload, target)
        deep = [conv.in_c >> n for n in (1, 2) if (conv.in_c >> n) * conv.taps >= SHORTEST_DEPTH]
        return {
            "block": [f"{filters}x{vectors}" for filters, vectors in blocks],
            "order": [csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY],
            "channels": sorted(
                {s.n_c for s in slicings}
                | {csa.most_channels(s) for s in slicings if s.packed}
                | {conv.in_c, *deep}
            ),
            "k2_halvings": sorted({s.k2_halvings for s in slicings} | {0, 2}),
            "k3_halvings": sorted({s.k3_halvings for s in slicings}),
            "pack": [1, 0, *([SHIFTED] if can_shift(conv, target.lanes()) else [])],
            **({"split": SPLITS} if threads > 1 else {}),
        }

    def plan(self, workload: Conv2d, config: Config, target: Target, threads: int = 1) -> Plan:
        """What ``config`` implies."""
        return SConvPlan.of(workload, config, target, threads, products=self.products)

    def recommend(
        self, workload: Conv2d, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The most promising block, packing and split of the analysis's slicing, or of one of few windows.

        Where the costs of streams were measured, it is the config predicted fastest: predictions know more
        there than the analysis, which counts lines.
        """
        if target.l2_stream_cycles:
            return super().recommend(workload, target, layouts, threads)
        picks = [
            self._config(
                csa.analyse(workload, filters, vectors * target.lanes(), target, pack == 1), vectors, split
            )
            for filters, vectors in self.blocks(target)
            for pack in (1, 0)
            for split in (SPLITS if threads > 1 else (None,))
        ]
        picks += [
            self._config(slicing, slicing.n_win // target.lanes(), None if threads == 1 else SPLITS[0])
            for slicing in self._near(workload, target)
        ]
        plans = [(self.plan(workload, config, target, threads), config) for config in picks]
        valid = [(plan.cycles(), config) for plan, config in plans if plan.why_not() is None]
        return min(valid, key=lambda each: each[0])[1]

    def _near(self, workload: Conv2d, target: Target) -> list[csa.Slicing]:
        """Slicings with few windows at a time, for products that wait for what is not near."""
        if self.products.hides_loads:
            return []
        slicings = [
            csa.slice_near(workload, filters, vectors * target.lanes(), target)
            for filters, vectors in self.blocks(target)
        ]
        return [slicing for slicing in slicings if slicing.n_c == workload.in_c]

    def blocks(self, target: Target) -> list[Block]:
        """(filters, vectors of windows) of the micro-kernels that fill the registers, and ``AVX512_BLOCK``.

        A block needs its accumulators, a vector for each vector of windows, and one for a broadcast filter.
        """
        most = {vectors: (target.vector_registers - 1 - vectors) // vectors for vectors in (2, 3, 4)}
        blocks = [(filters, vectors) for vectors, filters in most.items() if filters >= vectors]
        return [*blocks, AVX512_BLOCK] if target.vector_bits == 512 else blocks

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
