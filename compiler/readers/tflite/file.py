"""A TFLite file as plain values, read from bytes that may be damaged or hostile.

FlatBuffers' Python reader verifies nothing: every part is looked up by an offset from the file, and parts may
overlap. Reads outside the bytes raise, and ``_Reader`` bounds what overlapping parts can add up to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from flatbuffers.number_types import Int32Flags
from tflite.utils import BUILTIN_OPCODE2NAME

from compiler.ir.checks import MAX_NODES, ModelError, check_size
from compiler.readers.tflite.sparse import dense

Array = npt.NDArray[Any]

VERSION = 3
MAX_TENSORS = 4 * MAX_NODES
MAX_RANK = 8
MAX_NAME = 10_000
OVERLAP = 4
"""Small vectors and names may add up to so many times the file's size: equal ones may be stored once."""
DTYPES = {"float32", "float16", "bool", "int8", "uint8", "int16", "int32", "int64"}

_TYPE_NAMES = {code: name.lower() for name, code in vars(tflite.TensorType).items() if name.isupper()}
_OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "SOFTMAX": "SoftmaxOptions",
    "CONCATENATION": "ConcatenationOptions",
    "ARG_MAX": "ArgMaxOptions",
    "ARG_MIN": "ArgMinOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CUMSUM": "CumsumOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "DIV": "DivOptions",
    "GATHER": "GatherOptions",
    "GELU": "GeluOptions",
    "IF": "IfOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "ONE_HOT": "OneHotOptions",
    "PACK": "PackOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "SQUEEZE": "SqueezeOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNPACK": "UnpackOptions",
    "VAR_HANDLE": "VarHandleOptions",
    "WHILE": "WhileOptions",
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), "ReducerOptions"),
}
"""Operators whose options matter, and the table that holds them."""
COMPOSITE = "STABLEHLO_COMPOSITE"
COMPOSITE_OPTIONS = tflite.BuiltinOptions2.StableHLOCompositeOptions
_NO_FIELDS = (b"\x04\x00\x04\x00\x04\x00\x00\x00", 4)
"""A table that leaves all fields out, which means their defaults, and where it begins."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file; ``raw`` are a constant's bytes, ``scales`` of size 0 say it is not quantized."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    raw: Array | None
    scales: Array
    zeros: Array
    axis: int
    open: tuple[int, ...] = ()
    """The axes with an extent that is known only when the model runs; ``shape`` has 1 there."""
    variable: bool = False
    """Whether it keeps what an operator leaves in it for the next run."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def quantized(self) -> bool:
        """Whether it is an 8-bit tensor that stands for real numbers."""
        return self.dtype in ("int8", "uint8") and self.scales.size > 0

    def values(self) -> Array | None:
        """A constant's values, a view of the file; None for an activation."""
        if self.raw is None:
            return None
        dtype = np.dtype(self.checked_dtype()).newbyteorder("<")
        if self.raw.nbytes != self.size * dtype.itemsize:
            raise ModelError(
                f"tensor {self.name!r} of {list(self.shape)} needs {self.size * dtype.itemsize} bytes "
                f"and has {self.raw.nbytes}"
            )
        return self.raw.view(dtype).reshape(self.shape)

    def checked_dtype(self) -> str:
        """The element type; raises ModelError for one that is not supported."""
        if self.dtype not in DTYPES:
            raise ModelError(f"tensor {self.name!r} is of the type {self.dtype}, which is not supported")
        return self.dtype

    def scale_and_zero(self) -> tuple[Array, Array]:
        """Float32 scales and zero points of the tensor's type: scalars, or vectors along ``axis``.

        Raises ModelError for a tensor without them and for values that make no sense.
        """
        count = self.scales.size
        if not count:
            raise ModelError(f"tensor {self.name!r} of {self.dtype} has no scale")
        if count > 1 and (not 0 <= self.axis < len(self.shape) or self.shape[self.axis] != count):
            raise ModelError(
                f"tensor {self.name!r} of {list(self.shape)} has {count} scales along axis {self.axis}"
            )
        zeros = self.zeros if self.zeros.size else np.zeros(1, np.int64)
        if zeros.size not in (1, count):
            raise ModelError(f"tensor {self.name!r} has {count} scales and {zeros.size} zero points")
        scales = self.scales.astype(np.float32)
        if not (np.isfinite(scales).all() and (scales >= 0).all() and (scales.all() or self.raw is not None)):
            # Of a constant 0 says that all of a filter is 0; LiteRT refuses it of what is computed.
            raise ModelError(f"tensor {self.name!r} has a scale that is not a positive number")
        kind = np.iinfo(self.dtype)
        if zeros.min() < kind.min or zeros.max() > kind.max:
            raise ModelError(f"tensor {self.name!r} has a zero point that is no {self.dtype}")
        zeros = zeros.astype(self.dtype)
        if count == 1:
            return scales.reshape(()), zeros.reshape(())
        return scales, np.broadcast_to(zeros, (count,))


@dataclass(frozen=True)
class Operator:
    """An operator of the file; ``inputs`` and ``outputs`` are numbers of tensors, -1 for one left out."""

    kind: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    """The table of options, one of the schema's classes, or a custom operator's bytes; None without any."""


@dataclass(frozen=True)
class TfliteFile:
    """A graph of a file, its operators in the order in which they run."""

    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


def read_file(data: bytes) -> tuple[TfliteFile, ...]:
    """The graphs of a TFLite file; the first is what runs, and may call the others.

    Raises ModelError for what is recognised as unusable, and whatever the FlatBuffers reader happens to run
    into (struct.error, ValueError, TypeError, IndexError) for other damage.
    """
    return _Reader(data).graphs()


class _Reader:
    """Reads the tables, and counts how much it was made to read."""

    def __init__(self, data: bytes) -> None:
        self._size, self._left = len(data), OVERLAP * len(data)
        self._tensors = self._operators = 0
        self._model: Any = tflite.Model.GetRootAs(data, 0)

    def graphs(self) -> tuple[TfliteFile, ...]:
        model = self._model
        if model.Version() != VERSION:
            raise ModelError(f"TFLite schema version {model.Version()} is not known; it should be {VERSION}")
        buffers = self._length(model.BuffersLength(), "buffers")
        kinds = [
            self._kind(model.OperatorCodes(index))
            for index in range(self._length(model.OperatorCodesLength(), "operator codes", MAX_NODES))
        ]
        count = self._length(model.SubgraphsLength(), "subgraphs")
        graphs = tuple(self._graph(model.Subgraphs(index), kinds, buffers) for index in range(count))
        if not graphs or not graphs[0].operators:
            raise ModelError("the model has no operators")
        if not graphs[0].outputs:
            raise ModelError("the model has no outputs, so there is nothing to compute")
        return graphs

    def _graph(self, graph: Any, kinds: list[str], buffers: int) -> TfliteFile:
        # Subgraphs may overlap, so what counts is how many tensors and operators they have in all.
        self._tensors += self._length(graph.TensorsLength(), "tensors", MAX_TENSORS - self._tensors)
        tensors = tuple(
            self._tensor(graph.Tensors(index), index, buffers) for index in range(graph.TensorsLength())
        )
        count = self._length(graph.OperatorsLength(), "operators", MAX_NODES - self._operators)
        self._operators += count
        operators = tuple(self._operator(graph.Operators(index), kinds, tensors) for index in range(count))
        inputs = self._numbers(graph.InputsAsNumpy(), len(tensors), 0, "inputs")
        outputs = self._numbers(graph.OutputsAsNumpy(), len(tensors), 0, "outputs")
        return TfliteFile(tensors, inputs, outputs, operators)

    def _length(self, length: int, what: str, limit: int | None = None) -> int:
        # Each entry of a vector of tables is an offset of four bytes.
        if length * 4 > self._size:
            raise ModelError(f"the file is damaged: it is too short for its {length} {what}")
        if limit is not None and length > limit:
            raise ModelError(f"the model has {length} {what}; at most {limit} are read")
        return length

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ModelError("the file is damaged: its parts overlap")

    def _vector(self, values: Any) -> Array:
        # The accessors give 0 where there is no vector.
        vector = np.zeros(0, np.int64) if isinstance(values, int) else np.asarray(values)
        self._spend(vector.nbytes)
        return vector

    def _text(self, value: bytes | None) -> str:
        text = value or b""
        if len(text) > MAX_NAME:
            raise ModelError(f"the file is damaged: it has a name of {len(text)} bytes")
        self._spend(len(text))
        return text.decode(errors="replace")

    def _numbers(self, values: Any, tensors: int, least: int, what: str) -> tuple[int, ...]:
        numbers = self._vector(values)
        if numbers.size and (numbers.min() < least or numbers.max() >= tensors):
            raise ModelError(f"the file is damaged: {what} that are no tensors")
        return tuple(int(number) for number in numbers)

    def _tensor(self, tensor: Any, index: int, buffers: int) -> Tensor:
        name = self._text(tensor.Name()) or f"tensor{index}"
        shape = self._vector(tensor.ShapeAsNumpy())
        if shape.size > MAX_RANK or (shape < 0).any():
            raise ModelError(f"tensor {name!r} has the impossible shape {shape[: MAX_RANK + 1].tolist()}")
        extents = tuple(int(extent) for extent in shape)
        dtype = _TYPE_NAMES.get(tensor.Type(), f"number {tensor.Type()}")
        if dtype in DTYPES:
            check_size(math.prod(extents) * np.dtype(dtype).itemsize, f"tensor {name!r}", extents)
        scales = zeros = np.zeros(0, np.int64)
        axis, quantization = 0, tensor.Quantization()
        if quantization is not None:
            scales = self._vector(quantization.ScaleAsNumpy())
            zeros = self._vector(quantization.ZeroPointAsNumpy())
            axis = quantization.QuantizedDimension()
        raw, sparsity = self._raw(tensor.Buffer(), name, buffers), tensor.Sparsity()
        if sparsity is not None:
            if raw is None or dtype not in DTYPES:
                raise ModelError(f"tensor {name!r} is sparse and no constant of a known type")
            raw = dense(sparsity, raw.view(np.dtype(dtype).newbyteorder("<")), extents, name).view(np.uint8)
        is_open = np.flatnonzero(self._vector(tensor.ShapeSignatureAsNumpy()) < 0)
        left = tuple(int(each) for each in is_open)
        return Tensor(name, extents, dtype, raw, scales, zeros, axis, left, bool(tensor.IsVariable()))

    def _raw(self, number: int, name: str, buffers: int) -> Array | None:
        """A constant's bytes, not copied; activations are in an empty buffer, mostly number 0."""
        if number == buffers == 0:
            return None
        if number >= buffers:
            raise ModelError(f"the file is damaged: tensor {name!r} is in buffer {number} of {buffers}")
        buffer = self._model.Buffers(number)
        if buffer.Offset() or buffer.Size():
            raise ModelError(f"tensor {name!r} keeps its data outside the FlatBuffer, which is not supported")
        data = buffer.DataAsNumpy()
        return None if isinstance(data, int) or not data.size else data

    def _kind(self, code: Any) -> str:
        # As LiteRT does: the newer field, which the accessor ignores below 127, or the older one.
        newer = code._tab.Offset(10)
        number = code._tab.Get(Int32Flags, newer + code._tab.Pos) if newer else 0
        number = max(number, code.DeprecatedBuiltinCode())
        if number == tflite.BuiltinOperator.CUSTOM:
            version = f" version {code.Version()}" if code.Version() > 1 else ""
            return f"CUSTOM {self._text(code.CustomCode())[:100]!r}{version}"
        return str(BUILTIN_OPCODE2NAME.get(number, f"operator {number}"))

    def _operator(self, operator: Any, kinds: list[str], tensors: tuple[Tensor, ...]) -> Operator:
        number = operator.OpcodeIndex()
        if number >= len(kinds):
            raise ModelError(f"the file is damaged: there is no operator code {number}")
        kind = kinds[number]
        inputs = self._numbers(operator.InputsAsNumpy(), len(tensors), -1, "inputs of operators")
        outputs = self._numbers(operator.OutputsAsNumpy(), len(tensors), 0, "outputs of operators")
        name, options = tensors[outputs[0]].name if outputs else kind, None
        if kind in _OPTIONS:
            table, given = operator.BuiltinOptions(), operator.BuiltinOptionsType()
            if table is not None and given != getattr(tflite.BuiltinOptions, _OPTIONS[kind]):
                raise ModelError(f"{kind} {name!r} has other options than {_OPTIONS[kind]}")
            options = getattr(tflite, _OPTIONS[kind])()
            options.Init(*(_NO_FIELDS if table is None else (table.Bytes, table.Pos)))
        elif kind == COMPOSITE:
            table, options = operator.BuiltinOptions2(), tflite.StableHLOCompositeOptions()
            if table is None or operator.BuiltinOptions2Type() != COMPOSITE_OPTIONS:
                raise ModelError(f"{kind} {name!r} has other options than its own")
            options.Init(table.Bytes, table.Pos)
        elif kind.startswith("CUSTOM"):
            options = self._vector(operator.CustomOptionsAsNumpy())
        return Operator(kind, name, inputs, outputs, options)
