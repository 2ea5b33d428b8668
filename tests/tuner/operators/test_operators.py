"""Every operator alone: right, or refused by its name."""

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


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("row", [row for table in TABLES for row in table.CASES], ids=str)
def test_a_model_of_one_operator_is_right_or_refused(tmp_path, row):
    check(row, tmp_path)
