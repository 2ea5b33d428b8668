"""Indices of operators of which nothing comes are looked at, too, as onnxruntime does."""

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
CASES = {
    "ScatterND": ((0, 3), (1, 1), (1, 3), {}),
    "ScatterElements": ((0, 3), (1, 3), (1, 3), {"reduction": "add"}),
    "Gather": ((3, 0), (2,), None, {}),
}


def written(tmp_path, op, data, ids, new, constants=None, **fields):
    inputs = {"x": data, **({} if constants else {"ids": ids}), **({"new": new} if new else {})}
    made = model(
        [node(op, ["x", "ids", *(["new"] if new else [])], "y", **fields)], inputs, ["y"], constants, opset=24
    )
    for value in made.graph.input:
        if value.name == "ids":
            value.type.tensor_type.elem_type = TensorProto.INT64
    return save(tmp_path, made)


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("op", CASES)
def test_an_index_into_an_axis_of_nothing_or_of_empty_rows(tmp_path, op):
    data, ids, new, fields = CASES[op]
    path = written(tmp_path, op, data, ids, new, **fields)
    main = relax.VirtualMachine(build_model(path, {}, TARGET)[0], tvm.cpu())["main"]
    given = {"x": np.zeros(data, np.float32), "ids": np.full(ids, 3)}
    given |= {"new": np.ones(new, np.float32)} if new else {}
    with pytest.raises(IndexError, match=rf"node 'y' \({op}\) needs an index from .* given 3"):
        run(main, given)
    if op == "Gather":
        (empty,) = run(main, {**given, "ids": np.array([2, -3])})
        assert empty.shape == (2, 0)


def test_a_constant_index_into_an_axis_of_nothing(tmp_path):
    data, ids, new, _ = CASES["ScatterND"]
    path = written(tmp_path, "ScatterND", data, ids, new, {"ids": np.zeros(ids, np.int64)})
    with pytest.raises(ModelError, match=r"node 'y' \(ScatterND\) needs an index from 0 to -1"):
        build_model(path, {}, TARGET)


@pytest.mark.parametrize(
    ("cache", "update", "fields", "words"),
    [
        ((2, 3, 0, 4), (2, 3, 1, 4), {}, "writes 1 rows into an axis of 0"),
        ((2, 4, 4), (2, 4, 4), {"mode": "round"}, "has the mode 'round'; there are circular and linear"),
    ],
)
def test_updates_that_no_cache_has_room_for(tmp_path, cache, update, fields, words):
    made = model(
        [node("TensorScatter", ["x", "new"], "y", **fields)], {"x": cache, "new": update}, ["y"], opset=24
    )
    with pytest.raises(ModelError, match=rf"node 'y' \(TensorScatter\) {words}"):
        build_model(save(tmp_path, made), {}, TARGET)
