"""Refuse axes that the data do not have: onnx keeps their low 32 bits, or takes them modulo the rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import ModelError, node_name

_OPERANDS = {"CumProd": 1, "CumSum": 1, "DFT": 2, "Pad": 3, "Slice": 3, "Squeeze": 1, "Unsqueeze": 1}
"""The operand that may have axes; of reductions it is the second, too."""
_MORE = {"Flatten": (0, 1), "OneHot": (1, 1)}
"""How many more axes than their data have are there for some: before the first, and behind the last."""


class Info(Protocol):
    """What is known of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""


def check_axes(
    nodes: Iterable[NodeProto], tensors: Mapping[str, Info], constants: Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Raise ModelError for the first axis out of range, among nodes with data of a known rank."""
    for node in nodes:
        if node.domain not in ("", "ai.onnx") or not node.input or node.input[0] not in tensors:
            continue
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == "GatherND":
            _check_batches(node, said.get("batch_dims", 0), [tensors.get(name) for name in node.input])
        axes = said.get("axes", [said["axis"]] if "axis" in said else [])
        place = 1 if node.op_type.startswith("Reduce") else _OPERANDS.get(node.op_type, len(node.input))
        if len(node.input) > place and node.input[place] in constants:
            axes = constants[node.input[place]].reshape(-1).tolist()
        if node.op_type in ("DequantizeLinear", "QuantizeLinear") and _is_one(tensors.get(node.input[1])):
            continue  # there is nothing along it
        before, behind = (0, 1) if "broadcast" in said else _MORE.get(node.op_type, (0, 0))
        if node.op_type == "Unsqueeze":
            before = behind = len(axes)
        check_range(node, axes, len(tensors[node.input[0]].shape), before, behind)


def check_range(node: NodeProto, axes: Iterable[int], rank: int, before: int = 0, behind: int = 0) -> None:
    """Raise ModelError where ``node`` has one of ``axes`` out of range; its data have ``rank`` axes.

    ``before`` and ``behind`` are how many more it may name on either side.
    """
    # Of a number, the only axis may be named.
    low, high = -max(rank, 1) - before, max(rank, 1) + behind - 1
    for axis in axes:
        if not low <= axis <= high:
            raise ModelError(
                f"node {node_name(node)!r} ({node.op_type}) needs an axis from {low} to {high}, as its data "
                f"have {rank}, and the model has {axis}"
            )


def _check_batches(node: NodeProto, batches: int, operands: Sequence[Info | None]) -> None:
    ranks = [len(each.shape) for each in operands if each is not None]
    if batches >= min(ranks):
        raise ModelError(
            f"node {node_name(node)!r} (GatherND) needs fewer batch axes than its operands of {ranks} axes "
            f"have, and has {batches}"
        )


def _is_one(scale: Info | None) -> bool:
    """Whether it has one number, or nobody knows."""
    return scale is None or prod(scale.shape) == 1
