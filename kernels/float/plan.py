"""What the plans of all float families have in common: the function's arguments, and the epilogue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from kernels.emit.function import Function
from kernels.emit.open_rows import held
from kernels.emit.tir import number, splat, store, vector
from kernels.emit.tvm import tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc, Vector
from kernels.float.activated import Activate
from kernels.kernel import Plan
from kernels.layout import PLAIN, Layouts, stored_shape
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d, Epilogue, Gemm, NarrowGemm

Shape = tuple[Index, ...]
F = TypeVar("F", bound=Conv2d | Gemm)


def clamped(value: Vector, epilogue: Epilogue, lanes: int) -> Vector:
    """``value`` within the limits of ``epilogue``, of which there may be none."""
    low, high = epilogue.clamp or (None, None)
    if low is not None:
        value = tirx.Max(value, splat(number(low), lanes))
    if high is not None:
        value = tirx.Min(value, splat(number(high), lanes))
    return value


@dataclass(frozen=True)
class Arguments:
    """A kernel function's buffers, all flat; ``bias`` and ``residual`` are None when there is none.

    ``rows`` are those of a matrix product that is open: not as many as the workload says.
    """

    workload: Conv2d | Gemm | NarrowGemm
    data: Buffer
    weights: Buffer
    out: Buffer
    bias: Buffer | None = None
    residual: Buffer | None = None
    activate: Activate | None = None
    rows: Index | None = None

    def finish(self, value: Vector, at: Index, lanes: int) -> Vector:
        """``value`` of the output's elements from ``at`` with the epilogue applied.

        But for the bias, from which kernels start their accumulators.
        """
        late = self.workload.epilogue.late
        if self.residual is not None and not late:
            value = value + self.residual[vector(at, lanes)]
        if self.activate is not None:
            value = self.activate(value, at, lanes)
        if self.residual is not None and late:
            value = value + self.residual[vector(at, lanes)]
        return clamped(value, self.workload.epilogue, lanes)

    def store_out(self, value: Vector, at: Index, lanes: int) -> None:
        """Store ``finish(value)`` to ``lanes`` elements of the output from ``at``."""
        store(self.out, self.finish(value, at, lanes), vector(at, lanes))


@dataclass(frozen=True)
class FloatPlan(Plan[F]):
    """A function of what there is of bias and slope (``bias_length``), residual (``out_shape``).

    All arrays are dense, row-major float32. Activations of convolutions are stored in ``layouts``.
    """

    layouts: Layouts = field(default=PLAIN, kw_only=True)

    @classmethod
    def of(cls, workload: F, config: Config, target: Target, threads: int, **more: Any) -> Self:
        """Read a config."""
        return super().of(workload, config, target, threads, layouts=config.layouts, **more)

    @property
    @abstractmethod
    def packed_length(self) -> int:
        """Elements of the packed weights."""

    @abstractmethod
    def body(self, args: Arguments) -> None:
        """Emit the code."""

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""
        workload = self.workload
        data, out = workload.data_shape, workload.out_shape
        if self.layouts != PLAIN:
            data, out = stored_shape(self.layouts.data, data), stored_shape(self.layouts.out, out)
        return self.emit_given(name, self.shapes_given(data, out, out), None)

    def shapes_given(self, data: Shape, residual: Shape, out: Shape) -> dict[str, Shape]:
        """The shapes of all that the function takes, in order, where the activations have these."""
        workload = self.workload
        shapes: dict[str, Shape] = {"data": data, "weights": (self.packed_length,)}
        if workload.epilogue.bias:
            shapes["bias"] = (workload.bias_length,)
        if workload.epilogue.slope:
            shapes["slope"] = (workload.bias_length,)
        if workload.epilogue.residual:
            shapes["residual"] = residual
        return {**shapes, "out": out}

    def emit_given(self, name: str, shapes: Mapping[str, Shape], rows: Expr | None) -> PrimFunc:
        """The function whose arguments have these ``shapes``; of a matrix product with that many ``rows``,
        an expression of what they leave open, where that is given."""
        workload = self.workload
        function = Function(name, shapes)
        with function as buffers:
            named = dict(zip(shapes, buffers, strict=True))
            activate = Activate.of(workload, named.pop("slope", None), self.target, self.layouts.out)
            count = None if rows is None else held(rows.astype("int32"))
            self.body(Arguments(workload, **named, activate=activate, rows=count))
        return activate.linked(function.result()) if activate else function.result()


@dataclass(frozen=True)
class ConvPlan(FloatPlan[Conv2d]):
    """A plan of a convolution."""

    @property
    def conv(self) -> Conv2d:
        """The workload."""
        return self.workload

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.lanes()

    @property
    def line(self) -> int:
        """Elements of a cache line."""
        return self.target.line_bytes // 4


def why_not_ungrouped(conv: Conv2d) -> str | None:
    """Why ``conv`` is no convolution without groups, or None when it is one."""
    return None if conv.groups == 1 else "grouped"
