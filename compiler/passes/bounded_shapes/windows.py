"""Convolutions, pools and frames: what a window sees behind the last element that counts is padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import wanted
from compiler.passes.bounded_shapes.lacking import enough
from compiler.passes.bounded_shapes.norms import mean
from compiler.passes.bounded_shapes.products import zero_of
from compiler.passes.bounded_shapes.state import ALONG, Axes, Fill, State
from kernels.arithmetic import ceil_div

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Line:
    """The window along one axis: ``reach`` from its first to behind its last element."""

    reach: int
    step: int
    before: int
    after: int
    more: int = 0

    def least(self, fewest: int) -> int:
        """Of how many elements on its windows make ``fewest`` results, as onnxruntime counts them."""
        return self.reach - self.before - self.after + (fewest - 1) * self.step

    def slide(self, count: Integers) -> Integers:
        """How many places it has."""
        return np.maximum(0, (count + self.before + self.after - self.reach) // self.step + 1)

    def spread(self, count: Integers) -> Integers:
        """How many elements a transposed convolution makes."""
        return np.maximum(0, count * self.step + self._of_none)

    @property
    def _of_none(self) -> int:
        return self.reach - self.step - self.before - self.after + self.more

    @property
    def fewest(self) -> int:
        """Of how many elements on a transposed convolution makes one; never of none with ``more``."""
        return max(0, ceil_div(1 - self._of_none, self.step), min(1, self.more))


def window(state: State, node: NodeProto) -> Axes:
    """Conv, ConvInteger and pools."""
    data, counted = node.input[0], _spatial(state, node)
    attributes = attributes_of(node)
    lines = {axis: _line(state, node, attributes, axis) for axis in counted if axis > 1}
    if attributes.get("ceil_mode", 0) and lines:
        state.refuse(f"{ALONG}, and rounds up how many results there are")
    if lines and len(node.output) > 1 and node.output[1]:
        state.refuse(f"{ALONG}, and says where elements lie in the whole")
    padded = [axis for axis, line in lines.items() if line.after > 0]
    fill: Fill = -np.inf if node.op_type == "MaxPool" else 0
    if node.op_type == "ConvInteger":
        fill = zero_of(state, node, 2)
    # A pool of too few has no results, but there must be some.
    is_pool = node.op_type.endswith("Pool")
    least = {
        axis: max(1, line.least(0) - line.step + 1) if is_pool else line.least(1)
        for axis, line in lines.items()
    }
    data = enough(state, data, least, fill)
    if (
        node.op_type == "AveragePool"
        and not attributes.get("count_include_pad", 0)
        and any(line.before or line.after for line in lines.values())
    ):
        _average(state, node, data, padded)
    else:
        state.like(node, {0: state.masked(data, fill, padded)})
    found = {axis: size for axis, size in counted.items() if axis == 0}
    return found | {axis: wanted(state, line.slide, counted[axis]) for axis, line in lines.items()}


def _average(state: State, node: NodeProto, data: str, padded: list[int]) -> None:
    """Sums of what counts by how many these are."""
    info = state.info(node.input[0])
    shape = tuple(1 if axis < 2 else extent for axis, extent in enumerate(info.shape))
    ones = state.constant(np.ones(shape, info.dtype))
    state.axes[ones] = {axis: size for axis, size in state.axes_of(node.input[0]).items() if axis > 1}
    attributes = attributes_of(node) | {"count_include_pad": 1}
    sums, shares = (
        state.add("AveragePool", [state.masked(name, 0, padded)], **attributes) for name in (data, ones)
    )
    state.write("Div", [sums, shares], node.output)


def transposed(state: State, node: NodeProto) -> Axes:
    """ConvTranspose."""
    counted, attributes = _spatial(state, node), attributes_of(node)
    lines = {axis: _line(state, node, attributes, axis) for axis in counted if axis > 1}
    if lines and (attributes.get("output_shape") or _auto(attributes).startswith("SAME")):
        state.refuse(f"{ALONG}, and is told how many results there are")
    data = enough(state, node.input[0], {axis: line.fewest for axis, line in lines.items()}, 0)
    state.like(node, {0: state.masked(data, 0, [*lines])})
    found = {axis: size for axis, size in counted.items() if axis == 0}
    return found | {axis: wanted(state, line.spread, counted[axis]) for axis, line in lines.items()}


def frames(state: State, node: NodeProto) -> Axes:
    """STFT: frames that lie within what counts."""
    counted = state.axes_of(node.input[0])
    step, size = state.value(1), state.value(3)
    if size is None and len(node.input) > 2 and node.input[2]:
        size = np.array(state.info(node.input[2]).shape)
    if step is None or size is None or set(counted) - {0, 1} or any(map(state.axes_of, node.input[1:])):
        state.refuse(ALONG)
    state.keep(node)
    line = _Line(int(size.item()), int(step.item()), 0, 0)
    return {axis: wanted(state, line.slide, each) if axis else each for axis, each in counted.items()}


def global_pool(state: State, node: NodeProto) -> Axes:
    """A pool of all that counts."""
    name, shape = node.input[0], state.info(node.input[0]).shape
    spatial, counted = [*range(2, len(shape))], state.axes_of(node.input[0])
    fill = -np.inf if node.op_type == "GlobalMaxPool" else 0
    name = enough(state, name, {axis: 1 for axis in counted if axis > 1}, fill)
    if node.op_type == "GlobalMaxPool":
        state.like(node, {0: state.masked(name, -np.inf, spatial)})
    else:
        state.write("Identity", [mean(state, name, spatial)], node.output)
    return {axis: size for axis, size in counted.items() if axis < 2}


def _spatial(state: State, node: NodeProto) -> Axes:
    """The axes that count of the data; ModelError where channels or weights do."""
    counted = state.axes_of(node.input[0])
    if 1 in counted or any(map(state.axes_of, node.input[1:])):
        state.refuse(ALONG)
    return counted


def _auto(attributes: dict[str, Any]) -> str:
    return str(attributes.get("auto_pad", b"NOTSET").decode())


def _line(state: State, node: NodeProto, attributes: dict[str, Any], axis: int) -> _Line:
    """The window of ``node`` along ``axis``."""
    at, rank = axis - 2, len(state.info(node.input[0]).shape) - 2
    size = (
        attributes["kernel_shape"][at]
        if "kernel_shape" in attributes
        else state.info(node.input[1]).shape[axis]
    )
    step = attributes.get("strides", [1] * rank)[at]
    reach = (size - 1) * attributes.get("dilations", [1] * rank)[at] + 1
    pads = attributes.get("pads", [0] * (2 * rank))
    before, after, auto = pads[at], pads[at + rank], _auto(attributes)
    if auto.startswith("SAME") and node.op_type != "ConvTranspose":
        if step != 1:
            state.refuse(f"{ALONG}, and pads as much as that says; write its pads")
        less, more = (reach - 1) // 2, reach // 2
        before, after = (less, more) if auto == "SAME_UPPER" else (more, less)
    elif auto == "VALID":
        before = after = 0
    return _Line(reach, step, before, after, attributes.get("output_padding", [0] * rank)[at])
