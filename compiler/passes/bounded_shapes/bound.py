"""The walk over a model: tensors with data-dependent shapes get room, and a count beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import SIZED_BY_DATA, attributes_of
from compiler.passes.bounded_shapes import (
    borders,
    elements,
    moves,
    norms,
    products,
    recurrent,
    reductions,
    scatter,
    shapes,
    windows,
)
from compiler.passes.bounded_shapes.places import compacted, how_many, not_below
from compiler.passes.bounded_shapes.reals import follow
from compiler.passes.bounded_shapes.sizes import bounded, compute
from compiler.passes.bounded_shapes.slices import part
from compiler.passes.bounded_shapes.state import Axes, Size, State
from kernels.operators.suppression import LEAST

Rule = Callable[[State, NodeProto], Axes]
SINGLE = {
    *(
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
    ),
    *(
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "Div",
        "Dropout",
        "Elu",
    ),
    *(
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
    ),
    *(
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
    ),
    *(
        "Not",
        "Or",
        "Pow",
        "PRelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
    ),
    *("Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor"),
}
"""Operators of single elements."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(SINGLE, elements.each_element),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), elements.scaled),
    **dict.fromkeys(reductions.NEUTRAL, reductions.reduced),
    **dict.fromkeys(("Flatten", "Reshape"), moves.reshape),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), moves.squeeze),
    **dict.fromkeys(("MatMul", "MatMulInteger", "Gemm"), products.product),
    **dict.fromkeys(("Shape", "Size"), shapes.shape_of),
    **dict.fromkeys(("Expand", "ConstantOfShape"), shapes.expand),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), reductions.of_all),
    **dict.fromkeys(("Conv", "ConvInteger", "AveragePool", "LpPool", "MaxPool"), windows.window),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), windows.global_pool),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent.recurrent),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), scatter.scattered),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "BatchNormalization"), norms.normalized),
    "Concat": elements.concat,
    "ConvTranspose": windows.transposed,
    "CumSum": reductions.running,
    "DynamicQuantizeLinear": elements.quantized,
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "GatherND": moves.gather_nd,
    "OneHot": shapes.one_hot,
    "Pad": borders.pad,
    "Range": shapes.range_,
    "Resize": borders.resize,
    "STFT": windows.frames,
    "Slice": part,
    "Split": reductions.split,
    "Tile": moves.tile,
    "TopK": reductions.largest,
    "Transpose": moves.transpose,
}
"""A rule writes a node, changed where it must be, and says along which axes of its results how many elements
count: of all that have as many axes as the first."""
WAY_OUT = "cut the model before it"


def bound(model: ModelProto) -> None:
    """Give every tensor of ``model`` one shape, with room for as many results as there can be.

    A model without such stays as it is. Raises ModelError that names a node for which that cannot be.
    """
    if not _decides(model):
        return
    state = State(model)
    opened = [node for node in state.before if _is_open(state, node)]
    if not opened and not any(node.op_type in SIZED_BY_DATA for node in state.before):
        return
    deciding = _deciding(state, opened)
    sources: list[str] = []
    outputs = {value.name for value in model.graph.output}
    for node in state.before:
        if node.output[0] in state.constants:
            if node.output[0] in outputs:
                state.nodes.append(node)
            continue
        makes = node.op_type in MAKERS or _is_open(state, node)
        state.begin(node)
        try:
            _walk(state, node)
            for name in deciding.intersection(node.output):
                bounded(state, name)
        except ModelError as error:
            if not sources:
                raise
            raise ModelError(f"{error}: that is behind {sources[-1]}; {WAY_OUT}") from None
        if makes:
            sources.append(f"node {node_name(node)!r} ({node.op_type})")
    _cut(state, model)
    known = {tensor.name for tensor in model.graph.initializer}
    for name, value in state.constants.items():
        if name not in known:
            state.make_constant(name, value)
    del model.graph.node[:]
    model.graph.node.extend(state.nodes)


def _decides(model: ModelProto) -> bool:
    """Whether data, not shapes alone, say how many results some node of ``model`` has."""
    data = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in MAKERS or any(name in data for name in _shapes_of(node)):
            return True
        if node.op_type not in ("Shape", "Size") and any(name in data for name in node.input):
            data.update(node.output)
    return False


def _shapes_of(node: NodeProto) -> list[str]:
    """The operands of ``node`` that say the shape of its result."""
    places = SHAPED.get(node.op_type, slice(0, 0))
    return [name for name in node.input[places] if name]


def _is_open(state: State, node: NodeProto) -> bool:
    """Whether data decide the shape of what ``node`` makes."""
    if node.output[0] in state.tensors:
        return False
    return any(name not in state.constants for name in _shapes_of(node))


def _deciding(state: State, opened: Sequence[NodeProto]) -> set[str]:
    """The whole numbers that such shapes are made of, which are followed from where they begin."""
    makers = {name: node for node in state.before for name in node.output if name}
    pending = [name for node in opened for name in _shapes_of(node)]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        info = state.tensors.get(name)
        if name in found or name in state.constants or (info and info.dtype not in ("int32", "int64")):
            continue
        found.add(name)
        pending += makers[name].input if name in makers else []
    return found


def _walk(state: State, node: NodeProto) -> None:
    """Write one node."""
    if any(name in state.renamed for name in node.input):
        read = NodeProto()
        read.CopyFrom(node)
        read.input[:] = [state.renamed.get(name, name) for name in node.input]
        node = read
        state.begin(node)
    if node.op_type in MAKERS:
        axes = MAKERS[node.op_type](state, node)
    elif compute(state, node) or follow(state, node):
        return
    elif _is_open(state, node) or any(name in state.axes or name in state.sizes for name in node.input):
        counted = any(name in state.axes for name in node.input)
        if not counted and (node.op_type not in SHAPED or node.output[0] in state.tensors):
            state.keep(node)
            return
        rule = RULES.get(node.op_type)
        if rule is None:
            state.refuse("takes arrays with data-dependent lengths")
        axes = rule(state, node)
    else:
        state.keep(node)
        return
    state.begin(node)
    if not axes or not node.output[0]:
        return
    rank = len(state.info(node.output[0]).shape)
    for name in node.output:
        if name and len(state.info(name).shape) == rank:
            state.axes[name] = dict(axes)


SHAPED = {
    "ConstantOfShape": slice(0, 1),
    "Expand": slice(1, 2),
    "OneHot": slice(1, 2),
    "Pad": slice(1, 2),
    "Range": slice(0, 3),
    "Reshape": slice(1, 2),
    "Resize": slice(2, 4),
    "Slice": slice(1, 5),
    "Tile": slice(1, 2),
    "TopK": slice(1, 2),
}
"""Operators with an operand that says the shape of the result; all others take sizes for data."""


def _suppression(state: State, node: NodeProto) -> Axes:
    """NonMaxSuppression: rows for all classes of all images."""
    boxes, scores = node.input[:2]
    if set(state.axes_of(scores)) | set(state.axes_of(boxes)) and (
        set(state.axes_of(scores)) != {2} or set(state.axes_of(boxes)) != {1}
    ):
        state.refuse("takes arrays with data-dependent lengths")
    batch, classes, count = state.info(scores).shape
    if tuple(state.info(boxes).shape) != (batch, count, 4):
        state.refuse(f"has boxes of {list(state.info(boxes).shape)} for {count} scores of {batch} images")
    for name in filter(None, node.input[2:]):
        if (elements := prod(state.info(name).shape)) != 1:
            many = f"{elements} elements" if elements else "without elements"
            state.refuse(f"has the limit {name!r} {many}, and needs one number")
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
    if data in state.constants:
        state.make_constant(node.output[0], np.array(state.constants[data].nonzero(), np.int64))
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
        state.refuse("takes arrays with data-dependent lengths")
    shape = list(state.info(data).shape)
    if axis is None:
        shape, axis = [prod(shape)], 0
        data = state.add("Reshape", [data, state.constant(np.array([-1]))]) if shape[0] else data
    axis %= len(shape)
    # Truths beyond the last row choose nothing.
    extent = min(shape[axis], *state.info(truths).shape)
    if truths in state.constants and extent:
        places = np.flatnonzero(state.constants[truths][:extent])
        state.write("Gather", [data, state.constant(places)], node.output, axis=axis)
        return {}
    shape[axis] = extent
    if not extent:
        nothing = np.zeros(shape, state.info(data).dtype)
        state.make_constant(node.output[0], nothing)
        return {}
    if 0 in shape:
        state.refuse("chooses a data-dependent count of rows without elements")
    if state.info(truths).shape != (extent,):
        first = state.constant(np.arange(extent))
        truths = state.add("Gather", [truths, first], axis=0)
    state.write("Gather", [data, compacted(state, truths)], node.output, axis=axis)
    return {axis: Size(0, extent, how_many(state, truths))}


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
            state.rename_constant(value.name, whole)
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
