"""Every operator alone: right, or refused by its name."""

from pathlib import Path

import elementwise
import layers
import moves
import pytest
import recurrent
import reductions
import resizes
import windows
from one_operator import check

TABLES = (elementwise, layers, moves, recurrent, reductions, resizes, windows)


@pytest.fixture(autouse=True)
def avx2():
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")


@pytest.mark.parametrize("row", [row for table in TABLES for row in table.CASES], ids=str)
def test_a_model_of_one_operator_is_right_or_refused(tmp_path, row):
    check(row, tmp_path)
