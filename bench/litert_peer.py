"""LiteRT (XNNPACK) on one quantized layer. Needs the packages ai-edge-litert and flatbuffers."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from bench.peers import Peer
from kernels.kernel import Array
from kernels.workload.base import QConv2d


def why_not(layer: QConv2d) -> str | None:
    """Why LiteRT cannot compute ``layer``, or is not installed; None when it can."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        return "the package ai-edge-litert is not installed"
    if layer.weight_zero or (layer.weight_dtype, layer.data_dtype, layer.out_dtype) != (
        "int8",
        "uint8",
        "uint8",
    ):
        return "takes weights of int8 without a zero point"
    return None if layer.groups in (1, layer.in_c) else "grouped"


def litert_qconv(layer: QConv2d, inputs: list[Array], threads: int) -> Peer:
    """The layer with data of int8, 128 less, which is what XNNPACK is made for.

    LiteRT pads to "same" sizes or not at all: for other paddings it gets an input that is padded already,
    and saves that work.
    """
    from ai_edge_litert.interpreter import Interpreter

    data, weights, bias, multiplier, shift = inputs
    data = (data.astype(np.int16) - 128).astype(np.int8)
    top, left, bottom, right = layer.pad
    same = layer.pad == same_padding(layer)
    if not same:
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        data = np.pad(data, pads, constant_values=layer.data_zero - 128)
    scales = (multiplier.astype(np.float64) * 2.0 ** (-31.0 - shift)).astype(np.float32)
    model = one_layer(layer, data.shape, weights, bias, np.broadcast_to(scales, (layer.out_c,)), same)
    interpreter = Interpreter(model_content=model, num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
    output = interpreter.get_output_details()[0]["index"]

    def result() -> Array:
        found: Array = (interpreter.get_tensor(output).astype(np.int16) + 128).astype(np.uint8)
        return found

    return Peer(interpreter.invoke, result)


def same_padding(layer: QConv2d) -> tuple[int, int, int, int]:
    """TensorFlow's "same" padding: what is odd goes to the bottom and the right."""
    before, after = [], []
    for size, out, kernel, stride, dilation in (
        (layer.in_h, layer.out_h, layer.kh, layer.stride[0], layer.dilation[0]),
        (layer.in_w, layer.out_w, layer.kw, layer.stride[1], layer.dilation[1]),
    ):
        if out != -(-size // stride):
            return (-1, -1, -1, -1)
        total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
        before.append(total // 2)
        after.append(total - total // 2)
    return (before[0], before[1], after[0], after[1])


def one_layer(
    layer: QConv2d, shape: tuple[int, ...], weights: Array, bias: Array, scales: Array, same: bool
) -> bytes:
    """The FlatBuffer of a model of one operator; the data's scale and the result's are one."""
    from ai_edge_litert import schema_py_generated as schema

    depthwise = layer.groups > 1
    # (kh, kw, channel, filter) to (filter, kh, kw, channel), or (1, kh, kw, channel) of depthwise ones.
    ordered = weights.transpose(2, 0, 1, 3) if depthwise else weights.transpose(3, 0, 1, 2)
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.buffers = []
    graph.tensors = []
    zeros = np.zeros(layer.out_c, np.int64)
    one = np.ones(1, np.float32)
    kinds = schema.TensorType
    for name, dims, kind, content, scale, zero, axis in (
        ("x", shape, kinds.INT8, None, one, [layer.data_zero - 128], 0),
        ("w", ordered.shape, kinds.INT8, ordered, scales, zeros, 3 if depthwise else 0),
        ("b", bias.shape, kinds.INT32, bias, scales, zeros, 0),
        ("y", layer.out_shape, kinds.INT8, None, one, [layer.out_zero - 128], 0),
    ):
        tensor, buffer = schema.TensorT(), schema.BufferT()
        if content is not None:
            buffer.data = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8)
        model.buffers.append(buffer)
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(dims), kind, len(graph.tensors)
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.asarray(scale, np.float32)
        tensor.quantization.zeroPoint = np.asarray(zero, np.int64)
        tensor.quantization.quantizedDimension = axis
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs, graph.operators = [0], [3], [schema.OperatorT()]
    graph.operators[0].inputs, graph.operators[0].outputs = [0, 1, 2], [3]
    kind_of = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    options: Any = getattr(schema, f"{kind_of}T")()
    options.padding = schema.Padding.SAME if same else schema.Padding.VALID
    options.strideH, options.strideW = layer.stride
    options.dilationHFactor, options.dilationWFactor = layer.dilation
    if depthwise:
        options.depthMultiplier = 1
    graph.operators[0].builtinOptionsType = getattr(schema.BuiltinOptions, kind_of)
    graph.operators[0].builtinOptions = options
    code = schema.OperatorCodeT()
    builtin = schema.BuiltinOperator
    code.builtinCode = builtin.DEPTHWISE_CONV_2D if depthwise else builtin.CONV_2D
    code.deprecatedBuiltinCode, code.version = code.builtinCode, 3
    model.operatorCodes = [code]
    return _packed(model, graph)


def no_layer() -> bytes:
    """The FlatBuffer of a model without operators, whose input of one int8 is its output."""
    from ai_edge_litert import schema_py_generated as schema

    model, graph, tensor = schema.ModelT(), schema.SubGraphT(), schema.TensorT()
    tensor.name, tensor.shape, tensor.type = "x", [1], schema.TensorType.INT8
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor], [0], [0], []
    model.buffers, model.operatorCodes = [schema.BufferT()], []
    return _packed(model, graph)


def _packed(model: Any, graph: Any) -> bytes:
    import flatbuffers

    model.version, model.subgraphs = 3, [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
