"""A GatherND of one number: onnx's inference does not say that the result has no axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from compiler.ir.names import fresh


def gather_of_one(
    nodes: list[NodeProto],
    constants: MutableMapping[str, npt.NDArray[Any]],
    shapes: Callable[[list[NodeProto]], Mapping[str, Sequence[int]]],
) -> None:
    """Write such nodes as gathers of a row of one number, in place; ``shapes`` tells those of all tensors as
    far as some of the nodes say."""
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        if node.op_type != "GatherND":
            continue
        known = {**shapes(nodes[:place]), **{name: value.shape for name, value in constants.items()}}
        data, indices = (known.get(name) for name in node.input)
        if data is None or indices is None or tuple(indices) != (len(data),):
            continue
        taken = {name for each in nodes for name in (*each.input, *each.output)} | set(constants)
        row, wide, one, none = (
            fresh(f"{node.output[0]}/{each}", taken) for each in ("row", "wide", "one", "none")
        )
        constants[wide], constants[none] = np.array([1, len(data)]), np.zeros(0, np.int64)
        gather = helper.make_node("GatherND", [node.input[0], row], [one], name=node.name)
        nodes[place : place + 1] = [
            helper.make_node("Reshape", [node.input[1], wide], [row], name=node.name),
            gather,
            helper.make_node("Reshape", [one, none], [node.output[0]], name=node.name),
        ]
