"""Attention by blocks of rows whose scores stay in a cache: they never are in memory as a whole."""

from __future__ import annotations

from kernels.float.attention import cost
from kernels.float.attention.emit import emit
from kernels.float.attention.plan import Plan, mixed_of, pitch, scores_of
from kernels.float.matmul.blocking import ROWS, Blocking, blockings, fastest, tiles, ways
from kernels.kernel import Kernel, KnobValues
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Attention


class AttentionPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class BlockedAttention(Kernel[Attention]):
    """Attention with Softmax between two products; its knobs are those of ``plan.Knobs``."""

    name = "attention"
    workload_type = Attention
    plan_type = AttentionPlan

    def why_unfit(self, workload: Attention, target: Target) -> str | None:
        """Why it has no room for it."""
        return workload.why_not()

    def knobs(self, workload: Attention, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks of both products, where their columns are read, and blocks of rows."""
        scores, mixed = scores_of(workload), mixed_of(workload, target)
        return {
            "keys": ways(scores, target),
            "scores": [f"{rows}x{vectors}" for rows, vectors in tiles(scores, target)],
            "values": [way for way in ways(mixed, target) if way != ROWS],
            "sums": [f"{rows}x{vectors}" for rows, vectors in tiles(mixed, target)],
            "block": _blocks(workload, target),
        }

    def recommend(
        self, workload: Attention, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The fastest blocking of each product, and scores in half of L1."""
        scores, mixed = fastest(scores_of(workload), target), _fastest_sums(workload, target)
        return Config.of(
            self.name,
            keys=scores.way,
            scores=f"{scores.rows}x{scores.vectors}",
            values=mixed.way,
            sums=f"{mixed.rows}x{mixed.vectors}",
            block=_blocks(workload, target)[0],
        )


def _fastest_sums(what: Attention, target: Target) -> Blocking:
    """Of the product with values, whose left side is in a workspace: nothing is gained element by element."""
    found = blockings(mixed_of(what, target), target)
    return min((each for each in found if each.way != ROWS), key=lambda blocking: blocking.cycles)


def _blocks(what: Attention, target: Target) -> list[int]:
    """Rows whose scores fill half of L1, but two tiles at least, and half, double and four times as many."""
    height = fastest(scores_of(what), target).rows
    usual = max(2, target.l1_bytes // 8 // pitch(what, target) // height) * height
    sizes = (usual, usual // 2, 2 * usual, 4 * usual)
    return list(dict.fromkeys(max(1, min(what.rows, size)) for size in sizes))
