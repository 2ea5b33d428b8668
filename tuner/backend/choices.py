"""Where a model chooses: what feeds a choice, and which results depend on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from compiler.ir.graph import OnnxGraph

Array = npt.NDArray[Any]

CHOICES = {
    "ArgMax": 1,
    "ArgMin": 1,
    "Compress": 2,
    "Hardmax": 1,
    "NonMaxSuppression": 2,
    "NonZero": 1,
    "TopK": 1,
    "Unique": 1,
}
"""Operators that make something else of values that hardly differ, and how many inputs decide that."""
STEPS = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod"), 2),
    **dict.fromkeys(("Binarizer", "Cast", "Ceil", "Floor", "IsInf", "IsNaN", "Round", "Sign"), 1),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsemble", "TreeEnsembleClassifier"), 1),
    "TreeEnsembleRegressor": 1,
}
"""Operators that make mostly the same of floats that hardly differ, and how many inputs decide that. Unlike
choices they keep rows in order, and what comes of a step says nothing of how near it was."""
_FLOATS = {
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
}
_SAME = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}


@dataclass(frozen=True)
class Places:
    """An output that says where along ``axis`` of the tensor ``of`` what a choice took lies."""

    of: str
    axis: int
    several: bool
    """Whether it took several places, all different."""

    def taken(self, values: Array, places: Array) -> Array | None:
        """What lies at ``places`` of ``values``; None where that is no choice."""
        axis = self.axis % values.ndim
        rows = np.moveaxis(values, axis, -1)
        count = places.size // max(1, rows[..., 0].size)
        if count * rows[..., 0].size != places.size:
            return None
        # A choice of one may have lost its axis; of several it stands where it was.
        shape = (*values.shape[:axis], count, *values.shape[axis + 1 :])
        index = np.moveaxis(places.reshape(shape), axis, -1).astype(np.int64)
        if ((index < 0) | (index >= rows.shape[-1])).any():
            return None
        if self.several and (np.diff(np.sort(index, axis=-1), axis=-1) == 0).any():
            return None
        return np.asarray(np.take_along_axis(rows, index, -1))


def feeds_of_choices(model: ModelProto) -> list[str]:
    """The tensors of which the values decide a choice that an output depends on, each once."""
    needed = _needed(model)
    return list(
        dict.fromkeys(
            name
            for node in model.graph.node
            if node.op_type in CHOICES and not needed.isdisjoint(node.output)
            for name in node.input[: CHOICES[node.op_type]]
            if name
        )
    )


def feeds_of_steps(model: ModelProto, graph: OnnxGraph) -> list[str]:
    """The floats of a step that an output depends on. ``graph`` is the model with its constants folded: what
    is no more in it follows from shapes."""
    needed, made = _needed(model), {name for node in graph.nodes for name in node.output}
    return [
        name
        for node in model.graph.node
        if is_step(node) and not needed.isdisjoint(node.output)
        for name in node.input[: STEPS[node.op_type]]
        if name in made and graph.tensors[name].dtype.startswith("float")
    ]


def is_step(node: NodeProto) -> bool:
    """Whether it makes mostly the same of floats that hardly differ."""
    to = next((each.i for each in node.attribute if each.name == "to"), None)
    return node.op_type in STEPS and to not in _FLOATS


def chosen_by(model: ModelProto, names: Collection[str]) -> tuple[frozenset[str], frozenset[int]]:
    """Those of ``names`` whose order or number a choice decides, and how many the choices take."""
    reached: set[str] = set()
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    todo = []
    for node in model.graph.node:
        if node.op_type in CHOICES:
            # The greatest values themselves change as little as all do.
            todo += node.output[1 if node.op_type == "TopK" else 0 :]
    while todo:
        name = todo.pop()
        if name and name not in reached:
            reached.add(name)
            todo += [output for node in readers.get(name, ()) for output in node.output]
    constants = _constants(model)
    taken = [
        constants[n.input[1]] for n in model.graph.node if n.op_type == "TopK" and n.input[1] in constants
    ]
    return frozenset(reached.intersection(names)), frozenset(
        int(each.reshape(-1)[0]) for each in taken if each.size
    )


def places_of(model: ModelProto) -> dict[str, Places]:
    """The outputs that are the places of a choice and nothing else."""
    makers, found = _makers(model), {}
    for value in model.graph.output:
        name, reshaped = value.name, False
        while name in makers and makers[name].op_type in _SAME:
            reshaped |= makers[name].op_type not in ("Cast", "Identity")
            name = makers[name].input[0]
        node = makers.get(name)
        if node is None or node.op_type not in ("ArgMax", "ArgMin", "TopK") or name != node.output[-1]:
            continue
        if node.input[0] not in makers:
            continue
        several = node.op_type == "TopK"
        if several and reshaped:
            continue
        axis = next((each.i for each in node.attribute if each.name == "axis"), -1 if several else 0)
        found[value.name] = Places(node.input[0], axis, several)
    return found


def _needed(model: ModelProto) -> set[str]:
    """The tensors that an output depends on."""
    needed, makers = {each.name for each in model.graph.output}, _makers(model)
    todo = list(needed)
    while todo:
        node = makers.get(todo.pop())
        for name in node.input if node is not None else ():
            if name not in needed:
                needed.add(name)
                todo.append(name)
    return needed


def _makers(model: ModelProto) -> dict[str, NodeProto]:
    return {name: node for node in model.graph.node for name in node.output if name}


def _constants(model: ModelProto) -> dict[str, Array]:
    found = {
        each.name: numpy_helper.to_array(each)
        for each in model.graph.initializer
        if not each.dims or max(each.dims) == 1
    }
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found
