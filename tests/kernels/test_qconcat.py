import numpy as np
import pytest
from operators_guarded import check, random_bytes

from kernels.operators.int8.concat import QConcat


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((1, 64, 9, 9), (1, 96, 9, 9), (1, 5, 9, 9)), 1),
        (((2, 300, 5, 5), (2, 1, 5, 5)), 1),
        (((1, 32, 40, 41), (1, 48, 40, 41)), 1),
        (((1, 8, 3, 5), (1, 8, 4, 5)), 2),
        (((1, 8, 3, 5), (1, 8, 3, 1)), 3),
        (((1, 8, 3, 5), (2, 8, 3, 5)), 0),
        (((3, 5), (3, 70)), 1),
        (((70000,), (3,)), 0),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_tensors_lie_side_by_side(shapes, axis, dtype):
    rng = np.random.default_rng()
    inputs = [random_bytes(shape, dtype, rng) for shape in shapes]
    for threads in (1, 3):
        check(QConcat(shapes, axis, dtype), inputs, threads)


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="cannot be put together"):
        QConcat(((1, 2, 3), (1, 2, 4)), 1, "int8")


@pytest.mark.parametrize("shapes", [((0, 3), (0, 4)), ((2, 3), (2, 0)), ((1, 0, 4, 4), (1, 0, 4, 4))])
def test_empty_tensors_are_refused(shapes):
    with pytest.raises(ValueError, match="must not be empty"):
        QConcat(shapes, 1, "int8")
