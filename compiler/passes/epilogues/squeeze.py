"""Channel factors in front of a convolution (squeeze and excitation), which its weights can take in."""

from __future__ import annotations

from math import prod

from compiler.ir.graph import OnnxGraph
from compiler.passes.epilogues.epilogue import Wiring
from kernels.workload.base import Conv2d, Workload

SMALLER = 2
"""So many times fewer than the data the weights must be for their multiplication to be the cheaper one."""


def factored(graph: OnnxGraph, conv: Workload, data: str, wiring: Wiring) -> tuple[str, str] | None:
    """The data and the factors, one a channel; their product is the ``data`` of ``conv`` alone.

    ``(data * factors) * weights`` is ``data * (factors * weights)``, each product rounded as often. None
    where there are no factors, or multiplying the weights would not pay.
    """
    mul = wiring.writers.get(data)
    if not isinstance(conv, Conv2d) or mul is None or mul.op_type != "Mul":
        return None
    if wiring.only_reader(data) is None or any(name in graph.constants for name in mul.input):
        return None
    shapes = [graph.tensors[name].shape for name in mul.input]
    channels, whole = (1, conv.weight_shape[1], 1, 1), graph.tensors[data].shape
    plain = conv.groups == 1 and conv.weight_shape[2:] == (1, 1) and conv.data_shape == whole
    pays = SMALLER * prod(conv.weight_shape) <= prod(whole)
    if not plain or not pays or sorted(shapes) != sorted([channels, whole]):
        return None
    at = shapes.index(channels)
    return mul.input[1 - at], mul.input[at]
