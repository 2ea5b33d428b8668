"""A product of two activations: a batch of matrices that lie anyhow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.canonical import key_of, require_positive
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.epilogue import Epilogue
from kernels.workload.view import View

Shape = tuple[int, ...]


@dataclass(frozen=True)
class MatMul:
    """out = alpha * a @ b for every place of a batch of ``extents``; a is m x k, b is k x n.

    The columns of ``out`` are neighbours. Each array is flat: what its view sees, up to the last element.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["matmul"]] = "matmul"
    unit: ClassVar[Unit] = "FLOP"
    dtype: ClassVar[str] = "float32"
    epilogue: ClassVar[Epilogue] = Epilogue()
    extents: tuple[int, ...]
    m: int
    n: int
    k: int
    a: View
    b: View
    out: View
    alpha: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", float(self.alpha))
        require_positive(self, "m", "n", "k")
        check_batch(self.kind, self.extents, self.alpha)
        self.a.check("matmul a", self.extents, self.m, self.k)
        self.b.check("matmul b", self.extents, self.k, self.n)
        check_result(self.kind, self.out, self.extents, self.m, self.n)

    @property
    def batch(self) -> int:
        """How many products."""
        return math.prod(self.extents)

    @property
    def flops(self) -> int:
        """Floating-point operations, two a multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def key(self) -> str:
        """Content hash, the workload's name."""
        return key_of(self)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Shapes of a and b."""
        return (
            (self.a.size(self.extents, self.m, self.k),),
            (self.b.size(self.extents, self.k, self.n),),
        )

    @property
    def data_shape(self) -> Shape:
        """Shape of the first input."""
        return self.input_shapes[0]

    @property
    def out_shape(self) -> Shape:
        """Shape of the result."""
        return (self.out.size(self.extents, self.m, self.n),)

    def canonical(self) -> tuple[MatMul, bool]:
        """The same product by the fewest axes, and whether a and b change places for it.

        Axes that follow each other are one, and where all products share b their rows are rows of one.
        """
        strides = zip(self.a.batch, self.b.batch, self.out.batch, strict=True)
        axes = [pair for pair in zip(self.extents, strides, strict=True) if pair[0] > 1]
        m, rows = self.m, (self.a.row, self.out.row)
        while axes and axes[-1][1][1] == 0:
            extent, (left, _, result) = axes[-1]
            if m > 1 and (left, result) != (m * rows[0], m * rows[1]):
                break
            rows = (left, result) if m == 1 else rows
            m *= extent
            axes.pop()
        merged: list[tuple[int, tuple[int, int, int]]] = []
        for extent, steps in axes:
            if merged and merged[-1][1] == tuple(extent * step for step in steps):
                merged[-1] = (merged[-1][0] * extent, steps)
            else:
                merged.append((extent, steps))
        batches = [tuple(steps[which] for _, steps in merged) for which in range(3)]
        made = replace(
            self,
            extents=tuple(extent for extent, _ in merged),
            m=m,
            a=View(batches[0], rows[0], self.a.column),
            b=replace(self.b, batch=batches[1]),
            out=View(batches[2], rows[1], 1),
        )
        if made.n > 1 or made.m == 1 or made.out.row > 1:
            return made, False
        # A product by one column is that of one row by the transpose.
        return replace(made, m=1, n=made.m, a=made.b.turned, b=made.a.turned), True

    def __str__(self) -> str:
        turned = " turned" if self.b.row == 1 and self.b.column > 1 else ""
        by = f"{self.m}x{self.k} by {self.k}x{self.n}{turned}"
        return f"matmul {spelled(self.extents)}{by}" + ("" if self.alpha == 1 else f" *{self.alpha:.4g}")


def spelled(extents: tuple[int, ...]) -> str:
    """A batch for people."""
    return f"{math.prod(extents)}x " if extents else ""


def check_batch(kind: str, extents: tuple[int, ...], *factors: float) -> None:
    """Raises ValueError for axes of no extent, and for factors that are no numbers."""
    if min(extents, default=1) < 1:
        raise ValueError(f"{kind} extents must be positive integers, got {extents}")
    if not all(map(math.isfinite, factors)):
        raise ValueError(f"{kind} factors must be finite, got {factors}")


def check_result(kind: str, out: View, extents: tuple[int, ...], rows: int, columns: int) -> None:
    """Raises ValueError unless the result is a dense array whose columns are neighbours."""
    out.check(f"{kind} out", extents, rows, columns)
    if out.size(extents, rows, columns) != math.prod(extents) * rows * columns:
        raise ValueError(f"{kind} out must have a place of its own for every element")
    if out.column != 1:
        raise ValueError(f"{kind} out must have its columns side by side, got a step of {out.column}")
