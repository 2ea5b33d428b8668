"""The C libraries of single operators under AddressSanitizer and UBSan: no input makes them touch what is not
theirs. ``--all-operators`` runs every one of the tables, which takes half an hour."""

import elementwise
import layers
import moves
import numpy as np
import pytest
import recurrent
import reductions
import resizes
import windows
from one_operator import case, const
from sanitized import run_sanitized

from compiler.ir.checks import ModelError
from compiler.lower.operators import bounds

TABLES = (elementwise, layers, moves, recurrent, reductions, resizes, windows)
EVERY = [row for table in TABLES for row in table.CASES if row.arrays and not row.refused]
X, ROIS = np.ones((2, 3, 8, 8), np.float32), np.float32([[0, 0, 4, 4], [1, 1, 6, 5]])
SOME = [
    case("Gather", X, np.array([[0, 1, -1]]), axis=2),
    case("Gather", X[0, :0], np.array([1])),
    case("GatherElements", X[0, 0], np.array([[0, 1, 7, -1, 3]]), axis=1),
    case("GatherND", X, np.array([[0, 2, 7], [1, -1, 0]])),
    case("ScatterND", X[0, 0], np.array([[0], [7], [-1]]), X[0, 0, :3]),
    case("RoiAlign", X, ROIS, np.array([0, 1]), output_height=2, output_width=2, sampling_ratio=2),
    case("MaxUnpool", X[:1, :1, :2, :2], np.array([[[[0, 3], [8, 15]]]]), kernel_shape=[2, 2],
         strides=[2, 2]),
    case("GridSample", X, np.zeros((2, 3, 3, 2), np.float32), opset=20, mode="linear"),
    case("LSTM", X[0], *(np.full(shape, 0.1, np.float32) for shape in ((1, 16, 8), (1, 16, 4), (1, 32))),
         np.int32([3, 2, 1, 3, 3, 0, 1, 2]), hidden_size=4),
    case("TopK", X[0, 0], const(3), outputs=2),
    case("Div", np.arange(37, dtype=np.int32), np.arange(1, 38, dtype=np.int32)),
    # Its planes are put beside each other, the first one from before the image.
    case("ConvTranspose", np.zeros((1, 2, 5, 6, 4), np.float32), np.ones((2, 3, 3, 2, 2), np.float32),
         strides=[2, 1, 2], pads=[1, 0, 0, 1, 1, 0], output_padding=[1, 0, 1]),
]  # fmt: skip
"""Those of a kind each that data tell where to read or to write, or how often."""


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        rows = EVERY if metafunc.config.getoption("--all-operators") else SOME
        metafunc.parametrize("row", rows, ids=str)


@pytest.mark.usefixtures("avx2")
@pytest.mark.timeout(300)
def test_it_touches_nothing_but_its_own(tmp_path, row):
    try:
        run_sanitized(row, tmp_path)
    except ModelError as reason:
        pytest.skip(f"no C library is made of it: {reason}")


@pytest.mark.usefixtures("avx2")
def test_an_index_that_nobody_looks_at_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "bound_of", lambda *_: None)
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        run_sanitized(SOME[0], tmp_path)
