"""What the plans of products of activations have in common: arrays in, an array out, nothing packed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from kernels.emit.function import Function
from kernels.emit.types import Buffer, PrimFunc
from kernels.kernel import Array, Plan
from kernels.workload.base import Attention, MatMul

A = TypeVar("A", bound=MatMul | Attention)

PARALLEL_FLOPS = 512 * 1024
"""Products of less work take about as long as waking another thread."""


@dataclass(frozen=True)
class ActivationPlan(Plan[A]):
    """A plan whose function takes the workload's inputs, all flat float32, and then the output."""

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.lanes()

    @property
    def parts(self) -> int:
        """How many threads share the work."""
        return self.threads if self.workload.flops >= PARALLEL_FLOPS else 1

    @abstractmethod
    def body(self, inputs: Sequence[Buffer], out: Buffer) -> None:
        """Emit the code."""

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """None: all that it takes are activations."""
        return []

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""
        shapes = {f"input{at}": shape for at, shape in enumerate(self.workload.input_shapes)}
        function = Function(name, {**shapes, "out": self.workload.out_shape})
        with function as (*inputs, out):
            self.body(inputs, out)
        return function.result()
