"""A TFLite model as the ONNX model that computes the same: images NCHW inside, quantized tensors as QDQ.

The model's inputs and outputs keep their names, their types and their shapes, NHWC for images.
"""

from __future__ import annotations

from onnx import ModelProto

from tuner.frontend.onnx_check import ModelError, first_line
from tuner.frontend.tflite.file import TfliteFile, read_file
from tuner.frontend.tflite.loops import LOOP, loop
from tuner.frontend.tflite.readers import READERS
from tuner.frontend.tflite.subgraphs import flat
from tuner.frontend.tflite.writer import Writer


def to_onnx(data: bytes) -> ModelProto:
    """The ONNX model of the TFLite file ``data``.

    Raises ModelError for a file that is damaged, and for operators, types and options that are not supported.
    """
    try:
        file = flat(read_file(data))
        return _written(file).model()
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the reader of the format verifies nothing: any lookup may fail somehow
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ModelError(f"the TFLite file is damaged ({reason})") from error


def _written(file: TfliteFile) -> Writer:
    unknown = {op.kind: op.name for op in reversed(file.operators) if op.kind not in (LOOP, *READERS)}
    if unknown:
        listed = ", ".join(f"{kind} ({name!r})" for kind, name in sorted(unknown.items())[:10])
        raise ModelError(f"the model has operators that are not supported: {listed}")
    writer = Writer(file)
    for op in file.operators:
        try:
            if op.kind == LOOP:
                loop(writer, op, *(_written(part).nested() for part in op.options))
                continue
            READERS[op.kind](writer, op)
            writer.fold(op)
        except ModelError as error:
            raise ModelError(f"{op.kind} {op.name!r}: {error}") from None
    return writer
