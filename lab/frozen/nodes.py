"""The ``onnx`` package's tests of every operator as they are built, their operands inputs or constants."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onnx import ModelProto, numpy_helper

from bench.conformance import FORMS
from bench.conformance_case import CASES, array
from kernels.target import CATALOGUE
from lab.frozen.built import built

TARGET = CATALOGUE["x86-avx2"]


def keys(_: object = None) -> list[str]:
    """Names of tests, each with a form."""
    return [
        f"{name} {form}" for name in sorted(CASES) for form in FORMS[: len(CASES[name].model.graph.input)]
    ]


def text(key: str) -> str:
    """What the build of a test's model makes before LLVM, or why it is refused."""
    name, form = key.split()
    model = ModelProto()
    model.CopyFrom(CASES[name].model)
    if form == "constants":
        values = zip(model.graph.input, CASES[name].data_sets[0][0], strict=False)
        for given, value in [*values][1:]:
            if hasattr(array(value), "dtype"):
                model.graph.initializer.append(numpy_helper.from_array(array(value), given.name))
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return built(path, None, TARGET, 1)
