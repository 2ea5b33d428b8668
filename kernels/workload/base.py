"""Workloads: one operator instance in canonical form, whose hash is its name everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.activation import Activation
from kernels.workload.attention import Attention
from kernels.workload.canonical import key_of, require_positive, to_json
from kernels.workload.chain import AnyChain, ConvChain, QConvChain
from kernels.workload.checked import STRICT_FIELDS, read, remembered
from kernels.workload.conv2d import Conv2d
from kernels.workload.epilogue import RELU, Epilogue, suffix
from kernels.workload.geometry import GemmSizes
from kernels.workload.matmul import MatMul
from kernels.workload.narrow import NarrowGemm
from kernels.workload.qconv2d import QConv2d
from kernels.workload.view import View

__all__ = [
    "RELU",
    "Activation",
    "AnyChain",
    "Attention",
    "Conv2d",
    "ConvChain",
    "Epilogue",
    "Gemm",
    "MatMul",
    "NarrowGemm",
    "OfActivations",
    "QConv2d",
    "QConvChain",
    "View",
    "Workload",
    "array_shapes",
    "from_json",
    "key_of",
    "to_json",
]


@dataclass(frozen=True)
class Gemm(GemmSizes):
    """Matrix product of activations (m, k) by constant weights (k, n)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["gemm"]] = "gemm"
    unit: ClassVar[Unit] = "FLOP"
    m: int
    n: int
    k: int
    dtype: Literal["float32"] = "float32"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        require_positive(self, "m", "n", "k")

    def __str__(self) -> str:
        return f"gemm {self.m}x{self.k} by {self.k}x{self.n}" + suffix(self.epilogue)


OfActivations = MatMul | Attention
"""Workloads without constants: ``input_shapes`` are those of all that they take."""
Workload = Conv2d | Gemm | NarrowGemm | QConv2d | MatMul | Attention | ConvChain | QConvChain
KINDS: dict[str, type[Workload]] = {
    kind.kind: kind for kind in (Conv2d, Gemm, NarrowGemm, QConv2d, MatMul, Attention, ConvChain, QConvChain)
}


def array_shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """The arrays that its size is judged by: what it takes, without bias and residual, and the result."""
    if isinstance(workload, OfActivations):
        inputs = {f"input {at}": shape for at, shape in enumerate(workload.input_shapes)}
    elif isinstance(workload, AnyChain):
        first, second = workload.first, workload.second
        inputs = {"data": first.data_shape, "weight 1": first.weight_shape, "between": first.out_shape}
        inputs["weight 2"] = second.weight_shape
    else:
        inputs = {"data": workload.data_shape, "weight": workload.weight_shape}
    return {**inputs, "out": workload.out_shape}


@remembered
def from_json(value: dict[str, Any]) -> Workload:
    """Read a workload; raises ValueError that names what is wrong with it."""
    kind = value.get("kind") if isinstance(value, dict) else value
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(value, dict):
        raise ValueError(f"workload kind must be one of {sorted(KINDS)}, got {kind!r}")
    fields = {name: item for name, item in value.items() if name != "kind"}
    return read(KINDS[kind], fields, kind)
