import itertools

import pytest

from kernels.emit.shares import grid, sizes


@pytest.mark.parametrize(
    ("whole", "edge", "parts"), list(itertools.product(range(12), (False, True), (1, 2, 3, 4, 7)))
)
def test_shares_hold_everything_and_differ_by_a_tile_at_most(whole, edge, parts):
    total = whole + edge
    ends = [part * total // parts for part in range(parts + 1)]
    each = [stop - start for start, stop in itertools.pairwise(ends)]
    found = sizes(whole, edge, parts)
    assert {full + last for full, last in found} == set(each)
    assert sum(last for _, last in found) == edge
    assert max(each) - min(each) <= 1
    assert each[-1] == max(each)  # so the thread with the smaller tile is never the only one to wait for


def test_a_grid_is_as_square_as_it_can_be():
    assert [grid(threads) for threads in (1, 2, 3, 4, 6, 12)] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (2, 2),
        (3, 2),
        (4, 3),
    ]
