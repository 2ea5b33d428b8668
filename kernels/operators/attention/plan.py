"""What an attention is, and the sizes of the blocks it is computed in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kernels.arithmetic import ceil_div
from kernels.operators.matmul.plan import DEEPEST, MatMul, Plan
from kernels.operators.matmul.view import View
from kernels.target import Target

PARALLEL_FLOPS = 512 * 1024
"""What takes less work takes about as long as waking another thread."""


@dataclass(frozen=True)
class Attention:
    """out = alpha * softmax(scale * queries @ keys + mask) @ values, at every place of a batch.

    ``queries`` are rows x depth, ``keys`` depth x count, ``values`` count x width and ``mask`` rows x count.
    Row i sees the keys up to i + ``causal``, or all where that is None. What becomes of a row that sees none,
    as all its mask is minus infinity, is ``empty``. The columns of ``out`` are neighbours.
    """

    extents: tuple[int, ...]
    rows: int
    count: int
    depth: int
    width: int
    queries: View
    keys: View
    values: View
    out: View
    mask: View | None = None
    scale: float = 1.0
    alpha: float = 1.0
    causal: int | None = None
    empty: float = math.nan

    @property
    def flops(self) -> int:
        """Floating-point operations of both products."""
        return 2 * math.prod(self.extents) * self.rows * self.count * (self.depth + self.width)

    def why_not(self) -> str | None:
        """Why it cannot be computed so, or None when it can."""
        if self.depth > DEEPEST:
            return f"heads of more than {DEEPEST} elements"
        if self.mask is not None and self.mask.column > 1:
            return "a transposed mask"
        if self.causal is not None and self.causal < 0:
            return "rows that see no key"
        return None

    def canonical(self) -> Attention:
        """The same with the last axes as rows where all of them share keys and values, and one row each."""
        if self.causal is not None and self.causal >= self.count - 1:
            return replace(self, causal=None).canonical()
        shared = self.extents and self.keys.batch[-1] == self.values.batch[-1] == 0
        if self.rows > 1 or self.causal is not None or not shared:
            return self
        return replace(
            self,
            extents=self.extents[:-1],
            rows=self.extents[-1],
            queries=_folded(self.queries),
            keys=replace(self.keys, batch=self.keys.batch[:-1]),
            values=replace(self.values, batch=self.values.batch[:-1]),
            out=_folded(self.out),
            mask=None if self.mask is None else _folded(self.mask),
        ).canonical()


def _folded(view: View) -> View:
    """The last axis of the batch as rows."""
    return View(view.batch[:-1], view.batch[-1], view.column)


@dataclass(frozen=True)
class AttentionPlan:
    """How ``attention`` is computed on ``target``."""

    attention: Attention
    target: Target
    threads: int = 1

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.lanes()

    @property
    def shared(self) -> int:
        """How many of the batch's places, one after another, have keys and values in common."""
        total = 1
        what = self.attention
        for extent, *strides in reversed(
            list(zip(what.extents, what.keys.batch, what.values.batch, strict=True))
        ):
            if any(strides) and extent > 1:
                break
            total *= extent
        return total

    @property
    def scores(self) -> Plan:
        """The product of queries and keys, with all rows that share keys."""
        what = self.attention
        rows = what.rows * self.shared
        return self._product(rows, what.count, what.depth, what.queries, what.keys)

    @property
    def mixed(self) -> Plan:
        """The product of weights and values, whose weights are rows of a workspace."""
        what = self.attention
        weights = View((), self.pitch, 1)
        return self._product(what.rows * self.shared, what.width, what.count, weights, what.values)

    def _product(self, m: int, n: int, k: int, a: View, b: View) -> Plan:
        return Plan(MatMul((), m, n, k, a, b, View((), n, 1)), self.target)

    @property
    def pitch(self) -> int:
        """Elements between rows of scores, which are whole vectors."""
        return ceil_div(self.attention.count, self.lanes) * self.lanes

    @property
    def block(self) -> int:
        """Rows whose scores are there at a time: half of L1 where that is two tiles or more."""
        rows, height = self.attention.rows, self.scores.block.rows
        tiles = max(2, self.target.l1_bytes // 8 // self.pitch // height)
        return min(rows, tiles * height)

    @property
    def parts(self) -> int:
        """How many threads share the work."""
        return self.threads if self.attention.flops >= PARALLEL_FLOPS else 1

    @property
    def splits(self) -> int:
        """Into how many shares the blocks of rows are divided, so that every thread has some."""
        groups = math.prod(self.attention.extents) // self.shared
        if groups % self.parts == 0 or groups >= 4 * self.parts:
            return 1
        return min(self.parts, ceil_div(self.attention.rows, self.block))
