"""The process that computes a model's definition: ``python -m tuner.backend.evaluation FOLDER``."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from compiler.ir.checks import first_line
from tuner.backend import litert
from tuner.backend.error import error_of

Array = npt.NDArray[Any]

NUDGE = 1e-5
"""About what rounding does to the results of a layer."""
FAR = 5e-3
"""The most that a nudge of weights may say of an output, of its largest value."""
SATURATING = {
    *("ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"),
    *("QAttention", "QGemm", "QLinearConv", "QLinearMatMul"),
}
"""Operators of which onnxruntime adds up products in 16 bits where a processor has no better instruction."""
AS_BYTES = 0.25
"""How far LiteRT may be from a file's real numbers where it rounds the data of its layers to bytes."""
OF_16_BITS = 1e-2
"""The same where it has tables of 513 points for functions of 16 bits."""
TO_BYTES = 0.05
"""How far onnxruntime may be where it rounds data to bytes that are floats in the model, and here."""
HALF_RANGE = 128
"""Quanta that differences of bytes are relative to: LiteRT may be one off, however small a result is."""
MODEL, TFLITE, OTHER, ASKED = "model.onnx", "model.tflite", "other.onnx", "asked.json"
FEEDS, VALUES, NUDGED, TOLD = "feeds-{}.npz", "values-{}.npz", "nudged-{}.npz", "told-{}.json"
CONVERTED = "converted"
"""The way of a TFLite file that LiteRT does not compute: what we make of it in ONNX."""
_SAME = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"}
_PRODUCTS = {"Conv", "ConvTranspose", "Gather", "Gemm", "MatMul"}


@dataclass(frozen=True)
class Found:
    """The tensors of one draw, nudged ones, who computed them, and what ``Definition`` has of them."""

    values: Sequence[Array]
    nudged: Sequence[Array]
    by: str
    tolerance: float = 0.0
    least: Mapping[str, float] | None = None


def main(folder: Path) -> None:
    """Compute what ``folder`` asks for, and write for each draw what came out, or why nothing did."""
    asked = json.loads((folder / ASKED).read_text())
    evaluators = _evaluators(asked["reference"])
    onnx_model = _Onnx(folder, evaluators)
    for number in range(asked["draws"]):
        feeds = dict(zip(asked["inputs"], load_arrays(folder / FEEDS.format(number)), strict=True))
        rng = np.random.default_rng(1)
        nudged = {
            name: value if name in asked["fixed"] else nudge(value, rng) for name, value in feeds.items()
        }
        told = folder / TOLD.format(number)
        try:
            if asked["way"]:
                found, feeds = _of_tflite(folder, onnx_model, feeds, nudged, asked)
                np.savez(folder / FEEDS.format(number), *feeds.values())
            else:
                found = onnx_model.found(feeds, nudged)
        except Exception as error:  # whatever a library says of these inputs
            told.write_text(
                json.dumps({"why": f"the model's definition cannot be computed: {first_line(error)}"})
            )
            continue
        np.savez(folder / VALUES.format(number), *found.values)
        np.savez(folder / NUDGED.format(number), *found.nudged)
        about = {"by": found.by, "tolerance": found.tolerance, "least": dict(found.least or {})}
        told.write_text(json.dumps(about))


def load_arrays(path: Path) -> list[Array]:
    """The arrays of a file, in order."""
    with np.load(path) as file:
        return [file[name] for name in file.files]


def nudge(value: Array, rng: np.random.Generator) -> Array:
    """Floats NUDGE of the largest away from what they are, up or down; all else as it is."""
    if value.dtype.kind != "f" or value.size == 0:
        return value
    finite = np.abs(value[np.isfinite(value)])
    step = NUDGE * float(finite.max(initial=0.0))
    return np.asarray(value + step * rng.choice([-1.0, 1.0], value.shape)).astype(value.dtype)


class _Onnx:
    """The ONNX model of a folder, and the same with nudged constants, made when needed."""

    def __init__(self, folder: Path, evaluators: Sequence[type[Any]]) -> None:
        self._folder, self._evaluators = folder, evaluators
        self.model = onnx.load(folder / MODEL)
        self._made: dict[tuple[type[Any], str], Any] = {}

    def found(self, feeds: Mapping[str, Array], nudged: Mapping[str, Array]) -> Found:
        """What it makes of ``feeds``, and of those ``nudged``."""
        other = MODEL
        if all(value.dtype.kind != "f" for value in feeds.values()):
            other = OTHER
            if not (self._folder / OTHER).exists():
                changed = _nudge_constants(onnx.load(self._folder / MODEL), np.random.default_rng(1))
                (self._folder / OTHER).write_bytes(changed.SerializeToString())
        by, (values, others) = self.run([(MODEL, feeds), (other, nudged)])
        if other != MODEL and not _rounds_to_quanta(self.model):
            others = [_near(each, value) for each, value in zip(others, values, strict=True)]
        return Found(
            values, others, by, TO_BYTES if any(map(_has_byte_kernel, self.model.graph.node)) else 0.0
        )

    def run(self, runs: Sequence[tuple[str, Mapping[str, Array]]]) -> tuple[str, list[list[Array]]]:
        """Which library computes the models, and what it makes of each for its feeds; of several the first
        that knows all operators. A run that this one refuses raises what it says: the next would take an
        integer divided by 0 for 0."""
        for number, kind in enumerate(self._evaluators):
            last = number == len(self._evaluators) - 1
            try:
                for file, _ in runs:
                    if (kind, file) not in self._made:
                        self._made[kind, file] = kind(self._folder / file)
            except Exception as error:  # what it does not know, onnx itself may
                if last:
                    raise
                print(first_line(error), file=sys.stderr)
                continue
            try:
                return kind.name(), [self._made[kind, file].run(feeds) for file, feeds in runs]
            except Exception as error:
                if last or not _lacks_kernel(error):
                    raise
                print(first_line(error), file=sys.stderr)
        raise AssertionError("there is no evaluator")


def _evaluators(reference: bool) -> list[type[Any]]:
    there = importlib.util.find_spec("onnxruntime") is not None and not reference
    return [_OnnxRuntime, _Reference] if there else [_Reference]


def _lacks_kernel(error: Exception) -> bool:
    """Whether onnxruntime says, when it runs only, that it has no kernel for what it was to compute."""
    return type(error).__name__ == "NotImplemented"


class _OnnxRuntime:
    """onnxruntime without any optimisation."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        if any(node.op_type in SATURATING for node in onnx.load(path).graph.node):
            # An optimisation alone makes these sums exact on all processors.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            options.add_session_config_entry("session.x64quantprecision", "1")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    @staticmethod
    def name() -> str:
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        results: list[Array] = self._session.run(None, dict(feeds))
        return results


class _Reference:
    """onnx's own evaluator."""

    def __init__(self, path: Path) -> None:
        from onnx.reference import ReferenceEvaluator

        self._model = ReferenceEvaluator(onnx.load(path))

    @staticmethod
    def name() -> str:
        return f"onnx {onnx.__version__}"

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        found: Any = self._model.run(None, dict(feeds))
        return [np.asarray(value) for value in found]


def _of_tflite(
    folder: Path,
    converted: _Onnx,
    feeds: dict[str, Array],
    nudged: dict[str, Array],
    asked: Mapping[str, Any],
) -> tuple[Found, dict[str, Array]]:
    """What LiteRT makes of the file, and of tensors that it does not show our conversion; and for which
    inputs: of a file with states, those that the first of two runs leaves."""
    # Here, because the schema is some two hundred modules, which other models need not wait for.
    from compiler.readers.tflite.first_states import first_states
    from compiler.readers.tflite.rounding import data_as_bytes, of_16_bits

    data, names = (folder / TFLITE).read_bytes(), list(feeds)
    states = first_states(data)
    if states:
        outputs = [each.name for each in converted.model.graph.output]
        begin = {names[number]: value for number, value in states.items()}
        _, (left,) = converted.run([(MODEL, {**feeds, **begin})])
        after = dict(zip(outputs, left, strict=True))
        begin = {name: after.get(f"{name}/next", value) for name, value in begin.items()}
        feeds, nudged = {**feeds, **begin}, {**nudged, **begin}
    why, models = asked["before"], []
    shapes = [value.shape for value in feeds.values()]
    for way in (litert.PLAIN, litert.FAST):
        if asked["way"] == CONVERTED or (asked["way"] == litert.FAST and way == litert.PLAIN):
            continue
        try:
            # The nudged ones by other kernels: they round otherwise, and both are right.
            models = [litert.LiteRT(folder / TFLITE, shapes, each) for each in (way, litert.FAST)]
            break
        except litert.Refused as error:
            why = str(error)
    if not models:
        found = converted.found(feeds, nudged)
        return Found(found.values, found.nudged, f"{found.by} ({why}: of our conversion)"), feeds
    runs = 2 if states else 1
    values, others = (
        model.run([*fed.values()], runs) for model, fed in zip(models, (feeds, nudged), strict=True)
    )
    by = f"{litert.version()}{' (its fast kernels)' if way == litert.FAST else ''}"
    total = len(converted.model.graph.output)
    rounded = data_as_bytes(data)
    if len(values) < total or rounded:
        ours = converted.found(feeds, nudged)
        far = max(
            (error_of(value, right) for value, right in zip(values, ours.values, strict=False)), default=0.0
        )
        if rounded and far <= AS_BYTES:
            by = f"{ours.by} (of our conversion; {by}, which rounds data to bytes, is {far:.1g} off)"
            return Found(ours.values, ours.nudged, by), feeds
        values, others = [*values, *ours.values[len(values) :]], [*others, *ours.nudged[len(others) :]]
    tolerance = OF_16_BITS if of_16_bits(data) else 0.0
    return Found(values, others, by, tolerance, _least(converted.model)), feeds


def _least(model: ModelProto) -> dict[str, float]:
    """What differences of the outputs that are bytes, or real numbers of bytes, are relative to."""
    makers = {name: node for node in model.graph.node for name in node.output}
    constants = {each.name: each for each in model.graph.initializer}
    found = {}
    for value in model.graph.output:
        name, kind = value.name, value.type.tensor_type.elem_type
        while name in makers and makers[name].op_type in _SAME:
            name = makers[name].input[0]
        maker: NodeProto | None = makers.get(name)
        if kind in (TensorProto.INT8, TensorProto.UINT8):
            found[value.name] = float(HALF_RANGE)
        elif maker is not None and maker.op_type == "DequantizeLinear" and maker.input[1] in constants:
            scale = numpy_helper.to_array(constants[maker.input[1]])
            found[value.name] = HALF_RANGE * float(scale.max())
    return found


def _near(other: Array, value: Array) -> Array:
    """``other``, no further from ``value`` than FAR of the largest: whatever a nudge of weights makes of it,
    an output that is wrong by more is wrong."""
    if other.dtype.kind != "f" or other.shape != value.shape or other.size == 0:
        return other
    most = FAR * float(np.nan_to_num(np.abs(value)).max())
    return np.where(np.isfinite(other - value), np.clip(other, value - most, value + most), value)


def _has_byte_kernel(node: NodeProto) -> bool:
    """Whether it is a QMoE with blocks for which onnxruntime lacks a float kernel, or may not take it."""
    said = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    of_floats = said.get("expert_weight_bits", 4) == 4 and said.get("accuracy_level", 0) != 4
    return node.op_type == "QMoE" and said.get("block_size", 0) > 0 and not of_floats


def _rounds_to_quanta(model: ModelProto) -> bool:
    """Whether a little difference may become that of a quantum."""
    return any(
        node.op_type in SATURATING | {"DynamicQuantizeLinear", "QuantizeLinear"} for node in model.graph.node
    )


def _nudge_constants(model: ModelProto, rng: np.random.Generator) -> ModelProto:
    """Nudge floats that ``model`` has as constants, in place; the same model.

    All of them where a quantum may come of it, else weights alone: masks of the least float, and numbers that
    others are compared with, make more of a nudge than rounding ever does.
    """
    constants = [(each.name, each) for each in model.graph.initializer]
    constants += [(n.output[0], n.attribute[0].t) for n in model.graph.node if n.op_type == "Constant"]
    products = [node for node in model.graph.node if node.op_type in _PRODUCTS]
    weights = {name for node in products for name in node.input[:2]}
    nudge_all = _rounds_to_quanta(model)
    for name, tensor in constants:
        if tensor.data_type == TensorProto.FLOAT and (nudge_all or name in weights):
            value = nudge(numpy_helper.to_array(tensor), rng)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]))
