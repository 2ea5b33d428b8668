"""What a model should compute: by onnxruntime, or by LiteRT of a TFLite file as it is.

Custom operators of TFLite, which LiteRT does not know, are computed as the ONNX model that we read them as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from tuner.backend.definition import Array, Definition, Undefined, define, nudge
from tuner.frontend.model_file import is_tflite

BYTES = (np.int8, np.uint8)
CUSTOM = "unresolved custom op"
"""What LiteRT says of an operator that is not its own."""


def defined(path: Path, model: ModelProto, feeds: Mapping[str, Array]) -> Definition:
    """What the outputs of ``path``, which is ``model`` with its shapes fixed, are for ``feeds``.

    Raises Undefined where none of the libraries computes it.
    """
    if not is_tflite(path):
        return define(model, feeds)
    try:
        return by_litert(path, feeds)
    except Undefined as refusal:
        if CUSTOM not in str(refusal):
            raise
    definition = define(model, feeds)
    return replace(definition, by=f"{definition.by} of our ONNX model")


def by_litert(path: Path, feeds: Mapping[str, Array]) -> Definition:
    """The same of a TFLite file; raises Undefined where LiteRT is missing or refuses the file.

    Where a model has bytes, its nudged outputs are those of LiteRT's plain kernels: they round otherwise than
    the fast ones, and both are right.
    """
    try:
        import ai_edge_litert
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise Undefined("the package ai-edge-litert is not installed") from None
    try:
        fast = Interpreter(str(path), num_threads=1)
        _allocate(fast, feeds)
        other = fast
        if any(detail["dtype"] in BYTES for detail in fast.get_tensor_details()):
            other = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
            _allocate(other, feeds)
    except (RuntimeError, ValueError) as error:
        raise Undefined(f"LiteRT refuses it: {str(error).splitlines()[0]}") from None

    def outputs(interpreter: Interpreter, values: Mapping[str, Array]) -> dict[str, Array]:
        # State that a model keeps between runs starts anew.
        interpreter.reset_all_variables()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], values[detail["name"]])
        interpreter.invoke()
        details = interpreter.get_output_details()
        return {each["name"]: np.array(interpreter.get_tensor(each["index"])) for each in details}

    rng = np.random.default_rng(1)
    others = {name: nudge(value, rng) for name, value in feeds.items()}
    return Definition(outputs(fast, feeds), outputs(other, others), f"LiteRT {ai_edge_litert.__version__}")


def _allocate(interpreter: Any, feeds: Mapping[str, Array]) -> None:
    for detail in interpreter.get_input_details():
        if tuple(detail["shape"]) != feeds[detail["name"]].shape:
            interpreter.resize_tensor_input(detail["index"], feeds[detail["name"]].shape)
    interpreter.allocate_tensors()
