"""Empty tensors are constants: a run can decide nothing about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.names import fresh, names_of, reads, rename

WINDOWED = {"Conv", "ConvInteger", "ConvTranspose", "DeformConv", "MaxUnpool", "QLinearConv"}
"""Those with a window that may not be larger than what it moves over: a pool has no result then."""
LOOKING = {
    *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"),
    *("MaxRoiPool", "RoiAlign"),
}
"""Those that look at planes, which must have elements: each library makes something else of none."""

INDEXED = {"Gather", "GatherND", "Scatter", "ScatterElements", "ScatterND", "TensorScatter"}
"""Those that may refuse an index though nothing comes of it, as onnxruntime does."""


class Info(Protocol):
    """Shape and ONNX element type of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def elem_type(self) -> int:
        """Its type."""


def hold_empty(model: ModelProto) -> None:
    """Let nodes read a constant in the place of an input without elements, in place; shapes are known."""
    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    read = {name for node in graph.node for name in reads(node)}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for value in graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        if value.name in held or value.name not in read or 0 not in shape:
            continue
        taken = taken or set(names_of(graph))
        names[value.name] = fresh(f"{value.name}/empty", taken)
        nothing = np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type))
        graph.initializer.append(numpy_helper.from_array(nothing, names[value.name]))
    if not names:
        return
    for node in graph.node:
        rename(node, names)
    model.ir_version = max(model.ir_version, 4)


def nothing(
    node: NodeProto, tensors: Mapping[str, Info], constants: Mapping[str, npt.NDArray[Any]]
) -> list[Any]:
    """The results of ``node`` where none of them has an element; nothing where one has, or is not known.

    Of nothing a DynamicQuantizeLinear has a scale of 1, as onnxruntime does.
    """
    inputs = [tensors[name].shape for name in node.input if name in tensors]
    if node.op_type == "DynamicQuantizeLinear" and inputs and 0 in inputs[0]:
        return [np.zeros(inputs[0], np.uint8), np.ones((), np.float32), np.zeros((), np.uint8)]
    if node.op_type in WINDOWED and not any(0 in shape for shape in inputs):
        return []
    if node.op_type in INDEXED and not any(0 in tensors[n].shape for n in node.input[1:2] if n in tensors):
        return []
    if node.op_type == "Resize" and (made := _resized(node, tensors.get(node.input[0]), constants)):
        return made
    infos = [tensors.get(name) for name in node.output if name]
    values = [
        np.zeros(info.shape, helper.tensor_dtype_to_np_dtype(info.elem_type))
        for info in infos
        if info is not None and 0 in info.shape
    ]
    return values if len(values) == len(infos) else []


def _resized(node: NodeProto, info: Info | None, constants: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    """Resize data without elements to ``sizes``. Onnx does not always infer that shape.

    An axis without elements has no scale of its own, so the others decide the scale of all axes. ModelError
    where elements would come of none, or none of some: each library makes something else of that.
    """
    said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    sizes = constants.get(node.input[3]) if len(node.input) > 3 else None
    if info is None or sizes is None or not sizes.size or 0 not in info.shape:
        return []
    shape = list(info.shape)
    wanted = dict(zip(said.get("axes", range(len(shape))), sizes.reshape(-1).tolist(), strict=False))
    policy = said.get("keep_aspect_ratio_policy", b"stretch")
    scales = [np.float32(size) / np.float32(shape[axis]) for axis, size in wanted.items() if shape[axis]]
    if 0 in scales or (policy == b"not_smaller" and len(scales) < len(wanted)):
        _refuse(node, f"has no scale for an axis without elements: {shape} to sizes {sizes.tolist()}")
    for axis, size in wanted.items():
        if policy == b"stretch":
            if size and not shape[axis]:
                _refuse(node, f"makes {size} elements along axis {axis} of data without elements there")
            shape[axis] = size
        elif scales:
            scale = min(scales) if policy == b"not_larger" else max(scales)
            shape[axis] = int(np.floor(scale * np.float32(shape[axis]) + np.float32(0.5)))
    return [np.zeros(shape, helper.tensor_dtype_to_np_dtype(info.elem_type))]


def _refuse(node: NodeProto, reason: str) -> NoReturn:
    raise ModelError(f"node {node_name(node)!r} (Resize) {reason}")
