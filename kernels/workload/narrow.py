"""Matrix products of floats by weights that are kept narrower than float32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.arithmetic import ceil_div
from kernels.unit import Unit
from kernels.workload.canonical import require_positive
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.epilogue import Epilogue, suffix
from kernels.workload.geometry import GemmSizes


@dataclass(frozen=True)
class NarrowGemm(GemmSizes):
    """Matrix product of activations (m, k) by constant weights (k, n) of 4, 8 or 16 ``bits``.

    Weights of 16 bits are float16. Others are quanta (uint8): a weight is ``(quantum - zero) * scale``, and
    ``block`` of a column share scale and zero. Without ``zeros`` the zero is ``2^(bits - 1)``.

    Where ``rounded``, each block of a row of data becomes int8 before it is multiplied: the nearest multiples
    of a 127th of its largest magnitude, as onnxruntime rounds them for MatMulNBits of accuracy level 4.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["narrow_gemm"]] = "narrow_gemm"
    unit: ClassVar[Unit] = "FLOP"
    m: int
    n: int
    k: int
    bits: Literal[4, 8, 16]
    block: int = 0
    zeros: bool = False
    dtype: Literal["float32"] = "float32"
    epilogue: Epilogue = field(default_factory=Epilogue)
    rounded: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "m", "n", "k")
        if self.bits == 16:
            if self.block or self.zeros or self.rounded:
                raise ValueError("narrow_gemm of 16 bits has no block and no zeros, and rounds no data")
        elif not 1 <= self.block <= self.k or (self.block < self.k and self.block % self.together):
            raise ValueError(
                f"narrow_gemm block must be k or a multiple of {self.together} below, got {self.block!r}"
            )

    @property
    def together(self) -> int:
        """How many weights of a column are in one word: of 32 bits, of 16 of float16."""
        return {4: 8, 8: 4, 16: 1}[self.bits]

    @property
    def blocks(self) -> int:
        """Blocks of a column, the last perhaps shorter; none of float16."""
        return ceil_div(self.k, self.block) if self.block else 0

    @property
    def constants(self) -> int:
        """How many inputs after the data say what the weights are: they, scales and zeros."""
        return 1 + (self.bits < 16) + self.zeros

    def __str__(self) -> str:
        weights = "float16" if self.bits == 16 else f"{self.bits} bits"
        if 0 < self.block < self.k:
            weights += f" in blocks of {self.block}"
        weights += " with zeros" * self.zeros + ", data rounded to int8" * self.rounded
        return f"gemm {self.m}x{self.k} by {self.k}x{self.n} of {weights}" + suffix(self.epilogue)
