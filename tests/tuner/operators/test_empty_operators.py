"""Every operator on what has no elements, as onnxruntime or onnx's reference has it."""

import zlib

import elementwise
import layers
import moves
import numpy as np
import pytest
import recurrent
import reductions
import tvm
from empty import defined, variants
from one_operator import TARGET
from tvm import relax

from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TABLES = (elementwise, layers, moves, recurrent, reductions)
EVERY = 40
OTHER = {"RNN"}
"""Of no steps at all onnxruntime hands on zeros, not the state that it was given."""


def chosen():
    """Some of all variants, the same in every run."""
    rows = [row for table in TABLES for row in table.CASES if not row.refused and row.op not in OTHER]
    found = (each for row in rows for each in variants(row))
    return [row for row in found if zlib.crc32(str(row).encode()) % EVERY == 0]


@pytest.fixture(scope="module")
def definitions():
    return defined(chosen())


def same(value, right):
    if (value.dtype, value.shape) != (right.dtype, right.shape):
        return False
    return np.allclose(np.float64(value), np.float64(right), rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("row", chosen(), ids=str)
def test_an_axis_of_no_extent(tmp_path, row, definitions):
    expected = definitions.get(str(row))
    if not expected:
        pytest.skip("neither onnxruntime nor onnx computes it")
    path = tmp_path / "model.onnx"
    path.write_bytes(row.model().SerializeToString())
    executable, _ = build_model(path, {}, TARGET)
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], row.arrays)
    assert any(all(map(same, found, map(np.asarray, each))) for each in expected)
