"""TFLite files of one operator each, of every type of data, as they are built."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.conformance_tflite import CASES, TYPES
from bench.tflite_models import Maker
from kernels.target import CATALOGUE
from lab.frozen.built import built

TARGET = CATALOGUE["rpi4"]


def keys(_: object = None) -> list[str]:
    """Cases, each with a type."""
    return [f"{name} {form}" for name in sorted(CASES) for form in TYPES]


def text(key: str) -> str:
    """What the build of a case's model makes before LLVM, or why it is refused."""
    name, form = key.rsplit(" ", 1)
    make: Any = Maker(form)
    data = make.file(CASES[name](make))
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        return built(path, None, TARGET, 1)
