"""The float convolution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.epilogue import Epilogue, suffix
from kernels.workload.geometry import ConvGeometry


@dataclass(frozen=True)
class Conv2d(ConvGeometry):
    """2-D convolution, NCHW, batch ``n``; pads are (top, left, bottom, right)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["conv2d"]] = "conv2d"
    unit: ClassVar[Unit] = "FLOP"
    n: int
    in_c: int
    in_h: int
    in_w: int
    out_c: int
    kh: int
    kw: int
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    dtype: Literal["float32"] = "float32"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        self.check_geometry(self.kind)

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the activations: (n, in_c, in_h, in_w)."""
        return (self.n, self.in_c, self.in_h, self.in_w)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the unpacked weights: (out_c, in_c / groups, kh, kw)."""
        return (self.out_c, self.depth, self.kh, self.kw)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result and of the residual: (n, out_c, out_h, out_w)."""
        return (self.n, self.out_c, self.out_h, self.out_w)

    def __str__(self) -> str:
        return self.spelled(f"conv {self.in_c}x{self.in_h}x{self.in_w}", suffix(self.epilogue))
