"""Convolutions of other kinds, written as two-dimensional ones, which kernels compute.

What is computed stays the same, and so do the names of nodes; tensors between them may be new.
"""

from __future__ import annotations

from tuner.frontend.convolutions.columns import write_products
from tuner.frontend.convolutions.lines import Lines
from tuner.frontend.convolutions.pads import merge_pads
from tuner.frontend.convolutions.runs import lift
from tuner.frontend.convolutions.transposed import write_transposed
from tuner.frontend.convolutions.volumes import Volumes
from tuner.frontend.onnx_graph import OnnxGraph


def as_images(graph: OnnxGraph) -> None:
    """Rewrite the graph so that as many convolutions as possible are of images."""
    merge_pads(graph)
    write_products(graph)
    lift(graph, Lines(graph))
    lift(graph, Volumes(graph))
    write_transposed(graph)
