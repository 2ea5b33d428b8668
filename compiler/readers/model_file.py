"""Read a model file, whatever its form, as an ONNX model."""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto

from compiler.ir.checks import MAX_NODES, ModelError, Shapes, fix_input_shapes
from compiler.ir.own_nodes import HALVES
from compiler.passes.cleanup.dead_code import drop_dead_code
from compiler.passes.cleanup.functions import inlined
from compiler.passes.cleanup.opsets import raise_oldest
from compiler.passes.cleanup.sparse import make_dense
from compiler.passes.cleanup.topological_sort import sort
from compiler.passes.expand import onnx_ml
from compiler.passes.expand.onnx_ml.wire import parse
from compiler.passes.precision.half import promote_half

MAX_FILE_BYTES = 2**31 - 1
"""The largest file that protobuf reads."""
TFLITE = b"TFL3"
"""What a TFLite file has at byte 4."""


def is_tflite(path: str | Path) -> bool:
    """Whether the file is TFLite's, by its first bytes."""
    with Path(path).open("rb") as file:
        return file.read(8)[4:] == TFLITE


def read_as_written(path: str | Path, shapes: Shapes | None = None) -> ModelProto:
    """The model with every input's shape fixed, and otherwise as its file has it: what it is defined to be.

    A TFLite model is what it becomes in ONNX, a model of the first five operator sets one of the sixth, which
    onnxruntime can run, and floats of 16 bits are float32: how often a library rounds
    those in between says nothing about a build. Raises ModelError as ``read_model`` does.
    """
    model = parse_file(Path(path), shapes)
    fix_input_shapes(model, shapes or {})
    if len(model.graph.node) <= MAX_NODES:
        sort(model)
        raise_oldest(model)
    if promote_half(model):
        model.metadata_props.add(key=HALVES)
    return model


def parse_file(path: Path, shapes: Shapes | None = None, tables: bool = False) -> ModelProto:
    """The model at ``path`` as its file has it; ModelError for what is none.

    A TFLite one is as ONNX, for ``shapes`` of inputs that it leaves open. Large ``tables`` of trees become
    tensors, which our own forms alone understand (``onnx_ml/wire.py``).
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"{path.name} is {size} bytes; a model file holds at most {MAX_FILE_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read: {error.strerror}") from None
    return parse_bytes(data, path.name, shapes, tables)


def parse_bytes(data: bytes, name: str, shapes: Shapes | None = None, tables: bool = False) -> ModelProto:
    """The model that the bytes of the file ``name`` are; ModelError as ``parse_file`` raises it."""
    if not data:
        raise ModelError(f"{name} is empty")
    if data[4:8] == TFLITE:
        # Here, because the schema is some two hundred modules, which other models need not wait for.
        from compiler.readers.tflite.convert import to_onnx

        return to_onnx(data, shapes)
    try:
        model = parse(data) if tables else ModelProto.FromString(data)
    except DecodeError:
        raise ModelError(f"{name} is not an ONNX or TFLite model, or is truncated") from None
    if not model.ir_version or not model.opset_import or not (model.graph.node or model.graph.output):
        raise ModelError(f"{name} is not an ONNX or TFLite model: it has no version, operator set or graph")
    make_dense(model)
    drop_dead_code(model)
    onnx_ml.plain(model)
    model = inlined(model)
    drop_dead_code(model)
    return model
