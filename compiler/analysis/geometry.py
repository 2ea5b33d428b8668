"""The geometry of an ONNX convolution, without its constants."""

from __future__ import annotations

from dataclasses import replace

from onnx import NodeProto

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of
from kernels.workload.base import Conv2d

LONG_WINDOW = 16
"""Columns of a window from which on it is faster upright: kernels unroll rows of a window less."""


def conv_of(graph: OnnxGraph, node: NodeProto, weights: tuple[int, ...]) -> Conv2d | str:
    """The convolution at ``node`` (Conv or ConvInteger) by weights of this ONNX shape, or why it is none.

    Raises ModelError for shapes that do not fit together, ValueError for others that make no workload.
    """
    shape = graph.tensors[node.input[0]].shape
    if len(shape) != 4:
        return f"{len(shape) - 2}-dimensional convolution; kernels compute 2-dimensional ones"
    attributes = attributes_of(node)
    kernel = weights[2:]
    stride = tuple(attributes.get("strides", (1, 1)))
    dilation = tuple(attributes.get("dilations", (1, 1)))
    pad = tuple(attributes.get("pads", (0, 0, 0, 0)))
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


def upright(conv: Conv2d) -> Conv2d:
    """``conv``, or the same with rows for columns where that is faster: in every layout they lie alike."""
    if conv.in_h != 1 or conv.kh != 1 or conv.kw < LONG_WINDOW or conv.groups > 1 or any(conv.pad[::2]):
        return conv
    return replace(
        conv,
        in_h=conv.in_w,
        in_w=1,
        kh=conv.kw,
        kw=1,
        stride=conv.stride[::-1],
        pad=(conv.pad[1], 0, conv.pad[3], 0),
        dilation=conv.dilation[::-1],
    )
