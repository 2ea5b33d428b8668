"""What memory has to move for a workload at least: everything that it takes and gives, once."""

from __future__ import annotations

from math import prod

from kernels.workload.base import AnyChain, Workload, array_shapes
from kernels.workload.narrow import NarrowGemm
from kernels.workload.qconv2d import QConv2d

_BYTES = {"float32": 4, "int32": 4, "float16": 2, "int8": 1, "uint8": 1}


def least_bytes(workload: Workload) -> int:
    """Bytes of all arrays that its size is judged by; weights of few bits count as many as they have. What
    is between the two of a chain need not be moved."""
    if isinstance(workload, AnyChain):
        first, second = workload.first, workload.second
        between = prod(first.out_shape) * _element(first, "out")
        return least_bytes(first) + least_bytes(second) - round(2 * between)
    arrays = [(prod(shape), name) for name, shape in array_shapes(workload).items()]
    if getattr(getattr(workload, "epilogue", None), "residual", False):
        arrays.append((prod(workload.out_shape), "out"))
    return round(sum(elements * _element(workload, name) for elements, name in arrays))


def _element(workload: Workload, array: str) -> float:
    if isinstance(workload, QConv2d):
        return _BYTES[getattr(workload, f"{array}_dtype")]
    if isinstance(workload, NarrowGemm) and array == "weight":
        return workload.bits / 8
    return _BYTES.get(getattr(workload, "dtype", "float32"), 4)
