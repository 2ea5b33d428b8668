"""One-dimensional convolutions and pools, as images of one row."""

from __future__ import annotations

from typing import Any

from onnx import NodeProto

from compiler.analysis.pooling import POOLS
from compiler.ir.graph import Array, OnnxGraph, attributes_of
from compiler.passes.convolutions.runs import Run

CONVOLUTIONS = ("Conv", "ConvTranspose")
PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}
"""Attributes with one number for each spatial axis, and what they say of the row."""
ROW = 2
"""The axis of the one row."""


class Lines:
    """(n, c, length) as (n, c, 1, length): a reshape."""

    rank = 3

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """See ``Form``."""
        return (*shape[:ROW], 1, *shape[ROW:])

    def enter(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """See ``Form``."""
        run.reshape(node, source, target)

    def leave(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """See ``Form``."""
        run.reshape(node, source, target)

    def operand(self, value: Array) -> Array | None:
        """See ``Form``."""
        if value.ndim < 2:
            return value
        return value.reshape(*value.shape[:-1], 1, value.shape[-1]) if value.ndim <= self.rank else None

    def is_window(self, node: NodeProto) -> bool:
        """See ``Form``."""
        return node.op_type in (*CONVOLUTIONS, *POOLS)

    def takes(self, node: NodeProto) -> bool:
        """See ``Form``."""
        constants = self._graph.constants
        if node.op_type in CONVOLUTIONS:
            return all(name in constants for name in node.input[1:] if name)
        return node.op_type in (*POOLS, "Concat") and not any(name in constants for name in node.input)

    def write(self, run: Run, node: NodeProto) -> None:
        """See ``Form``."""
        attributes = attributes_of(node)
        if node.op_type == "Concat":
            axis = attributes["axis"] % self.rank
            inputs = [run.image(name) for name in node.input]
            run.again(node, inputs, run.image(node.output[0]), axis=axis + (axis >= ROW))
            return
        wide: dict[str, Any] = {
            name: (of_row, *attributes[name]) for name, of_row in PER_AXIS.items() if name in attributes
        }
        if "pads" in attributes:
            first, last = attributes["pads"]
            wide["pads"] = (0, first, 0, last)
        inputs = [run.image(node.input[0]), *node.input[1:]]
        if node.op_type in CONVOLUTIONS:
            weights = self._graph.constants[node.input[1]]
            inputs[1] = self._graph.constant(f"{node.input[1]}/image", weights[:, :, None, :])
        run.again(node, inputs, run.image(node.output[0]), **wide)
