"""The sizes that a config of a product by narrow weights implies."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit.types import Buffer
from kernels.float.narrow.dots import Dot, dot_of
from kernels.float.plan import Arguments
from kernels.kernel import Plan as AnyPlan
from kernels.knobs import KnobSet
from kernels.target import Target
from kernels.workload.narrow import NarrowGemm


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``rows`` x ``vectors`` of sums are in registers while the weights of a panel pass."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class Plan(AnyPlan[NarrowGemm]):
    """Panels of ``vectors`` of columns; rows in tiles, for each of which the weights are unpacked anew."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why the sums do not fit the registers, or None when they do."""
        most = accumulators(self.workload, self.target)
        sums = self.rows * self.knobs.vectors
        return f"{self.rows}x{self.knobs.vectors} sums spill" if sums > most else None

    @property
    def rows(self) -> int:
        """Rows of a tile at most."""
        return min(self.knobs.rows, self.workload.m)

    @property
    def lanes(self) -> int:
        """Columns of a vector."""
        return self.target.lanes()

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.knobs.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of all columns, the last filled up."""
        return ceil_div(self.workload.n, self.width)

    @property
    def words(self) -> int:
        """Words of a column."""
        return ceil_div(self.workload.k, self.workload.together)

    @property
    def filled(self) -> int:
        """``k``, filled up to whole words."""
        return self.words * self.workload.together

    @property
    def way(self) -> Dot | None:
        """How rounded data and quanta, four of each, are multiplied as bytes; None: as floats."""
        return dot_of(self.workload, self.target)

    @property
    def shifts(self) -> tuple[int, ...]:
        """By how many bits each weight of a word is shifted: of bytes, the first four are in lower halves."""
        bits, count = self.workload.bits, self.workload.together
        if self.way is None:
            return tuple(bits * place for place in range(count))
        return tuple(8 * (place % 4) + 4 * (place // 4) for place in range(count))

    @property
    def packed_dtype(self) -> str:
        """The type of words."""
        return "int16" if self.workload.bits == 16 else "int32"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What the function takes as constants: words, and what there is of scales and zeros."""
        gemm = self.workload
        codes = (self.panels * gemm.blocks * self.width,)
        found: dict[str, tuple[int, ...]] = {"weights": (self.panels * self.words * self.width,)}
        return found | dict.fromkeys(("scale", "zero")[: gemm.constants - 1], codes)


@dataclass(frozen=True)
class NarrowArguments(Arguments):
    """The function's buffers; ``scale`` and ``zero`` are None where there are none."""

    scale: Buffer = None
    zero: Buffer = None


def accumulators(gemm: NarrowGemm, target: Target) -> int:
    """How many sums fit; those of a block are apart from those of all where there are several blocks."""
    return (target.vector_registers - 4) // (2 if gemm.blocks > 1 else 1)
