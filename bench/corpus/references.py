"""What a model should compute, as every check has it: by onnxruntime, or by LiteRT of a TFLite file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onnx import ModelProto

from compiler.readers.model_file import is_tflite
from tuner.backend.definition import Array, Definition, Source, define


def defined(path: Path, model: ModelProto, feeds: Mapping[str, Array]) -> Definition:
    """What the outputs of ``path``, which is ``model`` with its shapes fixed, are for ``feeds``.

    Raises Undefined where none of the libraries computes it.
    """
    return define(Source(model, path if is_tflite(path) else None), feeds)
