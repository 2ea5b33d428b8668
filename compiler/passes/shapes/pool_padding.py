"""Pool padding: pad for the last window where it reaches beyond the padding (ceil_mode).

A window that would begin in the padding at the end is none: so onnxruntime and PyTorch have it, and onnx from
operator set 22 on; before, its inference counts it. What lies beyond the padding is no element of an average
that counts the padding. Without ceil_mode, a window that is larger than all that there is hangs out if it
does so by less than its stride: so onnxruntime has it, and onnx's inference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from compiler.passes.shapes.same_padding import SAME

POOLS = ("AveragePool", "LpPool", "MaxPool")
PADS_AS_INPUT = 11
"""From which operator set on Pad has its widths as an input."""
COUNTED_INSIDE = 19
"""From which one on onnxruntime leaves out what lies beyond the padding without ceil_mode, too."""


def round_down(
    nodes: list[NodeProto],
    constants: dict[str, npt.NDArray[Any]],
    opset: int,
    shapes: Callable[[list[NodeProto]], Mapping[str, Sequence[int]]],
) -> None:
    """Write such pools in ``nodes`` with their padding, without ``ceil_mode``, in place.

    ``shapes`` tells those of all tensors as far as some of the nodes say.
    """
    for node in list(nodes):
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type not in POOLS:
            continue
        ceiled = bool(said.get("ceil_mode"))
        mode = said.get("auto_pad", b"NOTSET")
        if ceiled and mode in SAME:  # which says how many windows there are
            _put(node)
        if mode not in (b"NOTSET", b"VALID"):
            continue
        kernel = said.get("kernel_shape", ())
        ones, none = [1] * len(kernel), [0] * len(kernel)
        steps, spreads = (said.get(name, ones) for name in ("strides", "dilations"))
        pads = said.get("pads", [*none, *none]) if mode == b"NOTSET" else [*none, *none]
        begins, ends = pads[: len(kernel)], pads[len(kernel) :]
        reach = [spread * (taps - 1) + 1 for taps, spread in zip(kernel, spreads, strict=True)]
        if ceiled and not any(pads) and all(step <= each for step, each in zip(steps, reach, strict=True)):
            continue
        place = next(at for at, each in enumerate(nodes) if each is node)
        size = shapes(nodes[:place]).get(node.input[0], ())[2:]
        if len(size) != len(kernel) or min(steps) < 1:
            continue
        room = [extent + sum(pads[at :: len(kernel)]) for at, extent in enumerate(size)]
        if not ceiled and not any(
            0 < all_ < long < all_ + step for all_, long, step in zip(room, reach, steps, strict=True)
        ):
            continue
        needs, dropped = [], not ceiled
        for extent, step, long, begin, end in zip(size, steps, reach, begins, ends, strict=True):
            more = extent + begin + end - long
            count = -(more // -step) + 1 if ceiled else max(more, 0) // step + 1
            in_padding = ceiled and (count - 1) * step >= extent + begin
            dropped |= in_padding
            needs.append(max(0, (count - 1 - in_padding) * step + long - extent - begin))
        beyond = [max(0, need - end) for need, end in zip(needs, ends, strict=True)]
        if said.get("count_include_pad") and any(beyond) and (ceiled or opset >= COUNTED_INSIDE):
            inside = [need - more for need, more in zip(needs, beyond, strict=True)]
            nodes.insert(place, _padded(node, [0, 0, *begins, 0, 0, *inside], constants, opset))
            _put(node, auto_pad="NOTSET", pads=[*none, *beyond], count_include_pad=0)
        elif dropped:
            _put(node, auto_pad="NOTSET", pads=[*begins, *needs])


def _put(node: NodeProto, **attributes: Any) -> None:
    """Give ``node`` these attributes in place of its own, and take ``ceil_mode`` from it."""
    kept = [each for each in node.attribute if each.name not in ("ceil_mode", *attributes)]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*each) for each in attributes.items())])


def _padded(
    node: NodeProto, pads: list[int], constants: dict[str, npt.NDArray[Any]], opset: int
) -> NodeProto:
    """The node that adds zeros to what ``node`` reads, which reads its result."""
    source, name = node.input[0], f"{node.output[0]}/padded"
    node.input[0] = name
    if opset < PADS_AS_INPUT:
        return helper.make_node("Pad", [source], [name], name=name, pads=pads)
    constants[f"{name}/pads"] = np.array(pads, np.int64)
    return helper.make_node("Pad", [source, f"{name}/pads"], [name], name=name)
