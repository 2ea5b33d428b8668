"""Functions whose elements depend on those before: running sums, the largest ones, what comes to places."""

import numpy as np
import pytest
import tvm
from guarded import guarded
from on_targets import AVX2

from kernels.emit.compile import compile_module
from kernels.operators.largest import Largest, build_largest
from kernels.operators.running_sum import RunningSum, build_running_sum
from kernels.operators.scatter import Elements, Scatter, build_elements, build_scatter

MEETS = {"none": lambda _, new: new, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def run(function, *arrays):
    """Between pages that nobody may touch; the last arrays are filled."""
    call = compile_module(function, AVX2)["main"]
    buffers = [guarded(array) for array in arrays]
    call(*map(tvm.runtime.from_dlpack, buffers))
    return buffers


@pytest.mark.parametrize("dtype", ["float32", "int64", "float64"])
@pytest.mark.parametrize(("outer", "extent", "inner"), [(1, 37, 1), (19, 5, 1), (3, 7, 83), (2, 9, 5)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_element_is_the_sum_of_those_up_to_it(outer, extent, inner, dtype, exclusive, reverse):
    it = RunningSum(outer, extent, inner, dtype, exclusive, reverse)
    data = (np.random.default_rng().normal(size=(outer, extent, inner)) * 100).astype(dtype)
    found = run(build_running_sum(it, "main"), data, np.full_like(data, 77))[-1]
    ordered = data[:, ::-1] if reverse else data
    sums = np.cumsum(ordered, axis=1)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)
    np.testing.assert_array_equal(found, sums[:, ::-1] if reverse else sums)


@pytest.mark.parametrize(
    ("shape", "exclusive", "reverse"), [((3, 7, 1), True, False), ((2, 5, 19), False, True)]
)
def test_products(shape, exclusive, reverse):
    it = RunningSum(*shape, "float32", exclusive, reverse, product=True)
    data = np.random.default_rng().normal(size=shape).astype(np.float32)
    found = run(build_running_sum(it, "main"), data, np.full_like(data, 77))[-1]
    products = np.cumprod(data[:, ::-1] if reverse else data, axis=1)
    if exclusive:
        products = np.concatenate([np.ones_like(products[:, :1]), products[:, :-1]], axis=1)
    np.testing.assert_array_equal(found, products[:, ::-1] if reverse else products)


@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((3, 101), 1, 1),
        ((2, 300), 1, 37),
        ((5, 17, 3), 1, 4),
        ((1, 23), 1, 23),
        ((67, 2), 0, 66),
        ((1, 1), 1, 1),
    ],
    ids=str,
)
def test_the_best_come_in_order_and_of_equal_ones_the_first(shape, axis, count, dtype, smallest):
    it = Largest(shape, axis, count, dtype, smallest)
    # Few values, so that many are equal.
    data = np.random.default_rng().integers(-20, 20, shape).astype(dtype)
    _, values, places = run(
        build_largest(it, "main"), data, np.zeros(it.out, dtype), np.full(it.out, -1, np.int64)
    )
    keys = data.astype(np.int64) if smallest else -data.astype(np.int64)
    order = np.argsort(keys, axis=axis, kind="stable").take(range(count), axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(data, order, axis))


def test_not_a_number_does_not_lead_out_of_the_heap():
    data = np.random.default_rng().normal(size=(4, 90)).astype(np.float32)
    data[:, ::3] = np.nan
    it = Largest(data.shape, 1, 20, "float32")
    _, _, places = run(
        build_largest(it, "main"), data, np.zeros(it.out, np.float32), np.full(it.out, -1, np.int64)
    )
    assert all(len({*row}) == 20 for row in places.tolist())
    assert 0 <= places.min() <= places.max() < 90


@pytest.mark.parametrize("reduction", MEETS)
@pytest.mark.parametrize(("shape", "depth"), [((7, 19), 1), ((3, 4, 5), 3), ((6, 2, 33), 2)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_runs_come_to_their_places_in_order(shape, depth, dtype, reduction):
    rng = np.random.default_rng()
    it = Scatter(shape, 11, depth, dtype, reduction)
    data, runs = (rng.integers(-5, 6, size).astype(dtype) for size in (shape, (11, it.run)))
    places = np.stack([rng.integers(-extent, extent, 11) for extent in shape[:depth]], axis=1)
    places[3, 0], places[5, depth - 1] = shape[0], -shape[depth - 1] - 1  # no such places
    found = run(build_scatter(it, "main"), data, places, runs, np.zeros_like(data))[-1]
    right = data.copy()
    for number, (place, new) in enumerate(zip(places, runs, strict=True)):
        if number not in (3, 5):
            at = tuple(place)
            right[at] = MEETS[reduction](right[at], new.reshape(right[at].shape))
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("reduction", MEETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_come_to_their_places_along_an_axis(axis, reduction):
    rng = np.random.default_rng()
    it = Elements((5, 4, 7), (3, 4, 2), axis, "float32", reduction)
    data, new = (rng.integers(-5, 6, size).astype(np.float32) for size in (it.shape, it.counts))
    places = rng.integers(-it.shape[axis] - 1, it.shape[axis] + 1, it.counts)
    found = run(build_elements(it, "main"), data, places, new, np.zeros_like(data))[-1]
    right = data.copy()
    for at in np.ndindex(it.counts):
        if -it.shape[axis] <= places[at] < it.shape[axis]:
            to = (*at[:axis], places[at], *at[axis + 1 :])
            right[to] = MEETS[reduction](right[to], new[at])
    np.testing.assert_array_equal(found, right)
