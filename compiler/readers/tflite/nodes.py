"""An ONNX graph while it is written: names that are there once, constants, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from compiler.ir.checks import MAX_TENSOR_BYTES, ModelError
from compiler.readers.tflite.file import Array

Step = tuple[str, list[str], dict[str, Any]]
"""An ONNX operator, its inputs after the first, and its attributes."""


class Nodes:
    """Nodes in the order in which they run, and the constants that they read."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._taken: set[str] = set()
        self._tried: dict[str, int] = {}
        self._bytes_left = MAX_TENSOR_BYTES

    def name(self, wanted: str) -> str:
        """``wanted``, or something like it where that is taken."""
        name, count = wanted, self._tried.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}.{count}"
        # Where to go on the next time: a file may have one name for everything.
        self._tried[wanted] = count
        self._taken.add(name)
        return name

    def spend(self, size: int) -> None:
        """Count ``size`` bytes of constants; raises ModelError when they become too many.

        What is stored once may be written in two orders, as wider numbers, or for several readers.
        """
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise ModelError(f"the constants take more than {MAX_TENSOR_BYTES // 1024**3} GiB")

    def constant(self, name: str, value: Array) -> str:
        """Add a constant, called ``name`` or something like it; its name."""
        self.spend(value.nbytes)
        name = self.name(name)
        native = np.ascontiguousarray(value, value.dtype.newbyteorder("=")).reshape(value.shape)
        self.initializers.append(numpy_helper.from_array(native, name))
        return name

    def chain(self, first: str, steps: Sequence[Step], label: str, last: str) -> str:
        """Add a chain of nodes: each reads the result of the one before, the first one ``first``.

        They are named after ``label``; the result is called ``last``, a name that is taken already.
        """
        value = first
        kinds = [kind for kind, _, _ in steps]
        for position, (kind, others, attributes) in enumerate(steps):
            again = kinds[1:position].count(kind)
            node = label if position == 0 else f"{label}/{kind}{again or ''}"
            output = last if position == len(steps) - 1 else self.name(f"{node}/result")
            self.nodes.append(helper.make_node(kind, [value, *others], [output], name=node, **attributes))
            value = output
        return value

    def needed(self, outputs: Iterable[str]) -> tuple[list[NodeProto], list[TensorProto]]:
        """The nodes and constants without which ``outputs`` could not be computed."""
        wanted = set(outputs)
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.output):
                wanted.update(node.input)
                kept.append(node)
        return kept[::-1], [tensor for tensor in self.initializers if tensor.name in wanted]
