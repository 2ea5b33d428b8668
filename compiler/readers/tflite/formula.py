"""An operator of TFLite written as a formula: node by node in ONNX, in real numbers."""

from __future__ import annotations

import numpy as np

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import Writer


class Formula:
    """Adds nodes of an operator one by one; each call gives the name of the node's result."""

    def __init__(self, writer: Writer, op: Operator) -> None:
        self._writer, self._op = writer, op

    def __call__(self, kind: str, first: str, *others: str, **attributes: object) -> str:
        """Add a node; the name of its result."""
        name = self._writer.nodes.name(f"{self._op.name}/{kind}")
        return self._writer.nodes.chain(first, [(kind, list(others), attributes)], name, name)

    def floats(self, position: int) -> tuple[str, tuple[int, ...]]:
        """An input of float32 in the file's order, and its shape."""
        index = operand(self._writer, self._op, position)
        tensor = self._writer.tensor(index)
        if tensor.dtype != "float32":
            raise ModelError(f"its input {position} is of {tensor.dtype}, not of float32")
        # An image is read in the order of ONNX, and not from here.
        return "" if len(tensor.shape) == 4 else self._writer.real(index), tensor.shape

    def numbers(self, values: object) -> str:
        """A constant of float32."""
        return self._writer.nodes.constant(f"{self._op.name}/numbers", np.asarray(values, np.float32))

    def integers(self, values: object) -> str:
        """A constant of int64."""
        return self._writer.nodes.constant(f"{self._op.name}/places", np.asarray(values, np.int64))

    def part(self, data: str, start: int, stop: int, axis: int) -> str:
        """The entries from ``start`` to before ``stop`` along an axis; a Gather takes longer to build."""
        return self("Slice", data, *map(self.integers, ([start], [stop], [axis])))

    def reshaped(self, data: str, shape: tuple[int, ...]) -> str:
        """The same elements in another shape."""
        return self("Reshape", data, self.integers(shape))
