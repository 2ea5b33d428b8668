"""The transforms of Winograd on x86, checked as the identity that they are."""

import numpy as np
import pytest

from kernels.int8.arm.winograd.points import Points
from kernels.int8.x86.winograd.axis import AXES, both


def same(value):
    return value


@pytest.mark.parametrize("results", AXES)
def test_every_product_of_tap_and_data_ends_where_it_belongs(results):
    """All is linear, so this proves it: the coefficient of each tap times each datum, in each result."""
    axis = AXES[results]
    back = np.array(axis.backward(np.eye(axis.points, dtype=np.int64), same))
    found = np.einsum("rp,pt,pd->rtd", back, np.array(axis.filters), axis.data)
    expected = np.zeros_like(found)
    for result in range(results):
        for tap in range(3):
            expected[result, tap, result + tap] = axis.odd << axis.loss
    assert np.array_equal(found, expected)
    assert abs(axis.data).sum(1).max() == axis.gains[0] == {2: 2, 4: 10}[results]
    # The same points as on Arm, each filter scaled.
    points = Points(axis.points, 3)
    for row, other in zip(np.array(axis.filters), points.filters, strict=True):
        assert np.linalg.matrix_rank([row, other]) == 1


@pytest.mark.parametrize("results", AXES)
def test_no_step_of_the_data_leaves_int16(results):
    """In both passes and at all ends: LLVM may count on it, for what TVM adds is said not to overflow."""
    axis = AXES[results]
    largest = 0

    def seen(value):
        nonlocal largest
        largest = max(largest, int(abs(value).sum(-1).max()) * 128)
        return value

    # The coefficients of every datum in every step are as an identity shows them.
    lines = np.eye(axis.points**2, dtype=np.int64).reshape(axis.points, axis.points, -1)
    both(axis.forward, axis.forward, lines, seen)
    assert largest == axis.gains[0] ** 2 * 128 < 1 << 15


def test_axes_may_differ():
    """A 4x2 tile of random numbers against the direct sum, modulo 2^32 as the code computes it."""
    rng = np.random.default_rng(3)
    down, across = AXES[4], AXES[2]
    for _ in range(50):
        data = rng.choice([-128, 127], (6, 4)).astype(np.int64)
        taps = rng.choice([-128, 127], (3, 3)).astype(np.int64)
        direct = [[(data[i : i + 3, j : j + 3] * taps).sum() for j in range(2)] for i in range(4)]
        transformed = np.array(both(down.forward, across.forward, data, same))
        filters = np.array(down.filters) @ taps @ np.array(across.filters).T
        wrapped = (transformed * filters * 1_000_003).astype(np.int32)  # as if of many channels
        found = np.array(both(down.backward, across.backward, wrapped.astype(np.int64), same))
        odd, loss = down.odd * across.odd, down.loss + across.loss
        scaled = (found * pow(odd, -1, 1 << 32)).astype(np.int32)
        expected = (np.array(direct) * 1_000_003 << loss).astype(np.int32)
        assert np.array_equal(scaled, expected)
