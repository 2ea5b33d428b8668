"""The libraries that quantized kernels are measured against, each as a callable over the same data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench import litert_peer
from bench.peers import Peer, onnx_peer
from kernels.kernel import Array
from kernels.workload.base import QConv2d


def onnxruntime_qconv(layer: QConv2d, inputs: list[Array], threads: int) -> Peer:
    """onnxruntime on one QLinearConv node that reads and writes NHWC, as inside its own quantized models.

    It takes float scales; those given here are nearest to the layer's fixed-point ones, so results may differ
    by one. Where its AVX2 code adds two products in int16 it saturates, and then they may differ by more.
    """
    from onnx import TensorProto, helper, numpy_helper

    data, weights, bias, multiplier, shift = inputs
    scales = multiplier.astype(np.float64) * 2.0 ** (-31.0 - shift)
    constants = {
        "one": np.float32(1),
        "x_zero": np.array(layer.data_zero, layer.data_dtype),
        "w": np.ascontiguousarray(weights.transpose(3, 2, 0, 1)),
        "w_scale": scales.astype(np.float32) if layer.per_channel else np.float32(scales[0]),
        "w_zero": np.full(layer.out_c if layer.per_channel else (), layer.weight_zero, layer.weight_dtype),
        "y_zero": np.array(layer.out_zero, layer.out_dtype),
        "bias": bias,
    }
    node = helper.make_node(
        "QLinearConv",
        ["x", "one", "x_zero", "w", "w_scale", "w_zero", "one", "y_zero", "bias"],
        ["y"],
        domain="com.microsoft",
        channels_last=1,
        kernel_shape=[layer.kh, layer.kw],
        strides=list(layer.stride),
        pads=list(layer.pad),
        dilations=list(layer.dilation),
        group=layer.groups,
    )
    types = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", types[layer.data_dtype], layer.data_shape)],
        [helper.make_tensor_value_info("y", types[layer.out_dtype], layer.out_shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx_peer(model.SerializeToString(), threads, data, np.empty(layer.out_shape, layer.out_dtype))


def onnxruntime_u8u8(layer: QConv2d, inputs: list[Array], threads: int) -> Peer:
    """The same with weights of uint8, which its AVX2 code multiplies exactly."""
    data, weights, *rest = inputs
    moved = replace(layer, weight_dtype="uint8", weight_zero=layer.weight_zero + 128, weight_range=None)
    unsigned = (weights.astype(np.int16) + 128).astype(np.uint8)
    return onnxruntime_qconv(moved, [data, unsigned, *rest], threads)


MakeQPeer = Callable[[QConv2d, list[Array], int], Peer]


def qconv_peers(layer: QConv2d) -> dict[str, MakeQPeer]:
    """The peers of a layer with uint8 data and int8 weights, by name; LiteRT where it is installed."""
    peers: dict[str, MakeQPeer] = {"onnxruntime": onnxruntime_qconv, "onnxruntime_u8u8": onnxruntime_u8u8}
    if litert_peer.why_not(layer) is None:
        peers["litert"] = litert_peer.litert_qconv
    return peers
