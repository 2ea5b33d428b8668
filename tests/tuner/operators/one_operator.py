"""Models of one operator each: what we build of one computes what ONNX says, or is refused by its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.runtimes.engines import onnx_session

TARGET = CATALOGUE["x86-avx2"]
REFERENCE_FAILS = (
    onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented,
    onnxruntime.capi.onnxruntime_pybind11_state.Fail,
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph,
)
"""What onnxruntime raises where it has no kernel."""


@dataclass(frozen=True)
class Constant:
    """An input whose value the model has."""

    value: Any


@dataclass(frozen=True)
class Case:
    """One operator with its inputs: arrays, constants or None for one left out.

    What ``judge`` computes is right where nothing else computes the row itself.
    """

    op: str
    inputs: tuple[Any, ...]
    opset: int = 18
    outputs: int = 1
    refused: bool = False
    judge: Case | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{self.op}-{self.opset}"]
        for value in self.inputs:
            array = value.value if isinstance(value, Constant) else value
            words.append("none" if array is None else f"{array.dtype}{list(array.shape)}".replace(" ", ""))
        words += [f"{name}={getattr(value, 'name', value)}" for name, value in self.attributes.items()]
        return " ".join(words)

    @property
    def arrays(self) -> dict[str, Any]:
        """What the model is given."""
        return {f"x{i}": value for i, value in enumerate(self.inputs) if isinstance(value, np.ndarray)}

    def model(self) -> ModelProto:
        """The model; types and shapes of its outputs are onnx's to infer."""
        names = ["" if value is None else f"x{i}" for i, value in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        constants = [
            numpy_helper.from_array(value.value, name)
            for name, value in zip(names, self.inputs, strict=True)
            if isinstance(value, Constant)
        ]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in self.arrays.items()
        ]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, outputs, name="node", **self.attributes)],
            "one",
            inputs,
            [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
            constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
        for value, found in zip(made.graph.output, inferred.graph.output, strict=True):
            kind = found.type.tensor_type.elem_type or TensorProto.FLOAT
            value.type.tensor_type.elem_type = kind
        return made


def case(
    op: str,
    *inputs: Any,
    opset: int = 18,
    outputs: int = 1,
    refused: bool = False,
    judge: Case | None = None,
    **attributes: Any,
) -> Case:
    """A row of a table."""
    return Case(op, inputs, opset, outputs, refused, judge, attributes)


def const(*values: Any, dtype: Any = np.int64) -> Constant:
    """A vector that the model has."""
    return Constant(np.array(values, dtype))


def reals(*values: float) -> Constant:
    """A vector of float32 that the model has."""
    return const(*values, dtype=np.float32)


def scalar(value: Any, dtype: Any = np.float32) -> Constant:
    """A number that the model has."""
    return Constant(np.array(value, dtype))


def floats(*shape: int, dtype: Any = np.float32, seed: int = 1) -> Any:
    """Random values of both signs."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def positive(*shape: int, dtype: Any = np.float32) -> Any:
    """Random values between a half and two."""
    return np.random.default_rng(3).uniform(0.5, 2, shape).astype(dtype)


def integers(*shape: int, low: int = -5, high: int = 6, dtype: Any = np.int64, seed: int = 2) -> Any:
    """Random integers, not all alike."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def truths(*shape: int, seed: int = 4) -> Any:
    """Random booleans."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def reference(row: Case) -> list[Any]:
    """What onnxruntime computes without its rewrites, or onnx's reference where that has no kernel."""
    model = row.model()
    try:
        session = onnx_session(model.SerializeToString(), 1, optimised=False)
    except REFERENCE_FAILS:
        return list(ReferenceEvaluator(model).run(None, row.arrays))
    return list(session.run(None, row.arrays))


def check(row: Case, folder: Path) -> None:
    """Fails where our module differs from ONNX, or a refusal does not name the operator in one line.

    What can be built must be accepted before.
    """
    path = folder / "model.onnx"
    path.write_bytes(row.model().SerializeToString())
    if row.refused:
        with pytest.raises(ModelError, match=row.op) as refusal:
            build_model(path, {}, TARGET)
        assert "\n" not in str(refusal.value)
        return
    extract(path)
    executable, _ = build_model(path, {}, TARGET)
    results = run(relax.VirtualMachine(executable, tvm.cpu())["main"], row.arrays)
    for result, expected in zip(results, reference(row.judge or row), strict=True):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        if result.dtype.kind == "f":
            wide = np.float64(expected)
            limit = {2: 4e-3, 4: 2e-5, 8: 1e-7}[result.dtype.itemsize]
            np.testing.assert_allclose(np.float64(result), wide, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(result, expected)
