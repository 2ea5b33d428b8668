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
from one_operator import TARGET, Constant, case, const
from onnx.shape_inference import infer_shapes
from tvm import relax

from compiler.ir.checks import ModelError
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

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
        return len({tuple(np.delete(each.shape, attributes.get("axis", 1))) for each in arrays}) > 1
    if row.op == "Attention":
        return not row.inputs[2].shape[-1]
    return row.op in ("ArgMax", "ArgMin", "ReduceMean") and 0 in first.shape


def of_nothing(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


ALWAYS = [
    *(
        case("Attention", of_nothing(2, 0, 4, 8), *[of_nothing(2, heads, 4, 8)] * 2, opset=23)
        for heads in (0, 6)
    ),
    *(
        case(
            "DequantizeLinear",
            each(of_nothing(0, 7, dtype=np.int8)),
            *map(Constant, operands),
            opset=21,
            **attributes,
        )
        for each in (Constant, np.array)
        for operands, attributes in (
            ([of_nothing(0, 3), of_nothing(0, 3, dtype=np.int8)], {"block_size": 3}),
            ([of_nothing(0)], {"axis": 0}),
        )
    ),
    *(
        case("Resize", of_nothing(0, 2, 5, 6), None, None, sizes, keep_aspect_ratio_policy=policy, **axes)
        for policy in ("stretch", "not_larger", "not_smaller")
        for sizes, axes in ((const(7, 8), {"axes": [2, 3]}), (const(2, 8, 7), {"axes": [1, 3, 2]}))
    ),
    case("Resize", of_nothing(0, 2, 5, 6), None, None, const(0, 2, 7, 8)),
    case(
        "Resize", of_nothing(1, 2, 0, 6), None, None, const(1, 2, 7, 8), keep_aspect_ratio_policy="not_larger"
    ),
]
"""Rows of kinds that the tables do not have, which every run takes."""


def suppressed(threshold):
    """The inputs of a NonMaxSuppression with this score threshold."""
    boxes, scores = np.zeros((1, 3, 4), np.float32), np.zeros((1, 1, 3), np.float32)
    return boxes, scores, const(2), Constant(np.array([0.5], np.float32)), Constant(threshold)


MISTAKES = [
    (
        case(
            "DequantizeLinear", np.ones((4, 7), np.int8), Constant(of_nothing(4, 0)), opset=21, block_size=3
        ),
        r"\(DequantizeLinear\) has scales .* too few for 7 elements",
    ),
    (
        case("DequantizeLinear", np.ones((2, 7), np.int8), Constant(of_nothing(0)), opset=21, axis=0),
        r"\(DequantizeLinear\) has scales without elements",
    ),
    (
        case("Resize", of_nothing(1, 2, 0, 6), None, None, const(7, 8), axes=[2, 3]),
        r"\(Resize\) makes 7 elements along axis 2 of data without elements",
    ),
    (
        case(
            *("Resize", of_nothing(1, 2, 0, 6), None, None, const(7, 8)),
            axes=[2, 3],
            keep_aspect_ratio_policy="not_smaller",
        ),
        r"\(Resize\) has no scale for an axis without elements",
    ),
    *(
        (
            case("NonMaxSuppression", *suppressed(each)),
            rf"\(NonMaxSuppression\) has the limit '.*' {words}, and needs one number",
        )
        for each, words in ((of_nothing(0), "without elements"), (np.ones(2, np.float32), "2 elements"))
    ),
    (
        case("Attention", np.ones((2, 6, 4, 8), np.float32), *[of_nothing(2, 0, 4, 8)] * 2, opset=23),
        "'node' .*cannot reshape",
    ),
]
"""Rows that no library computes, and what is said of each."""


def chosen(every):
    """One of ``every`` variants, the same in every run."""
    rows = [row for table in TABLES for row in table.CASES if not row.refused]
    found = (each for row in rows for each in variants(row) if not is_other(each))
    return [row for row in found if zlib.crc32(str(row).encode()) % every == 0]


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        every = 1 if metafunc.config.getoption("--all-operators") else EVERY
        metafunc.parametrize("row", [*chosen(every), *ALWAYS], ids=str)


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


def test_what_no_library_computes_is_refused_by_name(tmp_path):
    path = tmp_path / "model.onnx"
    for row, said in MISTAKES:
        path.write_bytes(row.model().SerializeToString())
        with pytest.raises(ModelError, match=said):
            build_model(path, {}, TARGET)


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
