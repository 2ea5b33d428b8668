"""What is known of the tensors of a model while it is walked over, and the nodes that are written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from compiler.ir.checks import ModelError, check_size, node_name
from compiler.ir.graph import Array, TensorInfo
from compiler.ir.names import fresh, names_of
from compiler.passes.bounded_shapes.limits import Limits
from compiler.passes.shapes.definitions import expanded
from compiler.passes.shapes.folding import constant_result, folded

AXES_AS_INPUTS = 13
"""The operator set since which a ReduceSum has its axes as an input."""
WHOLE_EXTREMES = 12
"""The operator set since which Max and Min take whole numbers."""
ALONG = "computes along an axis with a data-dependent length"
APART = "meets arrays with data-dependent lengths, which may differ"


LARGE = 1024
"""Constants of more elements take part in the inference of shapes with their shapes alone."""
Fill = float | str
"""A number, or the name of a tensor of one."""


@dataclass(frozen=True)
class Size:
    """A number between ``low`` and ``high``.

    Where they differ, it is ``times`` element ``at`` of the tensor ``source``, and ``plus``: sizes that are
    equal whatever data say are equal here.
    """

    low: int
    high: int
    source: str = ""
    at: int = 0
    times: int = 1
    plus: int = 0

    @property
    def known(self) -> bool:
        """Whether it is one number, whatever data say."""
        return self.low == self.high


def exactly(value: int) -> Size:
    """A number that is known."""
    return Size(value, value)


Axes = dict[int, Size]
"""How many elements of a tensor count, by axis; axes where all count are left out."""


class State:
    """A model while nodes are written for those it has."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        self._taken = set(names_of(model.graph))
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        # onnx's inference cannot look into some operators that others define.
        self.before = expanded(model, self.constants)
        found = dict(self.constants)
        _, self.tensors = folded(model, list(self.before), found)
        named = {name for node in self.before for name in node.output}
        self._taken |= named
        self.constants |= {name: value for name, value in found.items() if name in named}
        self.nodes: list[NodeProto] = []
        self.axes: dict[str, Axes] = {}
        self.sizes: dict[str, np.ndarray[Any, Any]] = {}
        self.reals: dict[str, np.ndarray[Any, Any]] = {}
        self.fills: dict[str, Fill] = {}
        self.renamed: dict[str, str] = {}
        self.limits = Limits(self.before, self.constants, self.tensors, self.sizes, self.opset)
        self._made: dict[Any, Any] = {}
        self.around: NodeProto

    def begin(self, node: NodeProto) -> None:
        """What is written from here on stands for ``node``."""
        self.around = node

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
        names = self.around.input
        if place >= len(names) or not names[place]:
            return default
        return self.constants.get(names[place], default)

    def refuse(self, reason: str) -> NoReturn:
        """Raise ModelError that names the node."""
        node = self.around
        raise ModelError(f"node {node_name(node)!r} ({node.op_type}) {reason}")

    def constant(self, value: Array) -> str:
        """A new constant; its name."""
        name = fresh(f"{self.around.output[0]}/constant", self._taken)
        self.make_constant(name, value)
        return name

    def make_constant(self, name: str, value: Array) -> None:
        """Have ``name`` be a constant of the model."""
        self.constants[name] = value
        self.tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        self.model.graph.initializer.append(_tensor(value, name))

    def rename_constant(self, name: str, to: str) -> None:
        """Have a constant that was made here be called ``to``."""
        self.constants[to] = self.constants.pop(name)
        next(tensor for tensor in self.model.graph.initializer if tensor.name == name).name = to

    def add(
        self, op: str, inputs: Sequence[str], room: Sequence[int] | None = None, **attributes: Any
    ) -> str:
        """Write a node of one result; its name. ``room`` is its greatest shape where data decide that."""
        output = fresh(f"{self.around.output[0]}/{op}", self._taken)
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
        self.keep(helper.make_node(op, inputs, outputs, name=node_name(self.around), **attributes), room)

    def keep(self, node: NodeProto, room: Sequence[int] | None = None) -> None:
        """Have ``node`` as it is, and infer what it makes."""
        given = []
        if room is not None:
            given = [helper.make_tensor_value_info(node.output[0], TensorProto.INT64, room)]
            self.model.graph.value_info.extend(given)
        if room is not None or any(name and name not in self.tensors for name in node.output):
            self._infer(node, given)
        made = constant_result(node, self.constants, self.tensors, self.opset) if room is None else None
        if made is None:
            self.nodes.append(node)
        else:
            self.make_constant(node.output[0], np.asarray(made))

    def like(self, node: NodeProto, inputs: Mapping[int, str]) -> None:
        """Keep ``node`` with other operands in these places."""
        made = NodeProto()
        made.CopyFrom(node)
        count = max([len(node.input), *(place + 1 for place in inputs)])
        given = {**dict(enumerate(node.input)), **inputs}
        made.input[:] = [given.get(place, "") for place in range(count)]
        for name in node.output:
            self.tensors.pop(name, None)
        self.keep(made)

    def shape_of(self, node: NodeProto) -> tuple[int, ...]:
        """The shape of what ``node`` would make."""
        held = self.tensors.pop(node.output[0], None)
        self._infer(node, [])
        shape = self.info(node.output[0]).shape
        del self.tensors[node.output[0]]
        if held is not None:
            self.tensors[node.output[0]] = held
        return shape

    def _infer(self, node: NodeProto, given: Sequence[ValueInfoProto]) -> None:
        names = dict.fromkeys(name for name in node.input if name)
        if any(name not in self.tensors for name in names):
            return
        small = {name for name in names if name in self.constants and self.constants[name].size <= LARGE}
        infos = [
            helper.make_tensor_value_info(name, self.tensors[name].elem_type, self.tensors[name].shape)
            for name in names
            if name not in small
        ]
        known = [_tensor(self.constants[name], name) for name in names if name in small]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "one", infos, outputs, known, value_info=given)
        if given:
            del graph.output[:]
            graph.output.extend(given)
        one = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=8)
        try:
            found = onnx.shape_inference.infer_shapes(one, strict_mode=True).graph
        except Exception as error:  # the C++ side raises its own types as well as plain RuntimeError
            self.refuse(f"has shapes that do not fit together: {str(error).strip().splitlines()[0]}")
        for value in (*found.value_info, *found.output):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                shape = tuple(dim.dim_value for dim in kind.shape.dim)
                self.tensors[value.name] = TensorInfo(shape, kind.elem_type)
                itemsize = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
                check_size(prod(shape) * itemsize, f"tensor {value.name!r}", shape)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` writes the first time that there is such a ``key``."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def count(self, size: Size) -> str:
        """The name of ``size`` as an int64 tensor of one element."""
        return str(self.once(size, lambda: self._count(size)))

    def _count(self, size: Size) -> str:
        if size.known:
            return self.constant(np.array([size.low], np.int64))
        if size.plus:
            number = self.count(replace(size, plus=0))
            return self.add("Add", [number, self.constant(np.array([size.plus]))])
        if size.times != 1:
            number = self.count(replace(size, times=1))
            return self.add("Mul", [number, self.constant(np.array([size.times]))])
        info, name = self.info(size.source), size.source
        if info.dtype != "int64":
            name = self.add("Cast", [name], to=TensorProto.INT64)
        if info.shape == (1,):
            return name
        flat = self.add("Reshape", [name, self.constant(np.array([-1]))])
        return flat if info.shape == () else self.add("Gather", [flat, self.constant(np.array([size.at]))])

    def inside(self, size: Size, extent: int) -> str:
        """Which of ``extent`` elements count, as truths."""

        def make() -> str:
            places = self.constant(np.arange(extent, dtype=np.int64))
            return self.add("Less", [places, self.count(size)])

        return str(self.once(("inside", size, extent), make))

    def masked(self, name: str, fill: Fill, axes: Sequence[int] | None = None) -> str:
        """``name`` with ``fill`` in the place of what does not count along ``axes``, or along any."""
        counted = self.axes_of(name)
        hit = tuple(axis for axis in counted if axes is None or axis in axes)
        if not hit or self.fills.get(name) == fill:
            return name
        made = str(self.once(("masked", name, fill, hit), lambda: self._masked(name, fill, hit)))
        self.axes[made] = dict(counted)
        if len(hit) == len(counted):
            self.fills[made] = fill
        return made

    def _masked(self, name: str, fill: Fill, axes: Sequence[int]) -> str:
        info, counted = self.info(name), self.axes_of(name)
        nothing = fill if isinstance(fill, str) else self._number(fill, np.dtype(info.dtype))
        for axis in axes:
            name = self.add("Where", [self.there(counted[axis], axis, info.shape), name, nothing])
        return name

    def there(self, size: Size, axis: int, shape: Sequence[int]) -> str:
        """Which elements count along ``axis`` of an array of ``shape``, as truths that go with it."""
        wide = [1] * len(shape)
        wide[axis] = shape[axis]

        def make() -> str:
            return self.add("Reshape", [self.inside(size, shape[axis]), self.constant(np.array(wide))])

        return str(self.once(("there", size, axis, *wide), make))

    def _number(self, fill: float, dtype: np.dtype[Any]) -> str:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            fill = min(max(fill, limits.min), limits.max)
        return self.constant(np.array(bool(fill) if dtype.kind == "b" else fill).astype(dtype))


def _tensor(value: Array, name: str) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
