"""Quantized models: the networks of ``bench.models`` and small ones, quantized by onnxruntime.

onnxruntime writes the graphs that its users have: QDQ, or operators of its own (QOperator).
Weights and calibration data are random and seeded, so the same arguments give the same model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from bench.models import MAKERS
from bench.quantized_small import SMALL

__all__ = ["NAMES", "SMALL", "Style", "quantize", "quantized", "random_feeds"]
NAMES = ("mobilenet_v1", "mobilenet_v2", "resnet18", "resnet50", "inception_v3")
"""The networks that are quantized for benches."""
CALIBRATION_SAMPLES = 4


@dataclass(frozen=True)
class Style:
    """How a model is quantized.

    Weights have 7 bits (onnxruntime's ``reduce_range``) unless ``reduce_range`` is False: with 8 bits
    onnxruntime's AVX2 code for uint8 data saturates, and there is nothing to compare with.
    """

    activations: Literal["uint8", "int8"] = "uint8"
    form: Literal["qdq", "qoperator"] = "qdq"
    per_channel: bool = True
    reduce_range: bool = True
    weights: Literal["uint8", "int8"] = "int8"


USUAL = Style()


def quantized(name: str, style: Style = USUAL, seed: int = 0) -> ModelProto:
    """A network of ``NAMES``, or a small one of ``SMALL``, quantized."""
    return quantize((MAKERS | SMALL)[name](seed), style, seed)


def quantize(model: ModelProto, style: Style = USUAL, seed: int = 0) -> ModelProto:
    """``model`` (all inputs float32, shapes fixed) quantized, calibrated on standard normal inputs."""
    types = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / "quantized.onnx"
        quantize_static(
            model,
            path,
            _Calibration(model, seed),
            quant_format={"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}[style.form],
            activation_type=types[style.activations],
            weight_type=types[style.weights],
            per_channel=style.per_channel,
            reduce_range=style.reduce_range,
        )
        return onnx.load(str(path))


class _Calibration(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    def __init__(self, model: ModelProto, seed: int) -> None:
        self._feeds = self._samples(model, np.random.default_rng(seed))

    def get_next(self) -> dict[str, npt.NDArray[Any]] | None:
        """The next inputs, None after the last."""
        return next(self._feeds, None)

    @staticmethod
    def _samples(model: ModelProto, rng: np.random.Generator) -> Iterator[dict[str, npt.NDArray[Any]]]:
        for _ in range(CALIBRATION_SAMPLES):
            yield random_feeds(model, rng)


def random_feeds(model: ModelProto, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Standard normal values for every input of a model with fixed shapes."""
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
