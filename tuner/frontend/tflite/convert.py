"""A TFLite model as the ONNX model that computes the same: images NCHW inside, quantized tensors as QDQ.

The model's inputs and outputs keep their names, their types and their shapes, NHWC for images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnx import ModelProto

from tuner.frontend.onnx_check import ModelError, first_line
from tuner.frontend.tflite import operators
from tuner.frontend.tflite.file import Operator, TfliteFile, read_file
from tuner.frontend.tflite.products import Padded, convolution, fully_connected
from tuner.frontend.tflite.writer import Writer

Write = Callable[[Writer, Operator], None]


def to_onnx(data: bytes) -> ModelProto:
    """The ONNX model of the TFLite file ``data``.

    Raises ModelError for a file that is damaged, and for operators, types and options that are not supported.
    """
    try:
        file = read_file(data)
        return _converted(file)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the reader of the format verifies nothing: any lookup may fail somehow
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ModelError(f"the TFLite file is damaged ({reason})") from error


def _converted(file: TfliteFile) -> ModelProto:
    padded = Padded()
    write: dict[str, Write] = {
        **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), partial(convolution, padded=padded)),
        **dict.fromkeys(operators.UNARY, operators.unary),
        **dict.fromkeys(operators.BINARY, operators.binary),
        **dict.fromkeys(operators.POOLS, operators.pool),
        **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), operators.reshape),
        "FULLY_CONNECTED": fully_connected,
        "DEQUANTIZE": operators.dequantize,
        "MEAN": operators.mean,
        "SOFTMAX": operators.softmax,
        "CONCATENATION": operators.concatenation,
        "TRANSPOSE": operators.transpose,
        "PAD": partial(operators.pad, padded=padded),
    }
    unknown = {op.kind: op.name for op in reversed(file.operators) if op.kind not in write}
    if unknown:
        listed = ", ".join(f"{kind} ({name!r})" for kind, name in sorted(unknown.items())[:10])
        raise ModelError(f"the model has operators that are not supported: {listed}")
    writer = Writer(file)
    for op in file.operators:
        try:
            write[op.kind](writer, op)
        except ModelError as error:
            raise ModelError(f"{op.kind} {op.name!r}: {error}") from None
    return writer.model()
