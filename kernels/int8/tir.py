"""Arguments and stores of quantized kernels."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
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
    """A quantized kernel's buffers, all flat; ``multiplier`` and ``shift`` are None with int32 output."""

    conv: QConv2d
    data: Buffer
    weights: Buffer
    bias: Buffer
    out: Buffer
    multiplier: Buffer = None
    shift: Buffer = None
