"""Attention: a product with keys, Softmax of its rows, and a product with values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.canonical import key_of, require_positive
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.epilogue import Epilogue
from kernels.workload.matmul import Shape, check_batch, check_result, spelled
from kernels.workload.view import View

DEEPEST = 512
"""The largest heads that a workspace is made for."""


@dataclass(frozen=True)
class Attention:
    """out = alpha * softmax(scale * queries @ keys + mask) @ values, at every place of a batch.

    ``queries`` are rows x depth, ``keys`` depth x count, ``values`` count x width and ``mask`` rows x count.
    Row i sees the keys up to i + ``causal``, or all where that is None. A row that sees none, as all its mask
    is minus infinity, becomes NaN, or zeros where ``zeros`` says so. The columns of ``out`` are neighbours.
    Each array is flat: what its view sees, up to the last element.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["attention"]] = "attention"
    unit: ClassVar[Unit] = "FLOP"
    dtype: ClassVar[str] = "float32"
    epilogue: ClassVar[Epilogue] = Epilogue()
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
    zeros: bool = False

    def __post_init__(self) -> None:
        for name in ("scale", "alpha"):
            object.__setattr__(self, name, float(getattr(self, name)))
        require_positive(self, "rows", "count", "depth", "width")
        check_batch(self.kind, self.extents, self.scale, self.alpha)
        self.queries.check("attention queries", self.extents, self.rows, self.depth)
        self.keys.check("attention keys", self.extents, self.depth, self.count)
        self.values.check("attention values", self.extents, self.count, self.width)
        if self.mask is not None:
            self.mask.check("attention mask", self.extents, self.rows, self.count)
        check_result(self.kind, self.out, self.extents, self.rows, self.width)

    @property
    def flops(self) -> int:
        """Floating-point operations of both products."""
        return 2 * math.prod(self.extents) * self.rows * self.count * (self.depth + self.width)

    @property
    def key(self) -> str:
        """Content hash, the workload's name."""
        return key_of(self)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Shapes of queries, keys, values and, if there is one, the mask."""
        sizes = [
            self.queries.size(self.extents, self.rows, self.depth),
            self.keys.size(self.extents, self.depth, self.count),
            self.values.size(self.extents, self.count, self.width),
        ]
        if self.mask is not None:
            sizes.append(self.mask.size(self.extents, self.rows, self.count))
        return tuple((size,) for size in sizes)

    @property
    def data_shape(self) -> Shape:
        """Shape of the first input."""
        return self.input_shapes[0]

    @property
    def out_shape(self) -> Shape:
        """Shape of the result."""
        return (self.out.size(self.extents, self.rows, self.width),)

    def why_not(self) -> str | None:
        """Why no kernel computes it, or None when one does."""
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

    def __str__(self) -> str:
        sizes = f"{self.rows}x{self.depth}, {self.count} keys, {self.width} values"
        more = (" +mask" if self.mask else "") + ("" if self.causal is None else " causal")
        return f"attention {spelled(self.extents)}{sizes}{more}"


def _folded(view: View) -> View:
    """The last axis of the batch as rows."""
    return View(view.batch[:-1], view.batch[-1], view.column)
