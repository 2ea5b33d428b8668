"""An ONNX graph with every shape known and every constant computed: what partitioning works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from onnx import NodeProto, helper

Array = npt.NDArray[Any]

QUANTA = ("int4", "uint4", "int8", "uint8", "int32")
"""Types of quantized constants."""
STRINGS = "object"
"""What numpy calls strings."""
SIZED_BY_DATA = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
"""Operators that give results of other shapes for other data."""


@dataclass(frozen=True)
class TensorInfo:
    """Shape and ONNX element type of one tensor."""

    shape: tuple[int, ...]
    elem_type: int

    @property
    def dtype(self) -> str:
        """Name of the element type, as numpy spells it."""
        return str(helper.tensor_dtype_to_np_dtype(self.elem_type))


@dataclass
class OnnxGraph:
    """Nodes in topological order; ``constants`` holds initializers and everything computed from them.

    Until ``fold_quantized`` quantized constants stay what they are: DequantizeLinear of them is not computed.
    """

    inputs: dict[str, TensorInfo]
    outputs: list[str]
    nodes: list[NodeProto]
    constants: dict[str, Array]
    tensors: dict[str, TensorInfo]
    opset: int
    given_back: dict[str, str] = field(default_factory=dict)
    """What the file calls outputs that have other names here (``results.py``)."""

    @property
    def output_names(self) -> list[str]:
        """The outputs as the file calls them."""
        return [self.given_back.get(name, name) for name in self.outputs]

    def consumers(self) -> dict[str, list[NodeProto]]:
        """The nodes that read each tensor, once for every time they do."""
        readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                if name:
                    readers.setdefault(name, []).append(node)
        return readers

    def fresh(self, name: str) -> str:
        """``name``, or something like it where the graph has that already."""
        found, count = name, 0
        while found in self.tensors or found in self.constants:
            count += 1
            found = f"{name}.{count}"
        return found

    def constant(self, name: str, value: Array) -> str:
        """Add a constant; its name, ``name`` or something like it."""
        name = self.fresh(name)
        self.constants[name] = value
        self.tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        return name


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """The attributes of ``node`` as Python values."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def is_quantized_constant(node: NodeProto, constants: dict[str, Array]) -> bool:
    """Whether ``node`` makes floats of a quantized constant that has elements."""
    if node.op_type != "DequantizeLinear" or not all(name in constants for name in node.input if name):
        return False
    return constants[node.input[0]].size > 0 and constants[node.input[0]].dtype in QUANTA
