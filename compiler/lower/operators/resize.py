"""Resize and Upsample of every version: an element is a weighted sum of a few, the same along each axis.

TVM's converters ignore scales where the extents round, antialiasing, axes and old versions. Images of floats
are resized in every layout (``kernels/operators/resize.py``), all others in one loop nest for NCHW.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from onnx import NodeProto

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array, OnnxGraph, attributes_of
from compiler.lower.operators.constants import constant
from compiler.lower.operators.layouts import Generated, Rule, if_images
from compiler.lower.operators.resize_taps import Line, Taps, taps_of
from kernels.emit.tvm import te, tirx
from kernels.operators.resize import Along, Resize, build_resize, predict_resize
from kernels.target import Target

SAID_SINCE = 11
"""The version of Resize that says how coordinates are rounded and where its operands are."""


MOST_TAPS = 4
"""As many as a cubic has; a shrunk one that must not alias has more, which are no matter of layouts."""


def resize_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """Rows and columns of images."""
    shape, out = graph.tensors[node.input[0]].shape, graph.tensors[node.output[0]].shape
    if len(shape) != 4 or shape[:2] != out[:2]:
        return None
    found = {each.axis: each for each in _taps(graph, node, attributes_of(node), shape, out)}
    if any(axis < 2 or each.outside.any() or each.count > MOST_TAPS for axis, each in found.items()):
        return None
    axes: list[Along] = []
    tables: list[Array] = []
    for axis in (2, 3):
        taps = found.get(axis)
        if taps is None:
            axes.append(Along(shape[axis], out[axis], 1, 1))
            continue
        exact = taps.repeats * shape[axis] == out[axis]
        axes.append(Along(shape[axis], out[axis], taps.count, taps.repeats if exact else 0))
        tables += [] if exact else [np.ascontiguousarray(taps.indices.T.astype(np.int32))]
        tables += [np.ascontiguousarray(taps.weights.T.astype(np.float32))] if taps.count > 1 else []
    each = Resize(shape[0], shape[1], *axes)
    ways = [number for along in axes for number in (along.taps, along.repeats)]
    numbers: tuple[int | str, ...] = (*shape, "to", *out[2:], *ways)
    function = Generated("resize", numbers, partial(build_resize, each), out, tuple(tables))
    seconds = partial(predict_resize, each, target=target, threads=threads)
    return if_images(graph, node.input[:1], seconds, function)


def resize(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``; in one loop nest. Raises ModelError for what cannot be computed so."""
    shape, out = graph.tensors[node.input[0]].shape, graph.tensors[node.output[0]].shape
    dtype = graph.tensors[node.input[0]].dtype
    attributes = attributes_of(node)
    taps = _taps(graph, node, attributes, shape, out)
    real = dtype if dtype in ("float32", "float64") else "float32"
    if real != dtype and (attributes.get("antialias", 0) or attributes.get("mode") == b"cubic"):
        _refuse(node, f"filters {dtype}: only floats are")
    tables = [constant(each.indices.astype(np.int32)) for each in taps if not each.repeats]
    tables += [constant(each.weights.astype(real)) for each in taps if each.count > 1]
    compute = _function(taps, out, attributes.get("extrapolation_value", 0.0))
    return builder.emit(builder.call_te(compute, inputs[0], *tables, primfunc_name_hint="resize"))


def _function(taps: Sequence[Taps], out: Sequence[int], fill: float) -> Any:
    """A function of tensors: data, the indices along axes that do not just repeat, weights where any are."""

    def compute(data: Any, *tables: Any) -> Any:
        rest = iter(tables)
        indices = [None if each.repeats else next(rest) for each in taps]
        along = list(
            zip(taps, indices, (next(rest) if each.count > 1 else None for each in taps), strict=True)
        )

        def element(*at: Any) -> Any:
            total: Any = None
            for choice in itertools.product(*(range(each.count) for each in taps)):
                place: list[Any] = list(at)
                for (each, table, _), tap in zip(along, choice, strict=True):
                    index = at[each.axis]
                    place[each.axis] = index // each.repeats if table is None else table[index, tap]
                value = data[tuple(place)]
                for (each, _, factors), tap in zip(along, choice, strict=True):
                    if factors is not None:
                        value = value.astype(factors.dtype) * factors[at[each.axis], tap]
                total = value if total is None else total + value
            total, filled = total.astype(data.dtype), tirx.const(fill, data.dtype)
            for each in taps:
                for index in np.flatnonzero(each.outside):
                    total = tirx.if_then_else(at[each.axis] == int(index), filled, total)
            return total

        return te.compute(out, element, name="resize")

    return compute


def _taps(
    graph: OnnxGraph, node: NodeProto, attributes: dict[str, Any], shape: Sequence[int], out: Sequence[int]
) -> list[Taps]:
    """The taps of the axes that change."""
    if tuple(shape) == tuple(out):
        # Copied, whatever scales or region are said: so onnxruntime has it.
        return []
    old = node.op_type == "Upsample" or graph.opset < SAID_SINCE
    axes = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    before, after = ([extents[axis] for axis in axes] for extents in (shape, out))
    given = attributes.get("scales") or _operand(graph, node, 1 if old else 2)
    scales = (
        _scales_of_sizes(graph, node, attributes, before, after)
        if given is None
        else np.asarray(given, np.float32)
    )
    region = None if old else _operand(graph, node, 1)
    if attributes.get("coordinate_transformation_mode") != b"tf_crop_and_resize" or region is None:
        region = np.repeat([0.0, 1.0], len(axes))
    result = []
    for position, axis in enumerate(axes):
        part = (float(region[position]), float(region[position + len(axes)]))
        line = Line(before[position], after[position], float(scales[position]), part)
        said = attributes
        if old:
            # As onnxruntime has it: nothing was said of rounding.
            rounded = b"ceil" if line.scale < 1 else b"floor"
            said = {**attributes, "coordinate_transformation_mode": b"asymmetric", "nearest_mode": rounded}
        # So is an axis of scale one.
        if line.scale != 1:
            result.append(taps_of(line, axis, said))
    return result


def _scales_of_sizes(
    graph: OnnxGraph,
    node: NodeProto,
    attributes: Mapping[str, Any],
    before: Sequence[int],
    after: Sequence[int],
) -> Array:
    policy = attributes.get("keep_aspect_ratio_policy", b"stretch")
    if policy == b"stretch":
        return np.asarray(after, np.float32) / np.asarray(before, np.float32)
    wanted = _operand(graph, node, 3)
    assert wanted is not None
    scales = np.asarray(wanted, np.float32) / np.asarray(before, np.float32)
    return np.full(len(before), scales.min() if policy == b"not_larger" else scales.max())


def _operand(graph: OnnxGraph, node: NodeProto, place: int) -> Array | None:
    """A constant operand, None where it is left out or empty."""
    name = node.input[place] if len(node.input) > place else ""
    if name and name not in graph.constants:
        _refuse(node, "takes its scales, sizes or region from a computed tensor")
    return graph.constants[name] if name and graph.constants[name].size else None


def _refuse(node: NodeProto, reason: str) -> NoReturn:
    raise ModelError(f"node {node_name(node)!r} ({node.op_type}) {reason}")
