"""One of the ``onnx`` package's own tests, built and run in a disposable child."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from tvm import relax

from compiler.ir.checks import ModelError
from tuner.backend.apply import build_model
from worker.measure.host import host_target

STEPS = {"bfloat16": 2.0**-7, "float16": 2.0**-9}
"""Two neighbouring numbers on, relatively: where it is computed in float32, the last bits may differ."""
SPECTRA, SUMMED = ("DFT", "STFT"), 1e-6
"""Sums of many terms, relatively to their greatest: what others nearly cancel is no better known."""
OTHERWISE = {
    "test_resize_downsample_scales_cubic_align_corners": "extents are rounded first, as onnxruntime does",
    "test_resize_downsample_scales_linear_align_corners": "extents are rounded first, as onnxruntime does",
}
"""Tests that contradict what models are made and run with; and what is done instead."""


def _load() -> dict[str, Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


CASES = _load()
"""All tests by name. Loaded once, before children are forked."""
TARGET = host_target()


def run(payload: dict[str, Any]) -> dict[str, str]:
    """Child: the test ``name``; of ``form`` ``constants`` all inputs but the first are constants.

    Returns ``{"verdict": "right", "refused", "otherwise" or "wrong", "reason"}``.
    """
    case = CASES[payload["name"]]
    if case.name in OTHERWISE:
        return {"verdict": "otherwise", "reason": OTHERWISE[case.name]}
    inputs, expected = ([*map(array, values)] for values in case.data_sets[0])
    model = ModelProto()
    model.CopyFrom(case.model)
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, inputs, strict=False))
    unknown = next((name for name, value in feeds.items() if not isinstance(value, np.ndarray)), None)
    if unknown is not None:
        return {"verdict": "refused", "reason": f"input {unknown!r} is no tensor"}
    if payload["form"] == "constants":
        for name in names[1:]:
            model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            executable, _ = build_model(path, {}, TARGET)
        except ModelError as error:
            return {"verdict": "refused", "reason": str(error)}
    os.environ["TVM_NUM_THREADS"] = "1"
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(value) for value in feeds.values()))
    results = [result] if hasattr(result, "numpy") else [*result]
    summed = any(node.op_type in SPECTRA for node in case.model.graph.node)
    atol = max(case.atol, SUMMED * float(np.abs(expected[0]).max())) if summed else case.atol
    reason = _difference([value.numpy() for value in results], expected, case.rtol, atol)
    return {"verdict": "wrong" if reason else "right", "reason": reason}


def array(value: Any) -> Any:
    """Numbers and tensors as arrays; whatever else tests have as it is."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _difference(results: list[Any], expected: list[Any], rtol: float, atol: float) -> str:
    """What the first wrong output is like; empty when all are right by the test's own tolerance."""
    if len(results) != len(expected):
        return f"{len(results)} outputs for {len(expected)}"
    for place, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"output {place} is {ours.dtype}{[*ours.shape]} for {theirs.dtype}{[*theirs.shape]}"
        if theirs.dtype.name in STEPS:
            step = STEPS[theirs.dtype.name]
            ours, theirs = np.float32(ours), np.float32(theirs)
            atol = max(atol, step * float(np.nanmax(np.abs(theirs), initial=0.0)))
        if theirs.dtype.kind == "f" and not np.allclose(ours, theirs, rtol, atol, equal_nan=True):
            error = np.nanmax(np.abs(np.float64(ours) - np.float64(theirs)), initial=0.0)
            return f"output {place} differs by up to {error:.2g}"
        if theirs.dtype.kind != "f" and not np.array_equal(ours, theirs):
            return f"output {place} differs in {np.count_nonzero(ours != theirs)} of {theirs.size} elements"
    return ""
