"""The libraries that a model is timed beside, those that are installed: callables over the same feeds."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from bench.corpus.references import is_tflite
from bench.peers import onnx_session
from tuner.backend.definition import Array
from tuner.frontend.onnx_check import nested

PACKAGES = {"onnxruntime": "onnxruntime", "litert": "ai_edge_litert", "openvino": "openvino", "ncnn": "ncnn"}
CONVERT_S = 300


@dataclass(frozen=True)
class Peer:
    """``run`` computes once; ``outputs`` gives what it computed, in the model's order."""

    run: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]


class Unable(Exception):
    """A library cannot compute a model; the message says why."""


Make = Callable[[Path, ModelProto, Mapping[str, Array], Path], Peer]


def installed() -> dict[str, str]:
    """The version of each library that is here, by its name; ncnn reads ONNX by pnnx, and needs that too."""
    here = {
        name: _version(package) for name, package in PACKAGES.items() if importlib.util.find_spec(package)
    }
    if importlib.util.find_spec("pnnx") is None:
        here.pop("ncnn", None)
    return here


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def onnxruntime(path: Path, model: ModelProto, feeds: Mapping[str, Array], _: Path) -> Peer:
    """onnxruntime with its own optimisations, shapes fixed as they are for us."""
    if is_tflite(path):
        raise Unable("reads no TFLite")
    # With shapes fixed, the branch that is not taken may fit none.
    branches = any(list(nested(node)) for node in model.graph.node)
    session: Any = onnx_session(str(path) if branches else model.SerializeToString(), 1)

    def run() -> list[Array]:
        found: list[Array] = session.run(None, feeds)
        return found

    return Peer(run, run)


def litert(path: Path, _: ModelProto, feeds: Mapping[str, Array], __: Path) -> Peer:
    """LiteRT with XNNPACK."""
    if not is_tflite(path):
        raise Unable("reads no ONNX")
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    details = interpreter.get_output_details()

    def outputs() -> list[Array]:
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in details]

    return Peer(interpreter.invoke, outputs)


def openvino(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Peer:
    """OpenVINO on one thread, floats of 32 bits as for all others."""
    import openvino as library

    source = path
    if not is_tflite(path):
        source = folder / "model.onnx"
        source.write_bytes(model.SerializeToString())
    core = library.Core()
    settings = {
        "INFERENCE_NUM_THREADS": "1",
        "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(core.read_model(str(source)), "CPU", settings).create_infer_request()
    for port in request.model_inputs:
        name = next((each for each in port.get_names() if each in feeds), None)
        if name is None:
            raise Unable(f"it calls an input {sorted(port.get_names())}")
        request.set_tensor(port, library.Tensor(np.ascontiguousarray(feeds[name]), shared_memory=False))

    def outputs() -> list[Array]:
        request.infer()
        return [request.get_output_tensor(index).data for index in range(len(request.model_outputs))]

    return Peer(request.infer, outputs)


def ncnn(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Peer:
    """ncnn on one thread, floats of 32 bits, the model as ncnn's own converter pnnx reads it."""
    if is_tflite(path):
        raise Unable("reads no TFLite")
    if any(value.dtype.kind != "f" for value in feeds.values()):
        raise Unable("inputs that are no floats")
    import ncnn as library

    spec = importlib.util.find_spec("pnnx")
    assert spec is not None
    assert spec.origin is not None
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    shapes = ",".join(f"[{','.join(map(str, value.shape))}]" for value in feeds.values())
    # Its package needs torch to be imported; the program does not.
    command = [str(Path(spec.origin).with_name("pnnx")), "net.onnx", f"inputshape={shapes}", "fp16=0"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CONVERT_S, check=False)
    if done.returncode or not (folder / "net.ncnn.param").exists():
        raise Unable("its converter fails")
    net = library.Net()
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(str(folder / "net.ncnn.param")) or net.load_model(str(folder / "net.ncnn.bin")):
        raise Unable("it does not load what its converter wrote")
    tensors = [
        library.Mat(np.ascontiguousarray(value[0] if value.ndim > 1 else value)) for value in feeds.values()
    ]
    inputs, names = net.input_names(), net.output_names()

    def outputs() -> list[Array]:
        with net.create_extractor() as extractor:
            for name, tensor in zip(inputs, tensors, strict=True):
                extractor.input(name, tensor)
            found = [extractor.extract(name) for name in names]
        if any(code for code, _ in found):
            raise Unable("it cannot compute it")
        return [np.array(value) for _, value in found]

    return Peer(outputs, outputs)


MAKE: dict[str, Make] = {"onnxruntime": onnxruntime, "litert": litert, "openvino": openvino, "ncnn": ncnn}
