"""Every operator on what has no elements, as onnxruntime or onnx's reference has it.

Some of all variants; ``--all-operators`` runs every one, which takes half an hour.
"""

import os
import re
import time
import zlib
from itertools import islice

import elementwise
import empty
import layers
import moves
import numpy as np
import pytest
import recurrent
import reductions
import resizes
import tvm
import windows
from empty import defined, variants
from one_operator import TARGET
from onnx.shape_inference import infer_shapes
from tvm import relax

from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.frontend.onnx_check import ModelError

TABLES = (elementwise, layers, moves, recurrent, reductions, resizes, windows)
EVERY = 58
REFUSED = "shapes do not fit together|without elements|window of .* larger than|(boxes|lens|lengths) of"
"""Words of refusals of what is no input, which some library computes in its way."""
STEPS = ("GRU", "LSTM", "RNN")


def is_other(row):
    """Whether ONNX says something else, or nothing, where these compute something.

    Of no steps at all onnxruntime hands on zeros, not the state that it was given, and whatever was in memory
    for the cell, and it ends where data have no width; it joins what does not fit together. onnx's reference
    finds places where there are none, and a mean that is not onnxruntime's; it alone attends to values of no
    size.
    """
    first, attributes = row.inputs[0], row.attributes
    if row.op in STEPS:
        given = row.op == "LSTM" or any(each is not None for each in row.inputs[5:7])
        return not first.shape[-1] or (given and not first.shape[attributes.get("layout", 0)])
    if row.op == "Concat":
        arrays = [getattr(each, "value", each) for each in row.inputs]
        return len({tuple(np.delete(each.shape, attributes["axis"])) for each in arrays}) > 1
    if row.op == "Attention":
        return not row.inputs[2].shape[-1]
    return row.op in ("ArgMax", "ArgMin", "ReduceMean") and 0 in first.shape


def chosen(every):
    """One of ``every`` variants, the same in every run."""
    rows = [row for table in TABLES for row in table.CASES if not row.refused]
    found = (each for row in rows for each in variants(row) if not is_other(each))
    return [row for row in found if zlib.crc32(str(row).encode()) % every == 0]


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        every = 1 if metafunc.config.getoption("--all-operators") else EVERY
        metafunc.parametrize("row", chosen(every), ids=str)


@pytest.fixture(scope="module")
def definitions(request):
    """What is right of each row that is run."""
    ours = (each for each in request.session.items if "definitions" in getattr(each, "fixturenames", ()))
    return defined([each.callspec.params["row"] for each in ours])


def same(value, right):
    if (value.dtype, value.shape) != (right.dtype, right.shape):
        return False
    return np.allclose(np.float64(value), np.float64(right), rtol=1e-3, atol=1e-3, equal_nan=True)


def fits(results, row):
    """Whether they have the shapes that onnx infers."""
    outputs = infer_shapes(row.model()).graph.output
    shapes = [[dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in outputs]
    return [list(np.shape(each)) for each in results] == shapes


@pytest.mark.usefixtures("avx2")
@pytest.mark.timeout(300, func_only=True)  # what is right of all rows is computed before the first
def test_an_axis_of_no_extent(tmp_path, row, definitions):
    expected = [each for each in definitions.get(str(row), []) if fits(each, row)]
    if not expected:
        pytest.skip("neither onnxruntime nor onnx computes it")
    path = tmp_path / "model.onnx"
    path.write_bytes(row.model().SerializeToString())
    try:
        executable, _ = build_model(path, {}, TARGET)
    except ModelError as error:
        if re.search(REFUSED, str(error)):
            pytest.skip(str(error))
        raise
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], row.arrays)
    assert any(all(map(same, found, map(np.asarray, each))) for each in expected)


def test_a_library_that_ends_or_hangs_is_left_behind(monkeypatch):
    """It costs a row and its time, and tells nobody a stack of calls."""
    rows = [*islice((each for row in elementwise.CASES for each in variants(row)), 4)]

    def define(row):
        if row is rows[1]:
            os.abort()
        if row is rows[2]:
            time.sleep(3600)
        return [np.zeros(0)]

    monkeypatch.setattr(empty, "reference", define)
    monkeypatch.setattr(empty, "_by_onnx", define)
    assert set(defined(rows, each_s=1.0)) == {str(rows[0]), str(rows[3])}
