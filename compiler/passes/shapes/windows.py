"""Refuse windows larger than what they read: onnx infers results for them that nothing computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import NodeProto, helper

from compiler.ir.checks import ModelError, node_name
from compiler.passes.shapes.axis_range import Info

_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""The operand with the window's extents."""
_POOLS = ("AveragePool", "LpPool", "MaxPool")


def check_windows(nodes: Iterable[NodeProto], tensors: Mapping[str, Info]) -> None:
    """Raise ModelError for the first window that has no place, or Pad that cuts off more than there is, among
    nodes with data of known extents.

    A pool's may hang out by less than its stride, as onnxruntime has it.
    """
    for node in nodes:
        _check_left(node, tensors)
        if node.domain not in ("", "ai.onnx") or node.op_type not in (*_WEIGHTS, *_POOLS):
            continue
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type in _POOLS:
            taps = tuple(said.get("kernel_shape", ()))
        else:
            weights = tensors.get(node.input[_WEIGHTS[node.op_type]])
            taps = weights.shape[2:] if weights else ()
        data = tensors.get(node.input[0])
        size = data.shape[2:] if data else ()
        if not taps or len(size) != len(taps) or said.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            continue
        ones, none = [1] * len(taps), [0] * 2 * len(taps)
        steps, spreads = (said.get(name, ones) for name in ("strides", "dilations"))
        pads = said.get("pads", none) if said.get("auto_pad", b"NOTSET") == b"NOTSET" else none
        more = said.get("output_padding", none)
        for axis, extent in enumerate(size):
            padding = pads[axis] + pads[axis + len(taps)]
            reach = (taps[axis] - 1) * spreads[axis] + 1
            of = f"node {node_name(node)!r} ({node.op_type})"
            if node.op_type == "ConvTranspose":
                whole = (extent - 1) * steps[axis] + reach + more[axis]
                if extent and whole <= padding:
                    raise ModelError(
                        f"{of} takes {padding} elements off the {whole} that it makes along axis {axis + 2}, "
                        "so nothing is left: give it less padding, or a larger shape"
                    )
                continue
            slack = steps[axis] if node.op_type in _POOLS else 0
            if extent and reach > extent + padding + slack:
                raise ModelError(
                    f"{of} has a window of {reach} elements along axis {axis + 2}, where there are "
                    f"{extent + padding} with the padding: give a larger shape, or pad more"
                )


def _check_left(node: NodeProto, tensors: Mapping[str, Info]) -> None:
    made = tensors.get(node.output[0]) if node.op_type == "Pad" else None
    if made and min(made.shape, default=0) < 0:
        raise ModelError(
            f"node {node_name(node)!r} (Pad) cuts off more than there is: {list(made.shape)} would be left; "
            "cut off less, or give a larger shape"
        )
