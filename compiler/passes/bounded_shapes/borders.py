"""Pad and Resize: the last element that counts is the edge."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import derived, wanted
from compiler.passes.bounded_shapes.lacking import enough
from compiler.passes.bounded_shapes.moves import greatest
from compiler.passes.bounded_shapes.places import above_zero, within
from compiler.passes.bounded_shapes.sizes import advise, sizes_of
from compiler.passes.bounded_shapes.state import ALONG, Axes, Size, State, exactly

SCALED = ("half_pixel", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
"""Ways of Resize in which nothing but the factor says which places an element is made of."""
ROI_BEFORE_SCALES = 11
"""The operator set since which a Resize has three operands, and the place of a fourth."""
SIZES = 3
Factors = dict[int, tuple[float, Size]]


def pad(state: State, node: NodeProto) -> Axes:
    """Pad by known numbers: with a value, or with elements at computed places."""
    name, attributes = node.input[0], attributes_of(node)
    shape, mode = state.info(name).shape, attributes.get("mode", b"constant").decode()
    counted = dict(state.axes_of(name))
    given = attributes.get("pads") if len(node.input) < 2 else state.value(1)
    axes = state.value(3)
    if given is None or (len(node.input) > 3 and node.input[3] and axes is None):
        advise(state, *filter(None, node.input[1:2]), *filter(None, node.input[3:]))
        state.refuse("pads by data-dependent numbers")
    along = [*range(len(shape))] if axes is None else [int(axis) % len(shape) for axis in axes]
    pads = dict(
        zip(
            along, zip(map(int, given[: len(along)]), map(int, given[len(along) :]), strict=True), strict=True
        )
    )
    found = {axis: size for axis, size in counted.items() if not any(pads.get(axis, (0, 0)))}
    moved = {axis: pads[axis] for axis in counted if axis not in found}
    for axis, (before, after) in moved.items():
        found[axis] = wanted(state, lambda n, more=before + after: np.maximum(0, n + more), counted[axis])
    if mode == "constant" or not moved:
        if mode == "constant" and moved:
            value = (
                state.value(2, np.array(attributes.get("value", 0)))
                if _is_known(state, node)
                else node.input[2]
            )
            fill = value if isinstance(value, str) else value.reshape(-1)[0].item()
            name = state.masked(name, fill, [*moved])
        state.like(node, {0: name})
        return found
    if mode == "reflect":
        name = enough(
            state, name, {axis: max(*ends, 0) + 1 for axis, ends in moved.items() if max(ends) > 0}, 0
        )
    for axis, (before, _) in moved.items():
        name = _reach(state, name, axis, counted[axis], before, found[axis], mode)
        state.axes[name] = dict(found)
    rest = [(0, 0) if axis in moved else pads.get(axis, (0, 0)) for axis in range(len(shape))]
    if any(map(any, rest)):
        numbers = np.array([first for first, _ in rest] + [last for _, last in rest], np.int64)
        if len(node.input) < 2:
            state.write("Pad", [name], node.output, mode=mode, pads=numbers.tolist())
        else:
            state.write("Pad", [name, state.constant(numbers)], node.output, mode=mode)
    else:
        state.write("Identity", [name], node.output)
    return found


def _is_known(state: State, node: NodeProto) -> bool:
    return len(node.input) < 3 or not node.input[2] or node.input[2] in state.constants


def _reach(state: State, name: str, axis: int, size: Size, before: int, made: Size, mode: str) -> str:
    """``name`` longer along ``axis``: ``made`` elements, the first being number -``before``."""
    extent = state.info(name).shape[axis]
    places = state.constant(np.arange(made.high, dtype=np.int64) - before)
    count, one = state.count(size), state.constant(np.array([1]))
    last = state.add("Sub", [count, one])
    if mode == "reflect":
        beyond = state.add("Abs", [state.add("Sub", [last, state.add("Abs", [places])])])
        places = state.add("Abs", [state.add("Sub", [last, beyond])])
    elif mode == "edge":
        places = state.add("Where", [state.add("Less", [places, count]), places, last])
    elif mode == "wrap":
        places = state.add("Mod", [places, above_zero(state, count)])
    else:
        state.refuse(f"pads with {mode!r} along an axis with a data-dependent length")
    return state.add("Gather", [name, within(state, places, extent)], axis=axis)


def resize(state: State, node: NodeProto) -> Axes:
    """Resize and Upsample by known factors, the last element that counts standing for all behind it."""
    name, attributes = node.input[0], attributes_of(node)
    counted, given = dict(state.axes_of(name)), attributes.get("axes")
    along = [*range(len(state.info(name).shape))] if given is None else given
    made = _factors(state, node, [axis % len(state.info(name).shape) for axis in along])
    moved = {axis: made[axis] for axis in counted if axis in made and made[axis][0] != 1.0}
    if not moved:
        _resize_others(state, node, name, made)
        return counted
    default = b"half_pixel" if state.opset >= ROI_BEFORE_SCALES else b"asymmetric"
    way = attributes.get("coordinate_transformation_mode", default).decode()
    small = [axis for axis, (factor, size) in moved.items() if factor < 1 and size.low < 2]
    told = attributes.get("exclude_outside", 0) or attributes.get("antialias", 0)
    if way not in SCALED or told or (way == "pytorch_half_pixel" and small):
        state.refuse(f"{ALONG}, and resizes it in a way that depends on that")
    for axis in moved:
        name = edged(state, name, axis, counted[axis])
    if state.opset >= ROI_BEFORE_SCALES and len(node.input) > SIZES and node.input[SIZES]:
        factors = [moved[axis][0] if axis in moved else 1.0 for axis in range(len(state.info(name).shape))]
        kept = {
            key: value for key, value in attributes.items() if key not in ("axes", "keep_aspect_ratio_policy")
        }
        name = state.add("Resize", [name, "", state.constant(np.array(factors, np.float32))], **kept)
    _resize_others(state, node, name, made)
    return counted | {axis: size for axis, (_, size) in moved.items()}


def _resize_others(state: State, node: NodeProto, name: str, made: Factors) -> None:
    """Write ``node`` with its sizes as they are greatest."""
    inputs = {0: name}
    if len(node.input) > SIZES and node.input[SIZES]:
        inputs[SIZES] = greatest(state, node.input[SIZES])
    state.like(node, inputs)


def _factors(state: State, node: NodeProto, along: list[int]) -> Factors:
    """By axis the factor, and how many elements there are then; ModelError where a factor is not known."""
    shape, counted = state.info(node.input[0]).shape, state.axes_of(node.input[0])
    before = {axis: counted.get(axis, exactly(shape[axis])) for axis in along}
    place = 2 if node.op_type == "Resize" and state.opset >= ROI_BEFORE_SCALES else 1
    scales = attributes_of(node).get("scales", state.value(place))
    if scales is not None and len(scales):
        factors = dict(zip(along, np.asarray(scales, np.float32), strict=True))
        return {
            axis: (
                float(factor),
                wanted(state, lambda n, f=factor: np.floor(n.astype(np.float32) * f), before[axis]),
            )
            for axis, factor in factors.items()
        }
    sizes = sizes_of(state, node.input[SIZES]) if len(node.input) > SIZES else None
    if sizes is None or attributes_of(node).get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        advise(state, *filter(None, node.input[place:]))
        state.refuse("has data-dependent sizes")
    found = {}
    for axis, size in zip(along, sizes.reshape(-1), strict=True):
        factor = size.high / max(1, before[axis].high)
        if not size.known or not before[axis].known:
            same = derived(state, lambda n, f=factor: n * f, before[axis])
            if same != size or not (1 / factor if factor < 1 else factor).is_integer():
                state.refuse(f"{ALONG}, to a size that is no fixed multiple of that")
        found[axis] = (factor, size)
    return found


def edged(state: State, name: str, axis: int, size: Size) -> str:
    """``name`` with its last element that counts in the place of all behind it."""
    extent = state.info(name).shape[axis]
    places, last = (
        state.constant(np.arange(extent, dtype=np.int64)),
        state.add("Sub", [state.count(size), state.constant(np.array([1]))]),
    )
    places = state.add("Where", [state.inside(size, extent), places, last])
    made = state.add("Gather", [name, within(state, places, extent)], axis=axis)
    state.axes[made] = dict(state.axes_of(name))
    return made
