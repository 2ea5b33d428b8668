"""What a model computes by its own definition: onnxruntime without any optimisation, else onnx's reference.

Both run in a process of their own with a deadline: ``python -m tuner.backend.definition FOLDER``.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

Array = npt.NDArray[Any]

DEADLINE_S = 300.0
NUDGE = 1e-5
"""About what rounding does to the results of a layer."""
FAR = 5e-3
"""The most that a nudge of weights may say of an output, of its largest value."""
SATURATING = {
    *("ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"),
    *("QAttention", "QGemm", "QLinearConv", "QLinearMatMul"),
}
"""Operators of which onnxruntime adds up products in 16 bits where a processor has no better instruction."""
SHARES = {"Sigmoid", "Softmax", "Tanh", "Erf"}
"""Operators of results up to one, of which onnxruntime has each to some 1e-7, however small it is."""
_SAME = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"}
_MODEL, _FEEDS, _OTHER = "model.onnx", "feeds.npz", "other.onnx"
_NAMES, _VALUES, _NUDGED = "names", "values.npz", "nudged.npz"


class Undefined(Exception):
    """The definition could not be computed; the message says why."""


@dataclass(frozen=True)
class Definition:
    """The tensors that ``feeds`` lead to, and which library says so.

    ``nudged`` are the same when every float of the feeds is NUDGE of the largest away from what it is: what
    differs no more than that is as right as can be asked for, as rounding does that to all values. Where no
    input has floats, but data are quantized on the way, it is the floats of the constants. ``shares`` are the
    tensors that come out of one of SHARES.
    """

    values: dict[str, Array]
    nudged: dict[str, Array]
    by: str
    shares: frozenset[str] = frozenset()


def random_feeds(inputs: Mapping[str, tuple[tuple[int, ...], str]], seed: int = 0) -> dict[str, Array]:
    """Random values for inputs of these shapes and types.

    Integers of 8 and 16 bits take all values. Wider ones are mostly indices and lengths: those are 0 or 1,
    which are seldom out of range.
    """
    rng, feeds = np.random.default_rng(seed), {}
    for name, (shape, dtype) in inputs.items():
        kind = np.dtype(dtype)
        if kind.kind in "iu" and kind.itemsize <= 2:
            feeds[name] = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        elif kind.kind in "iub":
            feeds[name] = rng.integers(0, 2, shape).astype(kind)
        else:
            feeds[name] = rng.standard_normal(shape).astype(kind)
    return feeds


def define(
    model: ModelProto,
    feeds: Mapping[str, Array],
    more: Collection[str] = (),
    deadline_s: float = DEADLINE_S,
) -> Definition:
    """What the outputs of ``model``, and the tensors ``more``, are for ``feeds``.

    Raises Undefined, also when that takes longer than ``deadline_s``.
    """
    names = [value.name for value in model.graph.output]
    with tempfile.TemporaryDirectory(prefix="tilefleet-define-") as place:
        folder = Path(place)
        wanted = ModelProto()
        wanted.CopyFrom(model)
        wanted.graph.output.extend(ValueInfoProto(name=name) for name in more if name not in names)
        (folder / _MODEL).write_bytes(wanted.SerializeToString())
        np.savez(folder / _FEEDS, *feeds.values())
        (folder / _NAMES).write_text("\n".join(feeds))
        command = [sys.executable, "-P", "-m", "tuner.backend.definition", place]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=deadline_s, check=False)
        except subprocess.TimeoutExpired:
            raise Undefined(f"the model's definition was not computed within {deadline_s:g} s") from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise Undefined(f"the model's definition cannot be computed: {reason}")
        names += [name for name in more if name not in names]
        values, nudged = (dict(zip(names, _load(folder / file), strict=True)) for file in (_VALUES, _NUDGED))
    return Definition(values, nudged, done.stdout.strip(), _shares(model, names))


def _shares(model: ModelProto, names: Collection[str]) -> frozenset[str]:
    """Those of the tensors ``names`` that come out of one of SHARES, as it makes them."""
    makers = {name: node for node in model.graph.node for name in node.output}

    def is_share(name: str) -> bool:
        while name in makers and makers[name].op_type in _SAME:
            name = makers[name].input[0]
        return name in makers and makers[name].op_type in SHARES

    return frozenset(filter(is_share, names))


def main(folder: Path) -> None:
    """Compute what ``folder`` asks for, and print by which library."""
    names = (folder / _NAMES).read_text().splitlines()
    feeds = dict(zip(names, _load(folder / _FEEDS), strict=True))
    rng = np.random.default_rng(1)
    nudged = {name: nudge(value, rng) for name, value in feeds.items()}
    models = [folder / _MODEL] * 2
    model = onnx.load(folder / _MODEL)
    if all(value.dtype.kind != "f" for value in feeds.values()):
        models[1] = folder / _OTHER
        models[1].write_bytes(_nudge_constants(model, rng).SerializeToString())
    by, (values, others) = _evaluate([*zip(models, (feeds, nudged), strict=True)])
    if models[0] != models[1] and not _rounds_to_quanta(model):
        others = [_near(other, value) for other, value in zip(others, values, strict=True)]
    np.savez(folder / _VALUES, *values)
    np.savez(folder / _NUDGED, *others)
    print(by)


def _load(path: Path) -> list[Array]:
    with np.load(path) as file:
        return [file[name] for name in file.files]


_PRODUCTS = {"Conv", "ConvTranspose", "Gather", "Gemm", "MatMul"}


def nudge(value: Array, rng: np.random.Generator) -> Array:
    """Floats NUDGE of the largest away from what they are, up or down; all else as it is."""
    if value.dtype.kind != "f" or value.size == 0:
        return value
    step = NUDGE * float(np.abs(value).max())
    return np.asarray(value + step * rng.choice([-1.0, 1.0], value.shape)).astype(value.dtype)


def _near(other: Array, value: Array) -> Array:
    """``other``, no further from ``value`` than FAR of the largest: whatever a nudge of weights makes of it,
    an output that is wrong by more is wrong."""
    if other.dtype.kind != "f" or other.shape != value.shape or other.size == 0:
        return other
    most = FAR * float(np.nan_to_num(np.abs(value)).max())
    return np.where(np.isfinite(other - value), np.clip(other, value - most, value + most), value)


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


def _evaluate(runs: list[tuple[Path, dict[str, Array]]]) -> tuple[str, list[list[Array]]]:
    """Which library computes the models, and what it makes of each for its feeds."""
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        try:
            results = [_session(path).run(None, feeds) for path, feeds in runs]
            return f"onnxruntime {onnxruntime.__version__}", results
        except Exception as error:  # what it does not know, onnx itself may
            print(str(error).splitlines()[0], file=sys.stderr)
    from onnx.reference import ReferenceEvaluator

    found: list[Any] = [ReferenceEvaluator(onnx.load(path)).run(None, feeds) for path, feeds in runs]
    return f"onnx {onnx.__version__}", [[np.asarray(value) for value in result] for result in found]


def _session(path: Path) -> Any:
    """onnxruntime's session of the model at ``path``."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if any(node.op_type in SATURATING for node in onnx.load(path).graph.node):
        # An optimisation alone makes these sums exact on all processors.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
