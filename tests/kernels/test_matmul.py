import random
from dataclasses import replace

import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.float.matmul.kernel import ActivationsMatMul
from kernels.reference import max_error, random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import MatMul, View, from_json, to_json

HOST = CATALOGUE["x86-avx2"]
MATMUL = ActivationsMatMul()
WIDTHS = {bits: replace(HOST, vector_bits=bits) for bits in (128, 256, 512)}
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 31, 64, 97, 130)


def stored(shape, perm):
    """The shape of an array that is of ``shape`` once its axes are in the order ``perm``."""
    return tuple(shape[perm.index(axis)] for axis in range(len(shape)))


def view(shape, perm, axes):
    """How the matrices of a transposed array lie, in a batch of ``axes`` axes that it is broadcast to."""
    lies = View.of(stored(shape, perm), perm)
    strides = [0 if extent == 1 else stride for extent, stride in zip(shape[:-2], lies.batch, strict=True)]
    return replace(lies, batch=(0,) * (axes - len(strides)) + tuple(strides))


def error_of(a, b, perms=None, alpha=1.0, target=HOST, threads=1):
    """(error relative to the largest value, the plan) of the product of two random arrays of shapes a and b.

    ``perms``: in which order they and the result see the axes of what is stored.
    """
    rng = np.random.default_rng()
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (a, b)]
    expected = alpha * (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64))
    extents = expected.shape[:-2]
    shapes = (a, b, expected.shape)
    perms = perms or tuple(tuple(range(len(shape))) for shape in shapes)
    views = (view(shape, perm, len(extents)) for shape, perm in zip(shapes, perms, strict=True))
    product = MatMul(extents, a[-2], b[-1], a[-1], *views, alpha=alpha)
    whole = [*arrays, np.full(expected.shape, np.nan, np.float32)]
    lie = [
        guarded(np.ascontiguousarray(array.transpose(np.argsort(perm))))
        for array, perm in zip(whole, perms, strict=True)
    ]
    workload, crossed = product.canonical()
    assert from_json(to_json(workload)) == workload
    config = MATMUL.recommend(workload, target, threads=threads)
    arguments = [array.reshape(-1) for array in ((lie[1], lie[0]) if crossed else lie[:2])]
    result = run(workload, config, arguments, target, threads, lie[2].reshape(-1))
    assert max_error(result, reference(workload, arguments)) < 1e-5
    difference = np.abs(lie[2].transpose(perms[2]) - expected).max()
    return difference / np.abs(expected).max(), MATMUL.plan(workload, config, target, threads)


def run(workload, config, inputs, target, threads, out, kernel=MATMUL):
    """``out``, with the result in it."""
    function = compile_module(kernel.build(workload, config, target, threads, "main"), target)["main"]
    function(*map(tvm.runtime.from_dlpack, (*inputs, out)))
    return out


def some_configs(kernel, workload, target, threads, count):
    """Random points of the space, and the recommended one."""
    space = kernel.space(workload, target, threads=threads)
    rng = random.Random()
    assert space.why_not(kernel.recommend(workload, target, threads=threads)) is None
    return [config for config in (space.sample(rng) for _ in range(count)) if config]


@pytest.mark.parametrize("bits", WIDTHS)
def test_products_of_any_sizes_in_any_order_of_axes(bits):
    rng = np.random.default_rng()
    ways = set()
    for _ in range(12):
        m, n, k = (int(size) for size in rng.choice(SIZES, 3))
        batch = [int(extent) for extent in rng.choice((1, 2, 3), rng.integers(0, 3))]
        a, b = ([each if rng.random() < 0.7 else 1 for each in batch] for _ in range(2))
        a, b = (
            ((*a[rng.integers(0, 2) :], m, k), (*b, k, n)) if rng.random() < 0.5 else ((*a, m, k), (*b, k, n))
        )
        rank = max(len(a), len(b))
        perms = [tuple(int(axis) for axis in rng.permutation(len(shape))) for shape in (a, b)]
        if rng.random() < 0.5:
            perms = [(*range(len(a) - 2), len(a) - 1, len(a) - 2), tuple(range(len(b)))]
        perms.append((*(int(axis) for axis in rng.permutation(rank - 1)), rank - 1))
        threads = int(rng.integers(1, 4))
        error, plan = error_of(a, b, tuple(perms), 0.125, WIDTHS[bits], threads)
        assert error < 1e-5, (a, b, perms, threads)
        ways.add(plan.knobs.way)
    assert "packed" in ways


@pytest.mark.parametrize(
    ("a", "b", "perms", "way"),
    [
        ((2, 3, 40, 16), (2, 3, 16, 50), ((0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 2, 3)), "packed"),
        ((2, 3, 90, 50), (2, 3, 50, 70), ((0, 1, 2, 3), (0, 2, 1, 3), (0, 2, 1, 3)), "packed"),
        ((4, 1, 70), (4, 70, 45), None, "place"),
        ((4, 1, 70), (4, 70, 45), ((0, 1, 2), (0, 2, 1), (0, 1, 2)), "rows"),
        ((3, 5, 1300), (3, 1300, 43), None, "place"),
        ((3, 50, 1300), (1300, 43), None, "packed"),
        ((20, 600), (600, 901), ((1, 0), (1, 0), (0, 1)), "packed"),
        ((5, 40, 33), (5, 33, 1), None, "rows"),
    ],
)
def test_each_way_computes_products(a, b, perms, way):
    for threads in (1, 2):
        error, plan = error_of(a, b, perms, target=HOST, threads=threads)
        assert error < 1e-5
        assert plan.knobs.way == way


def test_a_batch_that_shares_its_right_side_is_one_product():
    lies = (View((40, 8), 8, 1), View((0, 0), 5, 1), View((25, 5), 5, 1))
    product, _ = MatMul((3, 5), 1, 5, 8, *lies).canonical()
    assert (product.extents, product.m) == ((), 15)
    assert (product.a.row, product.out.row) == (8, 5)


def test_threads_without_a_batch_share_rows():
    error, plan = error_of((301, 64), (64, 130), threads=3)
    assert error < 1e-5
    assert plan.splits == 3


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("m", "n", "k", "turned"),
    [(37, 70, 1100, False), (13, 45, 67, True), (1, 33, 40, True), (5, 3, 9, False)],
)
def test_every_point_of_the_space_is_right(m, n, k, turned, threads):
    b = View((0, n * k), 1, k) if turned else View((0, n * k), n, 1)
    workload = MatMul((2, 3), m, n, k, View((3 * m * k, m * k), k, 1), b, View((3 * m * n, m * n), n, 1), 0.5)
    inputs = [guarded(array) for array in random_inputs(workload, np.random.default_rng())]
    expected = reference(workload, inputs)
    for config in some_configs(MATMUL, workload, HOST, threads, 5):
        out = guarded(np.full(workload.out_shape, np.nan, np.float32))
        assert max_error(run(workload, config, inputs, HOST, threads, out), expected) < 1e-5, config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": {"batch": [], "row": 9, "column": 1}}, "matmul a does not see a dense array"),
        ({"b": {"batch": [1], "row": 4, "column": 1}}, "matmul b has 1 axes of a batch"),
        ({"out": {"batch": [], "row": 0, "column": 1}}, "a place of its own"),
        ({"out": {"batch": [], "row": 1, "column": 3}}, "side by side"),
        ({"alpha": float("inf")}, "finite"),
        ({"extents": [0]}, "positive"),
        ({"m": 0}, "m must be a positive integer"),
    ],
)
def test_what_is_no_product_is_refused(change, message):
    document = to_json(MatMul((), 3, 4, 5, View((), 5, 1), View((), 4, 1), View((), 4, 1)))
    with pytest.raises(ValueError, match=message):
        from_json(document | change)
