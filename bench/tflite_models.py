# mypy: ignore-errors
# The schema's classes have no types, and all here is made of them.
"""TFLite files made with flatbuffers' builder: single layers and small networks, of floats or quantized."""

from __future__ import annotations

import math
from contextlib import contextmanager

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
FUSED = schema.ActivationFunctionType
OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "ADD": "AddOptions",
    "ONE_HOT": "OneHotOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), "ReducerOptions"),
    "ARG_MAX": "ArgMaxOptions",
    "ARG_MIN": "ArgMinOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CUMSUM": "CumsumOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "DIV": "DivOptions",
    "GATHER": "GatherOptions",
    "GELU": "GeluOptions",
    "CALL_ONCE": "CallOnceOptions",
    "IF": "IfOptions",
    "WHILE": "WhileOptions",
    "VAR_HANDLE": "VarHandleOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "PACK": "PackOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "SHAPE": "ShapeOptions",
    "SPLIT": "SplitOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNPACK": "UnpackOptions",
    "SOFTMAX": "SoftmaxOptions",
    "CONCATENATION": "ConcatenationOptions",
    "RESHAPE": "ReshapeOptions",
    "SQUEEZE": "SqueezeOptions",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
}
TYPES = {
    name: getattr(schema.TensorType, name.upper())
    for name in [
        "float32",
        "float16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
        "resource",
        "complex64",
    ]
}
UNIT = (-3.0, 3.0)
"""The range of real numbers that most activations here have."""


class Maker:
    """Layers one after the other; tensors are numbers. ``dtype`` is that of activations and weights.

    Weights of layers are random, scaled so that activations stay of about unit size; a quantized tensor's
    scale comes from the range that is given for it. Weights of int8 have a scale for each filter.
    """

    def __init__(self, dtype: str = "float32", seed: int = 0, per_channel: bool = True) -> None:
        self.dtype, self.per_channel = dtype, per_channel and dtype == "int8"
        self.random = np.random.default_rng(seed)
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.description = 3, "test"
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, shape, dtype=None, limits=UNIT, values=None, scales=None, axis=0, zero=None, name=None):
        """A tensor; one of 8 bits is quantized for ``limits``, or by ``scales`` (then with zero point 0)."""
        dtype = dtype or self.dtype
        tensor = schema.TensorT()
        tensor.name = name or f"tensor{len(self.graph.tensors)}"
        tensor.shape, tensor.type, tensor.buffer = list(shape), TYPES[dtype], 0
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(values, dtype).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if dtype in ("int8", "uint8") and scales is None:
            scales = np.float32((limits[1] - limits[0]) / 255)
            zero = round(np.iinfo(dtype).min - limits[0] / scales) if zero is None else zero
        if dtype == "int16" and scales is None:
            scales = np.float32(max(map(abs, limits)) / 32767)
        if scales is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.asarray(scales, np.float32))
            tensor.quantization.zeroPoint = np.full(tensor.quantization.scale.size, zero or 0, np.int64)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    @contextmanager
    def subgraph(self):
        """What is made inside is another graph of the file, whose number this gives."""
        outer, self.graph = self.graph, schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model.subgraphs.append(self.graph)
        yield len(self.model.subgraphs) - 1
        self.graph = outer

    def assign(self, handle, value):
        """ASSIGN_VARIABLE, which has no result."""
        self.operator("ASSIGN_VARIABLE", [handle, value], ())
        self.graph.operators[-1].outputs = []

    def input(self, shape, dtype=None, limits=UNIT, name="x"):
        """An input of the graph."""
        self.graph.inputs.append(self.tensor(shape, dtype, limits, name=name))
        return self.graph.inputs[-1]

    def shape(self, index):
        """The shape of a tensor."""
        return tuple(self.graph.tensors[index].shape)

    def operator(
        self, kind, inputs, shape, limits=UNIT, dtype=None, name=None, result=None, more=(), **options
    ):
        """An operator; its options are named as in the schema. ``more`` are results after the first."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind, schema.BuiltinOperator.CUSTOM)
        if code.builtinCode == schema.BuiltinOperator.CUSTOM:
            code.customCode = kind
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes)
        self.model.operatorCodes.append(code)
        index = self.tensor(shape, dtype, limits, name=name) if result is None else result
        operator.inputs, operator.outputs = list(inputs), [index, *more]
        if kind in OPTIONS:
            table = getattr(schema, f"{OPTIONS[kind]}T")()
            for option, value in options.items():
                assert hasattr(table, option)
                setattr(table, option, value)
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, OPTIONS[kind])
            operator.builtinOptions = table
        self.graph.operators.append(operator)
        return index

    def custom(self, kind, inputs, shape, data=b"", version=2, **more):
        """A custom operator; ``data`` are the bytes of its options."""
        index = self.operator(kind, inputs, shape, **more)
        self.model.operatorCodes[-1].version = version
        self.graph.operators[-1].customOptions = np.frombuffer(data, np.uint8)
        return index

    def constant(self, values, limits=UNIT):
        """A constant of the activations' type that stands for about ``values``."""
        if self.dtype == "float32":
            return self.tensor(values.shape, values=values)
        scale = np.float32((limits[1] - limits[0]) / 255)
        kind = np.iinfo(self.dtype)
        zero = round(kind.min - limits[0] / scale)
        quanta = np.clip(np.rint(values / scale) + zero, kind.min, kind.max)
        return self.tensor(values.shape, values=quanta, scales=scale, zero=zero)

    def weights(self, shape, fan_in, axis, data):
        """(weights, bias) of random values for the input tensor ``data``."""
        filters, spread = shape[axis], 1 / math.sqrt(fan_in)
        bias = self.random.normal(0, 0.2, filters)
        values = self.random.normal(0, spread, shape)
        if self.dtype == "float32":
            return self.tensor(shape, values=values), self.tensor((filters,), values=bias)
        # Every filter its own scale, where there may be several.
        scales = self.random.uniform(3, 4, filters if self.per_channel else 1) * spread / 127
        along = [-1 if each == axis else 1 for each in range(len(shape))]
        quanta = np.clip(np.rint(values / scales.reshape(along)), -127, 127)
        zero = 0
        if self.dtype == "uint8":
            quanta, zero = quanta + 128, 128
        weights = self.tensor(shape, values=quanta, scales=scales, axis=axis, zero=zero)
        sums = scales * self.graph.tensors[data].quantization.scale[0]
        return weights, self.tensor((filters,), "int32", values=np.rint(bias / sums), scales=sums)

    def convolution(
        self, data, filters, kernel=(3, 3), stride=1, padding=SAME, fused=FUSED.NONE, dilation=1,
        limits=UNIT, groups=1, depth=0, name=None,
    ):  # fmt: skip
        """CONV_2D; with ``depth`` filters a channel DEPTHWISE_CONV_2D."""
        n, rows, columns, channels = self.shape(data)
        options = {"padding": padding, "strideH": stride, "strideW": stride, "fusedActivationFunction": fused}
        options |= {"dilationHFactor": dilation, "dilationWFactor": dilation}
        if depth:
            filters, options["depthMultiplier"] = channels * depth, depth
            shape, axis, kind, fan_in = (1, *kernel, filters), 3, "DEPTHWISE_CONV_2D", math.prod(kernel)
        else:
            shape, axis, kind = (filters, *kernel, channels // groups), 0, "CONV_2D"
            fan_in = math.prod(shape[1:])
        weights, bias = self.weights(shape, fan_in, axis, data)
        out = [
            -(-size // stride) if padding == SAME else (size - (taps - 1) * dilation - 1) // stride + 1
            for size, taps in zip((rows, columns), kernel, strict=True)
        ]
        if fused == FUSED.RELU6:
            limits = (0.0, 6.0)
        elif fused == FUSED.RELU:
            limits = (0.0, 3.0)
        return self.operator(kind, [data, weights, bias], (n, *out, filters), limits, name=name, **options)

    def dense(self, data, filters, fused=FUSED.NONE, limits=UNIT, keep=False, bias=True):
        """FULLY_CONNECTED."""
        shape = self.shape(data)
        channels = shape[-1]
        weights, addend = self.weights((filters, channels), channels, 0, data)
        result = (*shape[:-1], filters) if keep else (math.prod(shape) // channels, filters)
        inputs = [data, weights, addend if bias else -1]
        return self.operator(
            "FULLY_CONNECTED", inputs, result, limits, fusedActivationFunction=fused, keepNumDims=keep
        )

    def pool(self, kind, data, kernel, stride, padding=SAME, fused=FUSED.NONE):
        """MAX_POOL_2D or AVERAGE_POOL_2D."""
        n, rows, columns, channels = self.shape(data)
        out = [-(-s // stride) if padding == SAME else (s - kernel) // stride + 1 for s in (rows, columns)]
        options = {"filterHeight": kernel, "filterWidth": kernel, "strideH": stride, "strideW": stride}
        options |= {"padding": padding, "fusedActivationFunction": fused}
        return self.like(f"{kind}_POOL_2D", data, (n, *out, channels), **options)

    def like(self, kind, data, shape=None, more=(), **options):
        """An operator whose result has the type and scale of ``data``."""
        shape = self.shape(data) if shape is None else shape
        return self.operator(kind, [data, *more], shape, result=self.copy(data, shape), **options)

    def copy(self, data, shape):
        """A tensor with the type and scale of ``data``."""
        given = self.graph.tensors[data]
        dtype = next(name for name, code in TYPES.items() if code == given.type)
        quantization = given.quantization
        if quantization is None:
            return self.tensor(shape, dtype)
        return self.tensor(shape, dtype, scales=quantization.scale, zero=quantization.zeroPoint[0])

    def numbers(self, *values):
        """A constant of int32."""
        return self.tensor(np.shape(values), "int32", values=np.asarray(values))

    def pad(self, data, top, bottom, left, right):
        """PAD of rows and columns."""
        n, rows, columns, channels = self.shape(data)
        shape = (n, rows + top + bottom, columns + left + right, channels)
        return self.like("PAD", data, shape, [self.numbers((0, 0), (top, bottom), (left, right), (0, 0))])

    def softmax(self, data, beta=1.0):
        """SOFTMAX, in the scale that TFLite allows."""
        zero = 0 if self.dtype == "uint8" else -128
        shape = self.shape(data)
        scales = None if self.dtype == "float32" else 1 / 256
        result = self.tensor(shape, scales=scales, zero=zero)
        return self.operator("SOFTMAX", [data], shape, result=result, beta=beta)

    def file(self, *outputs):
        """The file's bytes; the outputs get the names y, y1, ..."""
        self.graph.outputs = list(outputs)
        for position, index in enumerate(outputs):
            self.graph.tensors[index].name = f"y{position or ''}"
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def mobilenet(dtype: str, seed: int = 0) -> bytes:
    """A first convolution, inverted bottlenecks with and without a residual, a classifier with softmax."""
    make = Maker(dtype, seed)
    value = make.input((1, 32, 32, 3))
    value = make.convolution(value, 8, stride=2, fused=FUSED.RELU6, name="stem")
    for filters, stride in ((8, 1), (16, 2), (16, 1)):
        start = value
        value = make.convolution(value, 4 * make.shape(value)[3], (1, 1), fused=FUSED.RELU6)
        if stride == 2:  # as Keras writes it
            value = make.convolution(
                make.pad(value, 0, 1, 0, 1), 0, stride=2, padding=VALID, fused=FUSED.RELU6, depth=1
            )
        else:
            value = make.convolution(value, 0, fused=FUSED.RELU6, depth=1)
        value = make.convolution(value, filters, (1, 1))
        if make.shape(start) == make.shape(value):
            value = make.operator("ADD", [start, value], make.shape(value))
    value = make.convolution(value, 32, (1, 1), fused=FUSED.RELU6)
    value = make.operator("MEAN", [value, make.numbers(1, 2)], (1, 1, 1, 32), (0.0, 3.0), keepDims=True)
    value = make.like("RESHAPE", value, (1, 32), [make.numbers(1, 32)], newShape=[1, 32])
    return make.file(make.softmax(make.dense(value, 10, limits=(-4.0, 4.0))))


def branches(dtype: str, seed: int = 0) -> bytes:
    """A padded stem, branches side by side, a residual sum, a gate, a flattening of a whole plane."""
    make = Maker(dtype, seed)
    value = make.input((1, 17, 15, 3))
    value = make.convolution(make.pad(value, 2, 1, 3, 0), 16, (5, 3), 2, VALID, FUSED.RELU)
    value = make.pool("MAX", value, 3, 2)
    left = make.convolution(value, 8, (1, 1), fused=FUSED.RELU)
    middle = make.convolution(value, 12, dilation=2, padding=SAME, fused=FUSED.RELU)
    right = make.convolution(make.pool("AVERAGE", value, 3, 1), 4, (1, 1), fused=FUSED.RELU)
    n, rows, columns, _ = make.shape(left)
    value = make.operator("CONCATENATION", [left, middle, right], (n, rows, columns, 24), (0.0, 3.0), axis=3)
    more = make.convolution(value, 24)
    value = make.operator(
        "ADD", [value, more], make.shape(more), (0.0, 4.0), fusedActivationFunction=FUSED.RELU
    )
    gate = make.operator("MEAN", [value, make.numbers(1, 2)], (1, 24), (0.0, 3.0), keepDims=False)
    gate = make.dense(gate, 24)
    gate = make.operator("LOGISTIC", [gate], (1, 24), limits=(0.0, 255 / 256))
    gate = make.like("RESHAPE", gate, (1, 1, 1, 24), [make.numbers(1, 1, 1, 24)])
    value = make.operator("MUL", [value, gate], make.shape(value), (0.0, 4.0))
    size = math.prod(make.shape(value))
    value = make.like("RESHAPE", value, (1, size), [make.numbers(1, size)])
    return make.file(make.dense(value, 6), more)


def small(dtype: str, seed: int = 0) -> bytes:
    """Three products: a convolution, a depthwise one with a sum after it, a classifier."""
    make = Maker(dtype, seed)
    stem = make.convolution(make.input((1, 16, 16, 4)), 16, stride=2, fused=FUSED.RELU6)
    value = make.convolution(stem, 0, depth=1)
    value = make.operator("ADD", [stem, value], make.shape(value), (-3.0, 6.0))
    value = make.pool("AVERAGE", value, 8, 1, VALID)
    value = make.like("RESHAPE", value, (1, 16), [make.numbers(1, 16)])
    return make.file(make.dense(value, 10), stem)
