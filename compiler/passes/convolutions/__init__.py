"""Convolutions of lines, volumes and transposed ones, as the two-dimensional ones that kernels compute.

What is computed stays the same, and so do the names of nodes; tensors between them may be new.
"""

from __future__ import annotations

from compiler.ir.graph import OnnxGraph
from compiler.passes.convolutions.columns import write_products
from compiler.passes.convolutions.lines import Lines
from compiler.passes.convolutions.pads import merge_pads
from compiler.passes.convolutions.runs import lift
from compiler.passes.convolutions.transposed import write_transposed
from compiler.passes.convolutions.volumes import Volumes


def as_images(graph: OnnxGraph) -> None:
    """Rewrite the graph so that as many convolutions as possible are of images."""
    merge_pads(graph)
    write_products(graph)
    lift(graph, Lines(graph))
    lift(graph, Volumes(graph))
    write_transposed(graph)
