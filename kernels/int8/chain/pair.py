"""What functions of two quantized convolutions take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernels.emit.function import Function
from kernels.emit.types import Buffer, PrimFunc
from kernels.kernel import Plan
from kernels.workload.base import QConvChain

CONSTANTS = ("weights", "bias", "multiplier", "shift")
"""What the function takes of each convolution; all but the weights are int32."""


@dataclass(frozen=True)
class Buffers:
    """The function's arguments, all flat; constants of the first and of the second convolution."""

    data: Buffer
    constants: tuple[Mapping[str, Buffer], Mapping[str, Buffer]]
    out: Buffer


class QPairPlan(Plan[QConvChain]):
    """A function of data, the ``CONSTANTS`` of either convolution, and the result."""

    @abstractmethod
    def stored(self) -> Sequence[tuple[str, Sequence[int]]]:
        """Of either convolution the type of the weights as stored, and the sizes of the ``CONSTANTS``."""

    @abstractmethod
    def body(self, args: Buffers) -> None:
        """Emit the code."""

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""
        chain, count = self.workload, len(CONSTANTS)
        shapes: dict[str, tuple[int, ...]] = {"data": chain.data_shape}
        dtypes: dict[str, str] = {"data": chain.first.data_dtype}
        for number, (dtype, sizes) in enumerate(self.stored()):
            for constant, size in zip(CONSTANTS, sizes, strict=True):
                shapes[f"{constant}{number}"] = (size,)
                dtypes[f"{constant}{number}"] = dtype if constant == "weights" else "int32"
        shapes["out"], dtypes["out"] = chain.out_shape, chain.second.out_dtype
        function = Function(name, shapes, dtypes)
        with function as (data, *given, out):
            first, second = (dict(zip(CONSTANTS, x, strict=True)) for x in (given[:count], given[count:]))
            self.body(Buffers(data, (first, second), out))
        return function.result()
