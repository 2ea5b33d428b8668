"""Arguments and stores of quantized kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tir import convert
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import split
from kernels.workload.qconv2d import QConv2d


def store_filters(
    out: Buffer, result: Vector, at: Index, first: Index, count: int, padded: int, lanes: int
) -> None:
    """Store results of filters from ``first`` on to ``out`` from ``at``, as far as they are below ``count``.

    Only the last vector of all, which ends at ``padded``, may go beyond.
    """
    rest = count - (padded - lanes)

    def whole() -> None:
        tir.store(out, result, tir.vector(at, lanes))

    def part() -> None:
        for offset, width, piece in split(result, rest, lanes):
            tir.store(out, piece, tir.vector(at + offset, width))

    if rest == lanes:
        whole()
    else:
        tir.choose(tir.index(first) + lanes <= count, whole, part)


@dataclass(frozen=True)
class QArguments:
    """A quantized kernel's buffers, all flat; ``multiplier`` and ``shift`` are None with int32 output.

    From ``total`` on they are of dynamic products alone (``QConv2d.is_dynamic``).
    """

    conv: QConv2d
    data: Buffer
    weights: Buffer
    bias: Buffer
    out: Buffer
    multiplier: Buffer = None
    shift: Buffer = None
    total: Buffer = None
    unit: Buffer = None
    addend: Buffer = None
    step: Buffer = None
    zero: Buffer = None

    def start(self, first: Index, lanes: int) -> Vector:
        """What the sums of ``lanes`` filters from ``first`` on begin with, int32."""
        at = tir.vector(first, lanes)
        if self.zero is None:
            return T.Bind(self.bias[at])
        zero = tir.splat(convert(self.zero[0], "int32", 1), lanes)
        return T.Bind(self.bias[at] - zero * self.total[at])

    def real(self, first: Index, lanes: int) -> Callable[[Vector], Vector]:
        """A function from dynamic sums of ``lanes`` filters from ``first`` on to their results, float32."""
        at = tir.vector(first, lanes)
        factor = T.Bind(self.unit[at] * tir.splat(self.step[0], lanes))
        addend = T.Bind(self.addend[at])
        return lambda sums: T.Bind(convert(sums, tir.F32, lanes) * factor + addend)
