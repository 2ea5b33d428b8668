"""The models of the bench by name: networks, transformers and quantized ones, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
from onnx import ModelProto

from bench.detector import detector
from bench.made_models import MADE
from bench.models import MAKERS
from bench.quantized_models import NAMES as QUANTIZED
from bench.quantized_models import quantized
from bench.quantized_small import SMALL

INT8 = "_int8"
_MAKERS: dict[str, Callable[[], ModelProto]] = {
    **{name: partial(make, 0) for name, make in (MAKERS | MADE | SMALL).items()},
    **{f"{name}{INT8}": partial(quantized, name) for name in (*QUANTIZED, *SMALL)},
    "detector": detector,
}
NAMES = tuple(_MAKERS)


def save(name: str, folder: Path) -> Path:
    """The file of a model of NAMES in ``folder``, made where it is not there yet."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        onnx.save(_MAKERS[name](), path)
    return path
