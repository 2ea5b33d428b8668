"""What is known of the tensors of a model while it is walked over, and the nodes that are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tuner.frontend.definitions import expanded
from tuner.frontend.names import fresh, names_of
from tuner.frontend.onnx_check import ModelError, node_name
from tuner.frontend.onnx_graph import Array, TensorInfo, attributes_of, constant_result, folded

AXES_AS_INPUTS = 13
"""The operator set since which a ReduceSum has its axes as an input."""
ALONG = "computes along an axis of which data decide the length"
APART = "meets arrays of which data decide the lengths, which may differ"


@dataclass(frozen=True)
class Size:
    """A number between ``low`` and ``high``: where they differ, element ``at`` of the tensor ``source``."""

    low: int
    high: int
    source: str = ""
    at: int = 0

    @property
    def known(self) -> bool:
        """Whether it is one number, whatever data say."""
        return self.low == self.high


def exactly(value: int) -> Size:
    """A number that is known."""
    return Size(value, value)


Axes = dict[int, Size]
"""Along which axes of a tensor how many elements count; not those of which all do."""


class State:
    """A model while nodes are written for those it has."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self.opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        self._taken = set(names_of(model.graph))
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        # onnx's inference cannot look into some operators that others define.
        found = dict(self.constants)
        _, self.tensors = folded(model, expanded(model, found), found)
        named = {name for node in model.graph.node for name in node.output}
        self.constants |= {name: value for name, value in found.items() if name in named}
        self.nodes: list[NodeProto] = []
        self.axes: dict[str, Axes] = {}
        self.sizes: dict[str, np.ndarray[Any, Any]] = {}
        self._counts: dict[Size, str] = {}
        self._around: NodeProto

    def begin(self, node: NodeProto) -> None:
        """What is written from here on stands for ``node``."""
        self._around = node

    def axes_of(self, name: str) -> Axes:
        """Along which axes only some elements of ``name`` count."""
        return self.axes.get(name, {})

    def info(self, name: str) -> TensorInfo:
        """Shape and type; ModelError where the shape is not known."""
        if name not in self.tensors:
            self.refuse(f"reads {name!r}, the shape of which cannot be determined")
        return self.tensors[name]

    def value(self, place: int, default: Any = None) -> Any:
        """Operand ``place`` as an array; ``default`` where it is left out or computed."""
        names = self._around.input
        if place >= len(names) or not names[place]:
            return default
        return self.constants.get(names[place], default)

    def refuse(self, reason: str) -> NoReturn:
        """Raise ModelError that names the node."""
        node = self._around
        raise ModelError(f"node {node_name(node)!r} ({node.op_type}) {reason}")

    def constant(self, value: Array) -> str:
        """A new constant; its name."""
        name = fresh(f"{self._around.output[0]}/constant", self._taken)
        self.make_constant(name, value)
        return name

    def make_constant(self, name: str, value: Array) -> None:
        """Have ``name`` be a constant of the model."""
        self.constants[name] = value
        self.tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        self._model.graph.initializer.append(_tensor(value, name))

    def add(
        self, op: str, inputs: Sequence[str], room: Sequence[int] | None = None, **attributes: Any
    ) -> str:
        """Write a node of one result; its name. ``room`` is its greatest shape where data decide that."""
        output = fresh(f"{self._around.output[0]}/{op}", self._taken)
        self.write(op, inputs, [output], room, **attributes)
        return output

    def write(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        room: Sequence[int] | None = None,
        **attributes: Any,
    ) -> None:
        """Write a node with these results."""
        self.keep(helper.make_node(op, inputs, outputs, name=node_name(self._around), **attributes), room)

    def keep(self, node: NodeProto, room: Sequence[int] | None = None) -> None:
        """Have ``node`` as it is, and infer what it makes."""
        made = constant_result(node, self.constants, self.tensors, self.opset) if room is None else None
        if made is not None:
            self.make_constant(node.output[0], np.asarray(made))
            return
        self.nodes.append(node)
        given = []
        if room is not None:
            given = [helper.make_tensor_value_info(node.output[0], TensorProto.INT64, room)]
            self._model.graph.value_info.extend(given)
        if room is not None or any(name and name not in self.tensors for name in node.output):
            self._infer(node, given)

    def like(self, node: NodeProto, inputs: Mapping[int, str], **attributes: Any) -> None:
        """Keep ``node`` with other operands, and attributes, in these places."""
        names = [inputs.get(place, name) for place, name in enumerate(node.input)]
        made = helper.make_node(node.op_type, names, node.output, name=node.name)
        for name, value in (attributes_of(node) | attributes).items():
            made.attribute.append(helper.make_attribute(name, value))
        for name in node.output:
            self.tensors.pop(name, None)
        self.keep(made)

    def _infer(self, node: NodeProto, given: Sequence[ValueInfoProto]) -> None:
        names = dict.fromkeys(name for name in node.input if name)
        if any(name not in self.tensors for name in names):
            return
        infos = [
            helper.make_tensor_value_info(name, self.tensors[name].elem_type, self.tensors[name].shape)
            for name in names
            if name not in self.constants
        ]
        known = [_tensor(self.constants[name], name) for name in names if name in self.constants]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "one", infos, outputs, known, value_info=given)
        if given:
            del graph.output[:]
            graph.output.extend(given)
        one = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=8)
        try:
            found = onnx.shape_inference.infer_shapes(one, strict_mode=True).graph
        except Exception as error:  # the C++ side raises its own types as well as plain RuntimeError
            self.refuse(f"has shapes that do not fit together: {str(error).strip().splitlines()[0]}")
        for value in (*found.value_info, *found.output):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                shape = tuple(dim.dim_value for dim in kind.shape.dim)
                self.tensors[value.name] = TensorInfo(shape, kind.elem_type)

    def count(self, size: Size) -> str:
        """The name of ``size`` as an int64 tensor of one element."""
        if size not in self._counts:
            self._counts[size] = self._count(size)
        return self._counts[size]

    def _count(self, size: Size) -> str:
        if size.known:
            return self.constant(np.array([size.low], np.int64))
        info, name = self.info(size.source), size.source
        if info.dtype != "int64":
            name = self.add("Cast", [name], to=TensorProto.INT64)
        if info.shape == (1,):
            return name
        flat = self.add("Reshape", [name, self.constant(np.array([-1]))])
        return flat if info.shape == () else self.add("Gather", [flat, self.constant(np.array([size.at]))])

    def inside(self, size: Size, extent: int) -> str:
        """Which of ``extent`` elements count, as truths."""
        places = self.constant(np.arange(extent, dtype=np.int64))
        return self.add("Less", [places, self.count(size)])

    def masked(self, name: str, fill: float, axes: Sequence[int] | None = None) -> str:
        """``name`` with ``fill`` in the place of what does not count along ``axes``, or along any."""
        info = self.info(name)
        dtype = np.dtype(info.dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            fill = min(max(fill, limits.min), limits.max)
        nothing = self.constant(np.array(bool(fill) if dtype.kind == "b" else fill).astype(dtype))
        for axis, size in self.axes_of(name).items():
            if axes is not None and axis not in axes:
                continue
            wide = [1] * len(info.shape)
            wide[axis] = info.shape[axis]
            there = self.add("Reshape", [self.inside(size, info.shape[axis]), self.constant(np.array(wide))])
            name = self.add("Where", [there, name, nothing])
        return name


def _tensor(value: Array, name: str) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
