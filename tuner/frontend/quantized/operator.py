"""Integer operators of a model that are no products."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.qadd import QAdd
from kernels.qconcat import QConcat
from kernels.qlookup import QLookup
from kernels.qmul import QMul
from kernels.qpool import QPool

What = QAdd | QMul | QLookup | QPool | QConcat
"""What one of them computes."""
PRODUCT = "TilefleetProduct"
"""Operator of the one node that stands for a product; its attribute ``index`` points into the products."""
OPERATOR = "TilefleetOperator"
"""Operator of the one node that stands for an ``Operator``; its attribute ``index`` points to it."""


@dataclass(frozen=True)
class Operator:
    """What one integer function computes between the tensors ``inputs`` and ``output`` of the graph.

    ``name`` is the node's that it is of.
    """

    name: str
    what: What
    inputs: tuple[str, ...]
    output: str
