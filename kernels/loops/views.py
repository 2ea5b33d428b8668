"""Where the elements of arrays lie: whole ones, and parts that only a few rows need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernels.emit.tvm import tirx
from kernels.emit.types import Buffer, Expr, Index
from kernels.loops.expressions import dtype_of


@dataclass(frozen=True)
class View:
    """The flat array ``data``; an index along an axis counts from ``starts`` and weighs ``strides``."""

    data: Buffer
    strides: tuple[Index, ...]
    starts: tuple[Expr | None, ...]

    def flat(self, indices: Sequence[Expr], analyzer: Any) -> Expr:
        """Where in ``data`` the element at ``indices`` lies."""
        total = None
        for index, stride, start in zip(indices, self.strides, self.starts, strict=True):
            if isinstance(stride, int) and stride == 0:
                continue
            part = index if start is None else index - start
            dtype = dtype_of(index)
            part = part * (tirx.const(stride, dtype) if isinstance(stride, int) else stride.astype(dtype))
            total = part if total is None else total + part
        return tirx.const(0, "int64") if total is None else analyzer.simplify(total)


def whole(data: Buffer, extents: Sequence[Index]) -> View:
    """All of a dense array."""
    strides: list[Index] = []
    step: Index = 1
    for extent in reversed(extents):
        strides.insert(0, 0 if isinstance(extent, int) and extent == 1 else step)
        step = step * extent
    return View(data, tuple(strides), (None,) * len(strides))


def part(data: Buffer, extents: Sequence[int], starts: Sequence[Expr | None]) -> View:
    """A dense array of a part: ``extents`` of 1 where it has but one index, whichever that is."""
    return replace(whole(data, extents), starts=tuple(starts))
