"""Workloads: one operator instance in canonical form, whose hash is its name everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from kernels.workload.activation import Activation
from kernels.workload.attention import Attention
from kernels.workload.canonical import key_of, require_positive, to_json
from kernels.workload.checked import STRICT_FIELDS, read
from kernels.workload.epilogue import RELU, Epilogue, suffix
from kernels.workload.geometry import ConvGeometry, GemmSizes
from kernels.workload.matmul import MatMul
from kernels.workload.narrow import NarrowGemm
from kernels.workload.qconv2d import QConv2d, Unit
from kernels.workload.view import View

__all__ = [
    "RELU",
    "Activation",
    "Attention",
    "Conv2d",
    "Epilogue",
    "Gemm",
    "MatMul",
    "NarrowGemm",
    "OfActivations",
    "QConv2d",
    "Unit",
    "View",
    "Workload",
    "array_shapes",
    "from_json",
    "key_of",
    "to_json",
]


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
    dtype: str = "float32"
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


@dataclass(frozen=True)
class Gemm(GemmSizes):
    """Matrix product of activations (m, k) by constant weights (k, n)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["gemm"]] = "gemm"
    unit: ClassVar[Unit] = "FLOP"
    m: int
    n: int
    k: int
    dtype: str = "float32"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        require_positive(self, "m", "n", "k")

    def __str__(self) -> str:
        return f"gemm {self.m}x{self.k} by {self.k}x{self.n}" + suffix(self.epilogue)


OfActivations = MatMul | Attention
"""Workloads without constants: ``input_shapes`` are those of all that they take."""
Workload = Conv2d | Gemm | NarrowGemm | QConv2d | MatMul | Attention
KINDS: dict[str, type[Workload]] = {
    kind.kind: kind for kind in (Conv2d, Gemm, NarrowGemm, QConv2d, MatMul, Attention)
}


def array_shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """The arrays that its size is judged by: what it takes, without bias and residual, and the result."""
    if isinstance(workload, OfActivations):
        inputs = {f"input {at}": shape for at, shape in enumerate(workload.input_shapes)}
    else:
        inputs = {"data": workload.data_shape, "weight": workload.weight_shape}
    return {**inputs, "out": workload.out_shape}


def from_json(value: dict[str, Any]) -> Workload:
    """Read a workload; raises ValueError that names what is wrong with it."""
    if not isinstance(value, dict) or value.get("kind") not in KINDS:
        kind = value.get("kind") if isinstance(value, dict) else value
        raise ValueError(f"workload kind must be one of {sorted(KINDS)}, got {kind!r}")
    fields = {name: item for name, item in value.items() if name != "kind"}
    return read(KINDS[value["kind"]], fields, value["kind"])
