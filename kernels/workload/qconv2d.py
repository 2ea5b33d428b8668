"""The quantized workload: a convolution of 8-bit integers, requantized; a matrix product is a 1x1 one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.epilogue import Epilogue
from kernels.workload.geometry import ConvGeometry

Byte = Literal["int8", "uint8"]
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}
"""The smallest and the largest value of each type."""
Range = tuple[int, int]
Scale = Literal["any", "small", "power"]
"""What is known of all scales of a workload: nothing; below a quarter (shift >= 2); a power of two, at most
a half (multiplier 2^30, shift >= 0)."""


@dataclass(frozen=True)
class QConv2d(ConvGeometry):
    """Quantized 2-D convolution, NHWC; pads are (top, left, bottom, right) and hold ``data_zero``.

    The result is ``clip(round(sum * multiplier * 2^(-31 - shift)) + out_zero)`` with ties rounded up, where
    ``sum = bias + sum of (data - data_zero) * (weight - weight_zero)`` fits int32. Multiplier and shift are
    constants beside the weights, one a channel or one in all (``per_channel``); both are int32, and a
    negative shift goes left. With ``out_dtype`` int32 the result is the sum, without scale, zero or clamp.

    With float32 it is that of a matrix product whose activations were quantized as they came:
    ``(sum - zero * sum of weights) * (step * unit) + addend``. ``unit`` and ``addend``, float32 and one a
    channel, are constants; ``step`` (float32) and ``zero`` (of the data's type) come with the data. Their
    difference is exact, what follows is rounded as floats are.

    ``clamp`` is in quanta, by default all that the type holds. ``weight_range`` and ``scale`` are what is
    known of the constants when the code is made: code may rely on it, so ``pack`` and the check of constants
    refuse others. ``qconstants.weight_range_of`` and ``scale_of`` tell what holds for given ones.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["qconv2d"]] = "qconv2d"
    unit: ClassVar[Unit] = "OP"
    epilogue: ClassVar[Epilogue] = Epilogue(bias=True)
    """There always is a bias; the clamp is the workload's own, in quanta."""
    n: int
    in_h: int
    in_w: int
    in_c: int
    out_c: int
    kh: int
    kw: int
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    data_dtype: Byte = "uint8"
    weight_dtype: Byte = "int8"
    out_dtype: Literal["int8", "uint8", "int32", "float32"] = "uint8"
    data_zero: int = 0
    weight_zero: int = 0
    out_zero: int = 0
    per_channel: bool = True
    clamp: Range | None = None
    weight_range: Range | None = None
    scale: Scale = "any"

    def __post_init__(self) -> None:
        self.check_geometry(self.kind)
        for name in ("data", "weight", "out"):
            low, high = LIMITS.get(getattr(self, f"{name}_dtype"), (0, 0))
            zero = getattr(self, f"{name}_zero")
            if not low <= zero <= high:
                raise ValueError(f"qconv2d {name}_zero={zero} is outside {low} to {high}")
        unscaled = (self.clamp, self.out_zero, self.scale) == (None, 0, "any")
        if self.out_dtype in ("int32", "float32") and not unscaled:
            raise ValueError(f"qconv2d with {self.out_dtype} output takes no clamp, out_zero or scale")
        matrix = (self.kh, self.kw, *self.stride, self.groups) == (1,) * 5 and not any(self.pad)
        if self.is_dynamic and (not matrix or self.data_zero):
            raise ValueError("qconv2d with float32 output is a matrix product of data without data_zero")
        # What says nothing is spelled in one way only, for the sake of the key.
        for name, dtype in (("clamp", self.out_dtype), ("weight_range", self.weight_dtype)):
            if dtype in LIMITS:
                object.__setattr__(self, name, _inside(name, getattr(self, name), LIMITS[dtype]))

    @property
    def dtype(self) -> str:
        """The type of the activations."""
        return self.data_dtype

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the activations: (n, in_h, in_w, in_c)."""
        return (self.n, self.in_h, self.in_w, self.in_c)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the unpacked weights: (kh, kw, in_c / groups, out_c)."""
        return (self.kh, self.kw, self.depth, self.out_c)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result: (n, out_h, out_w, out_c)."""
        return (self.n, self.out_h, self.out_w, self.out_c)

    @property
    def is_dynamic(self) -> bool:
        """Whether scale and zero point of the data come with them, and results are floats."""
        return self.out_dtype == "float32"

    @property
    def scale_length(self) -> int:
        """How many multipliers and shifts there are; none for int32 and float32 output."""
        if self.out_dtype in ("int32", "float32"):
            return 0
        return self.out_c if self.per_channel else 1

    @property
    def out_range(self) -> Range:
        """The smallest and the largest result."""
        return self.clamp or LIMITS[self.out_dtype]

    @property
    def centered_range(self) -> Range:
        """The smallest and the largest ``weight - weight_zero``."""
        low, high = self.weight_range or LIMITS[self.weight_dtype]
        return low - self.weight_zero, high - self.weight_zero

    def __str__(self) -> str:
        return self.spelled(f"qconv {self.in_h}x{self.in_w}x{self.in_c}", f" {self._types}{self._known}")

    @property
    def _types(self) -> str:
        """The types of data, weights and result, each with its zero point unless that is 0: u8s8u8z131."""
        tensors = (
            (self.data_dtype, self.data_zero),
            (self.weight_dtype, self.weight_zero),
            (self.out_dtype, self.out_zero),
        )
        return "".join(
            dtype.replace("uint", "u").replace("int", "s").replace("float", "f")
            + (f"z{zero}" if zero else "")
            for dtype, zero in tensors
        )

    @property
    def _known(self) -> str:
        """What else tells workloads of one shape apart; most layers of a model have small scales."""
        text = ""
        if self.weight_range is not None:
            low, high = self.weight_range
            text += f" w{high}" if low == -high else f" w{low}..{high}"
        if self.scale_length:
            text += {"any": " any scale", "small": "", "power": " power"}[self.scale]
        text += "" if self.per_channel else " one scale"
        return text + (f" clip {self.clamp[0]}..{self.clamp[1]}" if self.clamp else "")


def _inside(name: str, value: Range | None, limits: Range) -> Range | None:
    """``value``, None where it is no limit; ValueError when it is empty or leaves ``limits``."""
    if value is None or tuple(value) == limits:
        return None
    low, high = value
    if not limits[0] <= low <= high <= limits[1]:
        raise ValueError(f"qconv2d {name} {low} to {high} is empty or outside {limits[0]} to {limits[1]}")
    return (low, high)
