"""Sequences of tensors with known lengths: what reads one reads the tensors in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array, TensorInfo, attributes_of
from compiler.ir.names import fresh
from compiler.passes.control_flow.inline import Written
from compiler.passes.shapes.axis_range import check_range

AXES_AS_INPUTS = 13
"""The version of Unsqueeze that takes them so."""


class Sequences:
    """``lists`` are the names of the tensors in every sequence that is known so far."""

    def __init__(self, model: ModelProto, taken: set[str]) -> None:
        self.lists: dict[str, list[str]] = {}
        self._taken = taken
        self._opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
        self._known: Mapping[str, Array] = {}
        self._tensors: Mapping[str, TensorInfo] = {}

    def has(self, node: NodeProto) -> bool:
        """Whether ``node`` copies a sequence that is known."""
        return node.op_type == "Identity" and node.input[0] in self.lists

    def written(
        self, node: NodeProto, known: Mapping[str, Array], tensors: Mapping[str, TensorInfo]
    ) -> Written | None:
        """What stands in the place of ``node``; None where that is not known yet. Raises ModelError."""
        self._known, self._tensors = known, tensors
        if node.op_type == "SplitToSequence":
            return self._split(node)
        if node.op_type == "SequenceConstruct":
            return self._is(node, list(node.input))
        if node.op_type == "SequenceEmpty":
            return self._is(node, [])
        if node.input[0] not in self.lists:
            return None
        names = list(self.lists[node.input[0]])
        return (
            self._is(node, names) if node.op_type == "Identity" else _READING[node.op_type](self, node, names)
        )

    def _is(self, node: NodeProto, names: list[str]) -> Written:
        self.lists[node.output[0]] = names
        return Written()

    def _insert(self, node: NodeProto, names: list[str]) -> Written | None:
        place = self._place(node, 2, len(names), len(names) + 1)
        if place is None:
            return None
        return self._is(node, [*names[:place], node.input[1], *names[place:]])

    def _erase(self, node: NodeProto, names: list[str]) -> Written | None:
        place = self._place(node, 1, len(names) - 1, len(names))
        return None if place is None else self._is(node, [*names[:place], *names[place + 1 :]])

    def _at(self, node: NodeProto, names: list[str]) -> Written | None:
        place = self._place(node, 1, 0, len(names))
        if place is None:
            return None
        written = Written()
        written.node("Identity", [names[place]], node.output[0], node)
        return written

    def _length(self, node: NodeProto, names: list[str]) -> Written:
        written = Written()
        written.constants.append(numpy_helper.from_array(np.array(len(names)), node.output[0]))
        return written

    def _joined(self, node: NodeProto, names: list[str]) -> Written:
        written, attributes = Written(), attributes_of(node)
        if not names:
            self._refuse(node, "joins an empty sequence")
        if attributes.get("new_axis", 0):
            names = [self._unsqueezed(written, node, name, attributes["axis"]) for name in names]
        written.node("Concat", names, node.output[0], node, axis=attributes["axis"])
        return written

    def _split(self, node: NodeProto) -> Written | None:
        attributes, data = attributes_of(node), node.input[0]
        told = len(node.input) > 1 and bool(node.input[1])
        if data not in self._tensors or (told and node.input[1] not in self._known):
            return None
        rank = len(self._tensors[data].shape)
        check_range(node, [attributes.get("axis", 0)], rank)
        axis = attributes.get("axis", 0) % rank
        extent = self._tensors[data].shape[axis]
        parts = self._parts(node, extent, self._known[node.input[1]] if told else np.array(1))
        squeezed = not told and not attributes.get("keepdims", 1)
        written, names, start = Written(), [], 0
        for part in parts:
            name = self._fresh(node, "part")
            if squeezed:
                written.node("Gather", [data, self._constant(written, node, start)], name, node, axis=axis)
            else:
                limits = [self._constant(written, node, [each]) for each in (start, start + part, axis)]
                written.node("Slice", [data, *limits], name, node)
            names.append(name)
            start += part
        written.add(self._is(node, names))
        return written

    def _parts(self, node: NodeProto, extent: int, size: Array) -> list[int]:
        """The lengths of the parts of an axis: they are said, or all but the last are of one ``size``."""
        if not size.ndim and size < 1:
            self._refuse(node, f"splits {extent} elements into parts of {size}")
        each = int(size) if not size.ndim else 1
        parts = size.tolist() if size.ndim else [min(each, extent - at) for at in range(0, extent, each)]
        if min(parts, default=0) < 0 or sum(parts) != extent:
            self._refuse(node, f"splits {extent} elements into parts of {parts}")
        return parts

    def _unsqueezed(self, written: Written, node: NodeProto, name: str, axis: int) -> str:
        wide = self._fresh(node, "row")
        if self._opset < AXES_AS_INPUTS:
            written.node("Unsqueeze", [name], wide, node, axes=[axis])
        else:
            written.node("Unsqueeze", [name, self._constant(written, node, [axis])], wide, node)
        return wide

    def _place(self, node: NodeProto, operand: int, default: int, end: int) -> int | None:
        """The place that an operand says, within ``range(end)``; None where it is not known."""
        if len(node.input) <= operand or not node.input[operand]:
            place = default
        elif node.input[operand] in self._known:
            place = int(self._known[node.input[operand]].item())
        else:
            return None
        found = place + end if place < 0 else place
        if not 0 <= found < end:
            self._refuse(node, f"reads place {place} of a sequence of {end}")
        return found

    def _constant(self, written: Written, node: NodeProto, value: int | Sequence[int]) -> str:
        name = self._fresh(node, "constant")
        written.constants.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def _fresh(self, node: NodeProto, name: str) -> str:
        return fresh(f"{node_name(node)}/{name}", self._taken)

    def _refuse(self, node: NodeProto, reason: str) -> NoReturn:
        raise ModelError(f"node {node_name(node)!r} ({node.op_type}) {reason}")


_READING: dict[str, Callable[[Sequences, NodeProto, list[str]], Written | None]] = {
    "ConcatFromSequence": Sequences._joined,
    "SequenceAt": Sequences._at,
    "SequenceErase": Sequences._erase,
    "SequenceInsert": Sequences._insert,
    "SequenceLength": Sequences._length,
}
_NUMBERS = {"SequenceAt": 1, "SequenceErase": 1, "SequenceInsert": 2, "SplitToSequence": 1}
"""Which operand says a place, or lengths."""
_INSTEAD = {
    "SequenceAt": "stack the tensors and take one by Gather",
    "SplitToSequence": "export the model with lengths that are constants, or with one tensor and a mask of "
    "what is in each part",
    **dict.fromkeys(
        ("SequenceErase", "SequenceInsert"),
        "export the model with one tensor for all of the sequence, which ScatterElements changes at a place "
        "that data tell, or with a place that is a constant",
    ),
}
"""What a model may do that has them from data."""
SEQUENCES = {*_READING, "SequenceConstruct", "SequenceEmpty", "SplitToSequence"}
"""Operators that make or read sequences."""


def numbers_of(node: NodeProto) -> list[str]:
    """The operand of ``node`` that says a place in a sequence, or lengths of its parts."""
    place = _NUMBERS.get(node.op_type, len(node.input))
    return [name for name in node.input[place : place + 1] if name]


def way_out(node: NodeProto) -> str:
    """What a model may do in which data decide that, as the end of a message."""
    return f": {_INSTEAD[node.op_type]}" if node.op_type in _INSTEAD else ""
