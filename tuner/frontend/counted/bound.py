"""The walk over a model: what data decide the number of gets room, and a count beside it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, helper

from kernels.operators.suppression import LEAST
from tuner.frontend.counted import elements, moves, reductions, shapes
from tuner.frontend.counted.places import compacted, how_many, not_below
from tuner.frontend.counted.sizes import compute
from tuner.frontend.counted.slices import part
from tuner.frontend.counted.state import Axes, Size, State
from tuner.frontend.onnx_check import ModelError, node_name
from tuner.frontend.onnx_graph import SIZED_BY_DATA, attributes_of

SINGLE = {
    *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Greater"),
    *("GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less"),
    *("LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "PRelu", "Reciprocal"),
    *("Relu", "Round", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor"),
    *("Dropout", "Elu", "Gelu", "Tan", "Atan", "Mish"),
}
"""Operators of single elements."""
RULES: dict[str, Callable[[State, NodeProto], Axes]] = {
    **dict.fromkeys(SINGLE, elements.each_element),
    **dict.fromkeys(reductions.NEUTRAL, reductions.reduced),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), reductions.reduced),
    **dict.fromkeys(("Flatten", "Squeeze", "Unsqueeze"), moves.flatten),
    **dict.fromkeys(("MatMul", "Gemm"), elements.product),
    **dict.fromkeys(("Shape", "Size"), shapes.shape_of),
    **dict.fromkeys(("Expand", "ConstantOfShape"), shapes.expand),
    **dict.fromkeys(("Softmax", "LogSoftmax", "CumSum", "Split"), reductions.along),
    "Concat": elements.concat,
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "GatherND": moves.gather_nd,
    "Range": shapes.range_,
    "Reshape": moves.reshape,
    "Slice": part,
    "Tile": moves.tile,
    "TopK": reductions.largest,
    "Transpose": moves.transpose,
}
"""A rule writes a node, changed where it must be, and says along which axes of its results (all of which have
as many axes) how many elements count."""
WAY_OUT = "cut the model before it"


def forget(model: ModelProto) -> None:
    """Drop what a file says of the shapes of results of which data decide how many there are."""
    sized = {name for node in model.graph.node if node.op_type in SIZED_BY_DATA for name in node.output}
    kept = [value for value in model.graph.value_info if value.name not in sized]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)


def bound(model: ModelProto) -> None:
    """Give every tensor of ``model`` one shape, with room for as many results as there can be.

    A model without such stays as it is. Raises ModelError that names a node for which that cannot be.
    """
    if not any(_decides(node) for node in model.graph.node):
        return
    nodes = list(model.graph.node)
    state = State(model)
    if not any(node.op_type in SIZED_BY_DATA or _is_open(state, node) for node in nodes):
        return
    sources: list[str] = []
    outputs = {value.name for value in model.graph.output}
    for node in nodes:
        if node.output[0] in state.constants:
            if node.output[0] in outputs:
                state.nodes.append(node)
            continue
        state.begin(node)
        try:
            _walk(state, node)
        except ModelError as error:
            if not sources:
                raise
            raise ModelError(f"{error}: that is behind {sources[-1]}; {WAY_OUT}") from None
        if node.op_type in MAKERS:
            sources.append(f"node {node_name(node)!r} ({node.op_type})")
    _cut(state, model)
    known = {tensor.name for tensor in model.graph.initializer}
    for name, value in state.constants.items():
        if name not in known:
            state.make_constant(name, value)
    del model.graph.node[:]
    model.graph.node.extend(state.nodes)


def _decides(node: NodeProto) -> bool:
    return node.op_type in (*MAKERS, "Slice")


def _is_open(state: State, node: NodeProto) -> bool:
    """Whether ``node`` is a Slice to an end that data decide."""
    ends = node.input[2] if node.op_type == "Slice" and len(node.input) > 2 else ""
    return bool(ends) and ends not in state.constants and node.output[0] not in state.tensors


def _walk(state: State, node: NodeProto) -> None:
    """Write one node."""
    if node.op_type in MAKERS:
        axes = MAKERS[node.op_type](state, node)
    elif compute(state, node):
        return
    elif _is_open(state, node) or any(name in state.axes or name in state.sizes for name in node.input):
        if not any(name in state.axes for name in node.input) and node.op_type not in SHAPED:
            state.keep(node)
            return
        rule = RULES.get(node.op_type)
        if rule is None:
            state.refuse("takes arrays of which data decide the lengths")
        axes = rule(state, node)
    else:
        state.keep(node)
        return
    state.begin(node)
    for name in node.output:
        if name and axes:
            state.axes[name] = dict(axes)


SHAPED = {"ConstantOfShape", "Expand", "Range", "Reshape", "Slice", "TopK", "Tile"}
"""Operators of which some operand says the shape of the result; all others take sizes for data."""


def _suppression(state: State, node: NodeProto) -> Axes:
    """NonMaxSuppression: rows for all classes of all images."""
    boxes, scores = node.input[:2]
    if set(state.axes_of(scores)) | set(state.axes_of(boxes)) and (
        set(state.axes_of(scores)) != {2} or set(state.axes_of(boxes)) != {1}
    ):
        state.refuse("takes arrays of which data decide the lengths")
    batch, classes, count = state.info(scores).shape
    most = state.value(2, None)
    given = len(node.input) > 2 and bool(node.input[2])
    limit = count if most is None and given else min(count, max(0, int(most.item()) if given else 0))
    rows = batch * classes * limit
    if rows == 0:
        state.make_constant(node.output[0], np.zeros((0, 3), np.int64))
        return {}
    inputs = list(node.input)
    if state.axes_of(scores):
        inputs[1] = state.masked(scores, -np.inf)
        if len(inputs) < 5 or not inputs[4]:
            inputs += [""] * (5 - len(inputs))
            inputs[4] = state.constant(np.array([LEAST], np.float32))
    found = state.add("NonMaxSuppression", inputs, (rows, 3), **attributes_of(node))
    first = state.add("Gather", [found, state.constant(np.array(0))], axis=1)
    there = state.add("Not", [state.add("Less", [first, state.constant(np.array(0))])])
    size = Size(0, rows, how_many(state, there))
    not_below(state, found, node.output[0])
    return {0: size}


def _places(state: State, node: NodeProto) -> Axes:
    """NonZero: a column for each element."""
    data = state.masked(node.input[0], 0)
    info = state.info(data)
    size = prod(info.shape)
    if not info.shape:
        state.refuse("takes one number")
    if not size:
        state.make_constant(node.output[0], np.zeros((len(info.shape), 0), np.int64))
        return {}
    found = state.add("NonZero", [data], (len(info.shape), size))
    first = state.add("Gather", [found, state.constant(np.array(0))], axis=0)
    there = state.add("Not", [state.add("Less", [first, state.constant(np.array(0))])])
    count = Size(0, size, how_many(state, there))
    not_below(state, found, node.output[0])
    return {1: count}


def _compress(state: State, node: NodeProto) -> Axes:
    """Compress: the rows for which a line of truths holds."""
    data, truths = node.input
    axis = attributes_of(node).get("axis")
    if any(map(state.axes_of, node.input)):
        state.refuse("takes arrays of which data decide the lengths")
    if axis is None:
        data = state.add("Reshape", [data, state.constant(np.array([-1]))])
        axis = 0
    (extent,) = state.info(truths).shape
    places = compacted(state, truths)
    state.write("Gather", [data, places], node.output, axis=axis)
    return {axis % len(state.info(data).shape): Size(0, extent, how_many(state, truths))}


MAKERS: dict[str, Callable[[State, NodeProto], Axes]] = {
    "Compress": _compress,
    "NonMaxSuppression": _suppression,
    "NonZero": _places,
}


def _cut(state: State, model: ModelProto) -> None:
    """Cut what counts out of the results of the model."""
    for value in model.graph.output:
        axes = state.axes_of(value.name)
        if not axes:
            continue
        info, whole = state.tensors[value.name], f"{value.name}/room"
        for node in state.nodes:
            for names in (node.input, node.output):
                names[:] = [whole if name == value.name else name for name in names]
        state.tensors[whole] = info
        if value.name in state.constants:
            state.make_constant(whole, state.constants.pop(value.name))
        state.begin(helper.make_node("Slice", [whole], [value.name], name=value.name))
        counts = [state.count(size) for size in axes.values()]
        ends = counts[0] if len(counts) == 1 else state.add("Concat", counts, axis=0)
        starts, at = (state.constant(np.array(each, np.int64)) for each in ([0] * len(axes), [*axes]))
        state.nodes.append(
            helper.make_node("Slice", [whole, starts, ends, at], [value.name], name=f"{value.name}/cut")
        )
        kind = value.type.tensor_type
        kind.elem_type = info.elem_type
        kind.ClearField("shape")
        for extent in info.shape:
            kind.shape.dim.add().dim_value = extent
