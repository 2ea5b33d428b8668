"""What each runtime needs before it can load a model: which are installed, and the file that each reads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onnx import ModelProto

from compiler.ir.checks import nested
from compiler.readers.model_file import is_tflite
from tuner.runtimes.engines import LOAD, Array, Engine, Unable

PACKAGES = {
    "onnxruntime": "onnxruntime",
    "litert": "ai_edge_litert",
    "openvino": "openvino",
    "ncnn": "ncnn",
    "mnn": "MNN",
}
CONVERT_S = 300
FOREIGN = ("openvino", "ncnn", "mnn")
"""The libraries that say of no model what it should compute."""
_MNN = "import sys, MNN, _tools; _tools.mnnconvert(sys.argv)"
"""The command of its package installs another package as it is imported, and reports its use over the net."""


def installed() -> dict[str, str]:
    """The version of each library that is here, by its name; ncnn reads ONNX by pnnx, and needs that too."""
    here = {
        name: _version(package) for name, package in PACKAGES.items() if importlib.util.find_spec(package)
    }
    if importlib.util.find_spec("pnnx") is None:
        here.pop("ncnn", None)
    return here


def load(name: str, path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Engine:
    """A library with the model at ``path``, which is ``model`` with its shapes fixed, on one thread.

    Raises Unable, or what the library raises.
    """
    return LOAD[name](prepared(name, path, model, feeds, folder), feeds, 1)


def prepared(name: str, path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    """The file that the library ``name`` reads, in ``folder`` unless it is ``path`` itself; raises Unable."""
    return _PREPARE[name](path, model, feeds, folder)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _written(model: ModelProto, folder: Path) -> Path:
    to = folder / "model.onnx"
    if not to.exists():
        to.write_bytes(model.SerializeToString())
    return to


def _onnxruntime(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    if is_tflite(path):
        raise Unable("reads no TFLite")
    # With shapes fixed, the branch that is not taken may fit none.
    branches = any(list(nested(node)) for node in model.graph.node)
    return path if branches else _written(model, folder)


def _litert(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    if not is_tflite(path):
        raise Unable("reads no ONNX")
    return path


def _openvino(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    return path if is_tflite(path) else _written(model, folder)


def _ncnn(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    """As ncnn's own converter pnnx reads it."""
    if is_tflite(path):
        raise Unable("reads no TFLite")
    if any(value.dtype.kind != "f" for value in feeds.values()):
        raise Unable("inputs that are no floats")
    spec = importlib.util.find_spec("pnnx")
    if spec is None or spec.origin is None:
        raise Unable("its converter pnnx is not installed")
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    shapes = ",".join(f"[{','.join(map(str, value.shape))}]" for value in feeds.values())
    # Its package needs torch to be imported; the program does not.
    command = [str(Path(spec.origin).with_name("pnnx")), "net.onnx", f"inputshape={shapes}", "fp16=0"]
    return _converted(command, folder, folder / "net.ncnn.param")


def _mnn(path: Path, model: ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    """As MNN's own converter reads it."""
    kind = "TFLITE" if is_tflite(path) else "ONNX"
    source, to = path if is_tflite(path) else _written(model, folder), folder / "net.mnn"
    words = ["-f", kind, "--modelFile", str(source), "--MNNModel", str(to), "--bizCode", "net"]
    return _converted([sys.executable, "-P", "-c", _MNN, *words], folder, to)


def _converted(command: list[str], folder: Path, to: Path) -> Path:
    """``to``, which ``command`` writes."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=CONVERT_S,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    except subprocess.TimeoutExpired:
        raise Unable(f"its converter takes more than {CONVERT_S} s") from None
    if done.returncode or not to.exists():
        raise Unable("its converter fails")
    return to


_PREPARE: dict[str, Callable[[Path, ModelProto, Mapping[str, Array], Path], Path]] = {
    "onnxruntime": _onnxruntime,
    "litert": _litert,
    "openvino": _openvino,
    "ncnn": _ncnn,
    "mnn": _mnn,
}
