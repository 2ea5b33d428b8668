"""Integer Winograd in one dimension: right for numbers of all sizes, also where sums wrap."""

import numpy as np
import pytest

from kernels.int8.arm.winograd.points import PAIRS, WORD, Points


def wrapped(value):
    """As int32 holds it."""
    return (int(value) + WORD // 2) % WORD - WORD // 2


@pytest.mark.parametrize("count", PAIRS)
@pytest.mark.parametrize("taps", range(2, 8))
def test_results_are_exact_though_sums_wrap(count, taps):
    if taps >= count:
        return
    points, rng = Points(count, taps), np.random.default_rng(count * taps)
    room = (1 << 31 - points.loss) - 1
    wraps = 0
    for point in range(count):
        filters, data = rng.integers(-127, 128, (2000, taps)), rng.integers(-255, 256, (2000, count))
        # Some are as large as can be at one point.
        filters[:400], data[:400] = 127 * np.sign(points.filters[point]), 255 * np.sign(points.data[point])
        exact = [int((filters * data[:, k : k + taps]).sum()) for k in range(points.results)]
        sums = ((filters @ points.filters.T) * (data @ points.data.T)).sum(axis=0)
        wraps += sum(wrapped(value) != value for value in sums)
        for row, expected in zip(points.results_matrix, exact, strict=True):
            assert abs(expected) <= room
            found = sum(c * wrapped(value) for c, value in zip(row, sums, strict=True))
            assert wrapped(found) >> points.loss == expected
    assert wraps or (count, taps) < (8, 3)


@pytest.mark.parametrize("count", PAIRS)
def test_pairs_differ_in_every_second_sign(count):
    points = Points(count, 3)
    signs = (-1) ** np.arange(count)
    for at in range(1, count - 1, 2):
        assert np.array_equal(points.data[at + 1], points.data[at] * signs)
        for k, row in enumerate(points.results_matrix):
            assert row[at + 1] == (-1) ** k * row[at] % WORD
    assert not points.data[0][1::2].any()
    assert not points.data[-1][::2].any()


def test_six_points_are_those_of_f43():
    """The matrices that everyone knows, up to the scale of rows."""
    points = Points(6, 3)
    assert points.data.tolist()[0] == [4, 0, -5, 0, 1, 0]
    assert points.filters.tolist()[3] == [1, 2, 4]
    assert points.results == 4
