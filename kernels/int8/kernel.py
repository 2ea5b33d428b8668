"""What kernels of quantized workloads have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kernels.emit.function import Function
from kernels.emit.types import Index, PrimFunc
from kernels.int8 import requantize
from kernels.int8.constants import check_scale, check_weights, dynamic_start, folded_bias
from kernels.int8.tir import QArguments
from kernels.kernel import EXACT_TOLERANCE, Array, Kernel, Plan
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Space
from kernels.target import Target
from kernels.workload.base import Workload
from kernels.workload.qconv2d import QConv2d


@dataclass(frozen=True)
class QuantizedPlan(Plan[QConv2d]):
    """A plan whose function takes bias, multiplier and shift, int32, as ``constants`` makes them.

    The last two are there unless the output is int32. With float32 output these follow the bias: the sum of
    the weights (int32), unit and addend of each filter, and step and zero of the data, as ``QConv2d`` says.
    Whatever depends on a filter is filled up with zeros.
    """

    @property
    def conv(self) -> QConv2d:
        """The workload."""
        return self.workload

    @property
    @abstractmethod
    def packed_length(self) -> int:
        """Elements of the packed weights."""

    @property
    @abstractmethod
    def packed_dtype(self) -> str:
        """The type of the packed weights."""

    @property
    def offset(self) -> int:
        """What the code adds to each element of the data (and to the padding) before it multiplies."""
        return 0

    @property
    def padded_filters(self) -> int:
        """The length of the bias (and of scales, one a channel) that the code reads."""
        return self.workload.out_c

    @property
    def padded_scales(self) -> int:
        """The length of the multipliers, and of the shifts, that the code reads."""
        return self.padded_filters if self.workload.per_channel else 1

    @property
    def packed_zero(self) -> int:
        """What is taken off the weights when they are packed."""
        return self.workload.weight_zero

    def fill(self, values: Array) -> Array:
        """Bias, multipliers or shifts, one a filter (int32), as the code reads them: zeros at the end."""
        return np.pad(values, (0, self.padded_filters - values.size))

    def pack(self, weights: Array) -> Array:
        """The weights less their zero point, packed; ValueError for weights the workload excludes."""
        check_weights(self.workload, weights)
        return self.pack_centered(weights.astype(np.int32) - self.packed_zero)

    @abstractmethod
    def pack_centered(self, weights: Array) -> Array:
        """``weight - weight_zero`` (int32, ``weight_shape``) in the order the code reads them, 1-D."""

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """Packed weights, bias with the zero points folded in, and what else the function takes.

        Raises ValueError for constants that the workload excludes.
        """
        conv = self.workload
        weights, bias, *scale = inputs[1:]
        packed = self.pack(weights)
        if conv.is_dynamic:
            unit, addend, *scalars = scale
            filled = map(self.fill, (*dynamic_start(conv, weights, bias, self.offset), unit, addend))
            return [packed, *filled, *scalars]
        arrays = [folded_bias(conv, weights, bias, self.offset)]
        if scale:
            check_scale(conv, *scale)
            arrays += scale
        shared = () if conv.per_channel else (1, 2)
        return [packed, *(a if at in shared else self.fill(a) for at, a in enumerate(arrays))]

    @abstractmethod
    def body(self, args: QArguments) -> None:
        """Emit the code."""

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""
        shapes, dtypes = self.arguments_given(self.workload.data_shape, self.workload.out_shape)
        function = Function(name, shapes, dtypes)
        with function as buffers:
            self.body(QArguments(self.workload, **dict(zip(shapes, buffers, strict=True))))
        return function.result()

    def arguments_given(
        self, data: tuple[Index, ...], out: tuple[Index, ...]
    ) -> tuple[dict[str, tuple[Index, ...]], dict[str, str]]:
        """Shapes and dtypes of all that the function takes, in order, where data and result have these."""
        conv = self.workload
        shapes: dict[str, tuple[Index, ...]] = {
            "data": data,
            "weights": (self.packed_length,),
            "bias": (self.padded_filters,),
        }
        if conv.scale_length:
            shapes |= dict.fromkeys(("multiplier", "shift"), (self.padded_scales,))
        if conv.is_dynamic:
            shapes |= dict.fromkeys(("total", "unit", "addend"), (self.padded_filters,))
            shapes |= {"step": (), "zero": ()}
        shapes["out"] = out
        dtypes = {"data": conv.data_dtype, "weights": self.packed_dtype, "out": conv.out_dtype}
        dtypes |= {**dict.fromkeys(("unit", "addend", "step"), "float32"), "zero": conv.data_dtype}
        return shapes, {**dict.fromkeys(shapes, "int32"), **dtypes}


class QuantizedKernel(Kernel[QConv2d]):
    """A generator for quantized convolutions.

    Sums are exact, to the last bit; results are unless the knob ``requant`` scales sums in a way that rounds
    more, and those may be one quantum off.
    """

    tolerance = 1.0
    workload_type = QConv2d
    dynamic: ClassVar[bool] = False
    """Whether it computes what ``QConv2d.is_dynamic`` says."""

    def tile_rows(self, plan: QuantizedPlan) -> int | None:
        """How many rows of a matrix product its code meets at a time, where the packed weights are the same
        for any number of them; else None."""
        return None

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Most families compute no products of data that were quantized as they came."""
        reason = super().why_not(workload, target)
        if reason is None and isinstance(workload, QConv2d) and workload.is_dynamic and not self.dynamic:
            return "its data are quantized as they come"
        return reason

    def why_inexact(self, workload: QConv2d, config: Config) -> str | None:
        """Some ways to scale sums are inexact."""
        return requantize.why_inexact(str(config["requant"]))

    def exact_part(self, workload: QConv2d, space: Space) -> Space:
        """The ways to scale that are exact, of which every space has one."""
        ways = [way for way in space.knobs["requant"] if requantize.why_inexact(str(way)) is None]
        return replace(space, knobs={**space.knobs, "requant": ways})

    def tolerance_of(self, workload: QConv2d, config: Config) -> float:
        """In quanta, none for exact configs; of floats as of all others."""
        if workload.is_dynamic:
            return EXACT_TOLERANCE
        return 0.0 if self.why_inexact(workload, config) is None else self.tolerance

    def recommend(
        self, workload: QConv2d, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The exact config that is predicted fastest."""
        return min(
            self.exact_part(workload, self.space(workload, target, layouts, threads)),
            key=lambda config: self.predict(workload, config, target, threads),
        )
