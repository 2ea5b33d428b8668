"""A TFLite model as the ONNX model that computes the same: images NCHW inside, quantized tensors as QDQ.

The model's inputs and outputs keep their names, their types and their shapes, NHWC for images.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onnx import ModelProto

from compiler.ir.checks import ModelError, Shapes, check_size, first_line, static_shape
from compiler.readers.tflite.file import TfliteFile, read_file
from compiler.readers.tflite.loops import CHOICE, LOOP, choice, loop
from compiler.readers.tflite.readers import READERS
from compiler.readers.tflite.subgraphs import flat
from compiler.readers.tflite.unread import read
from compiler.readers.tflite.writer import Writer


def to_onnx(data: bytes, shapes: Shapes | None = None) -> ModelProto:
    """The ONNX model of the TFLite file ``data``, with these ``shapes`` of inputs that the file leaves open.

    Raises ModelError for a file that is damaged, and for operators, types and options that are not supported.
    """
    try:
        file = read(flat([read(graph) for graph in read_file(data)]))
        _check_known(file)
        sized = _sized(file, shapes or {})
        try:
            return _written(sized).model()
        except ModelError as error:
            # With the ones that the file has there, a window may be larger than its plane.
            raise ModelError(f"{error}{_left_open(file, shapes or {})}") from None
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the reader of the format verifies nothing: any lookup may fail somehow
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ModelError(f"the TFLite file is damaged ({reason})") from error


def _sized(file: TfliteFile, shapes: Shapes) -> TfliteFile:
    """``file`` with ``shapes`` of its inputs; raises ModelError for one that does not fit."""
    tensors = list(file.tensors)
    for index in file.inputs:
        tensor = tensors[index]
        if tensor.name in shapes:
            declared = ["?" if axis in tensor.open else extent for axis, extent in enumerate(tensor.shape)]
            shape = static_shape(tensor.name, declared, shapes[tensor.name])
            check_size(8 * math.prod(shape), f"input {tensor.name!r}", shape)
            tensors[index] = replace(tensor, shape=tuple(shape))
    return replace(file, tensors=tuple(tensors))


def _left_open(file: TfliteFile, shapes: Shapes) -> str:
    """What to say of inputs that the file leaves open, not in the batch alone, and ``shapes`` leaves out."""
    inputs = (file.tensors[index] for index in file.inputs)
    return "".join(
        f"; the file leaves input {each.name!r} {list(each.shape)} open along "
        f"{', '.join(map(str, each.open))}: give its shape by --shape"
        for each in inputs
        if any(each.open) and each.name not in shapes
    )


def _check_known(file: TfliteFile) -> None:
    unknown = {op.kind: op.name for op in reversed(file.operators) if op.kind not in (CHOICE, LOOP, *READERS)}
    if unknown:
        listed = ", ".join(f"{kind} ({name!r})" for kind, name in sorted(unknown.items())[:10])
        raise ModelError(f"the model has operators that are not supported: {listed}")


def _written(file: TfliteFile) -> Writer:
    writer = Writer(file)
    for op in file.operators:
        try:
            if op.kind in (CHOICE, LOOP):
                for part in op.options:
                    _check_known(part)
                write = loop if op.kind == LOOP else choice
                write(writer, op, *(_written(part).nested() for part in op.options))
                continue
            READERS[op.kind](writer, op)
            writer.fold(op)
        except ModelError as error:
            raise ModelError(f"{op.kind} {op.name!r}: {error}") from None
    return writer
