"""What all families that compute a chain of float convolutions have in common: the function's arguments."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

from kernels.emit.function import Function
from kernels.emit.types import Buffer, PrimFunc
from kernels.kernel import Plan
from kernels.layout import PLAIN, Layouts, stored_shape
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import ConvChain


@dataclass(frozen=True)
class Buffers:
    """The function's arguments, all flat."""

    data: Buffer
    first_filters: Buffer
    first_bias: Buffer
    second_filters: Buffer
    second_bias: Buffer
    out: Buffer
    residual: Buffer | None = None


@dataclass(frozen=True)
class PairPlan(Plan[ConvChain]):
    """A function of data, filters and bias of the first convolution, those of the second, and a residual.

    All biases are there, zeros where the workload has none.
    """

    layouts: Layouts = field(default=PLAIN, kw_only=True)

    @classmethod
    def of(cls, workload: ConvChain, config: Config, target: Target, threads: int, **more: Any) -> Self:
        """Read a config."""
        return super().of(workload, config, target, threads, layouts=config.layouts, **more)

    @property
    @abstractmethod
    def lengths(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Elements of the packed filters and of the bias, of either convolution."""

    @abstractmethod
    def body(self, args: Buffers) -> None:
        """Emit the code."""

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""
        shapes = self._shapes()
        function = Function(name, shapes)
        with function as buffers:
            self.body(Buffers(**dict(zip(shapes, buffers, strict=True))))
        return function.result()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        data, out = self.workload.data_shape, self.workload.out_shape
        if self.layouts != PLAIN:
            data, out = stored_shape(self.layouts.data, data), stored_shape(self.layouts.out, out)
        shapes: dict[str, tuple[int, ...]] = {"data": data}
        for name, (filters, bias) in zip(("first", "second"), self.lengths, strict=True):
            shapes[f"{name}_filters"] = (filters,)
            shapes[f"{name}_bias"] = (bias,)
        if self.workload.epilogue.residual:
            shapes["residual"] = out
        return {**shapes, "out": out}
