"""What a model should compute: by onnxruntime, or by LiteRT of a TFLite file as it is.

Custom operators of TFLite, which LiteRT does not know, are computed as the ONNX model that we read them as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from tuner.backend.definition import Array, Definition, Undefined, define, nudge
from tuner.frontend.model_file import TFLITE

CUSTOM = "unresolved custom op"
"""What LiteRT says of an operator that is not its own."""


def is_tflite(path: Path) -> bool:
    """Whether the file is TFLite's."""
    with path.open("rb") as file:
        return file.read(8)[4:] == TFLITE


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
    """The same of a TFLite file; raises Undefined where LiteRT is missing or refuses the file."""
    try:
        import ai_edge_litert
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise Undefined("the package ai-edge-litert is not installed") from None
    try:
        interpreter = Interpreter(str(path), num_threads=1)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise Undefined(f"LiteRT refuses it: {str(error).splitlines()[0]}") from None

    def outputs(values: Mapping[str, Array]) -> dict[str, Array]:
        # State that a model keeps between runs starts anew.
        interpreter.reset_all_variables()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], values[detail["name"]])
        interpreter.invoke()
        details = interpreter.get_output_details()
        return {each["name"]: np.array(interpreter.get_tensor(each["index"])) for each in details}

    rng = np.random.default_rng(1)
    others = {name: nudge(value, rng) for name, value in feeds.items()}
    return Definition(outputs(feeds), outputs(others), f"LiteRT {ai_edge_litert.__version__}")
