"""Which convolution an ONNX node is, without its constants."""

from __future__ import annotations

from onnx import NodeProto, helper

from kernels.workload import Conv2d
from tuner.frontend.onnx_check import ModelError, node_name
from tuner.frontend.onnx_graph import OnnxGraph


def conv_of(graph: OnnxGraph, node: NodeProto, weights: tuple[int, ...]) -> Conv2d | str:
    """The convolution at ``node`` (Conv or ConvInteger) by weights of this ONNX shape, or why it is none.

    Raises ModelError for shapes that do not fit together, ValueError for others that make no workload.
    """
    shape = graph.tensors[node.input[0]].shape
    if len(shape) != 4:
        return f"{len(shape) - 2}-dimensional convolution; kernels compute 2-dimensional ones"
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = weights[2:]
    stride = tuple(attributes.get("strides", (1, 1)))
    dilation = tuple(attributes.get("dilations", (1, 1)))
    auto_pad = attributes.get("auto_pad", b"NOTSET").decode()
    pad = tuple(attributes.get("pads", (0, 0, 0, 0)))
    if auto_pad != "NOTSET":
        pad = _auto_pad(auto_pad, shape[2:], kernel, stride, dilation)
    groups = attributes.get("group", 1)
    if weights[1] * groups != shape[1]:
        raise ModelError(
            f"shapes do not fit together: {node.op_type} {node_name(node)!r} has weights of {list(weights)} "
            f"in {groups} groups for activations of {list(shape)}"
        )
    return Conv2d(
        n=shape[0],
        in_c=shape[1],
        in_h=shape[2],
        in_w=shape[3],
        out_c=weights[0],
        kh=kernel[0],
        kw=kernel[1],
        stride=(stride[0], stride[1]),
        pad=(pad[0], pad[1], pad[2], pad[3]),
        dilation=(dilation[0], dilation[1]),
        groups=groups,
    )


def _auto_pad(
    mode: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """(top, left, bottom, right) of ``SAME_UPPER``, ``SAME_LOWER`` or ``VALID``."""
    before, after = [], []
    for extent, taps, step, spread in zip(size, kernel, stride, dilation, strict=True):
        total = max(0, (-(-extent // step) - 1) * step + spread * (taps - 1) + 1 - extent)
        small, large = total // 2, total - total // 2
        if mode == "VALID":
            small = large = 0
        before.append(large if mode == "SAME_LOWER" else small)
        after.append(small if mode == "SAME_LOWER" else large)
    return (*before, *after)
