"""A part of a model that shares nothing with the others: an operator and what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper


@dataclass
class Branch:
    """Nodes whose names all begin with ``prefix``; its floats are of ``dtype``.

    ``inputs`` have special values, ``plain`` ones among them ordinary numbers alone.
    """

    prefix: str
    dtype: Any
    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    constants: list[TensorProto] = field(default_factory=list)
    _count: int = 0

    @property
    def code(self) -> int:
        """What ONNX calls its floats."""
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))

    def input(self, *shape: int, plain: bool = False) -> str:
        """An input of floats."""
        name = self._name("x")
        self.inputs[name] = shape
        if plain:
            self.plain.add(name)
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        """A constant, of the branch's floats unless ``dtype`` says otherwise."""
        name = self._name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def whole(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.const(values, np.int64)

    def weights(self, *shape: int) -> str:
        """A constant of random numbers."""
        return self.const(self.rng.normal(size=shape) * 0.4)

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node of one result; its name."""
        return self.all_of(op, inputs, 1, **attributes)[0]

    def all_of(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """A node; the names of its ``count`` results."""
        names = [self._name(op.lower()) for _ in range(count)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names

    def _name(self, word: str) -> str:
        self._count += 1
        return f"{self.prefix}_{word}{self._count}"


Form = Callable[[Branch], str]
"""Writes an operator with its inputs; the name of the result."""
Fusion = Callable[[Branch, str], str]
"""Writes what follows a result; the name of the last one."""
