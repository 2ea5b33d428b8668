from dataclasses import replace

import numpy as np
import pytest
from guarded import guarded
from test_matmul import WIDTHS, run, some_configs, view

from kernels.emit.compile import compile_object
from kernels.float.attention.kernel import BlockedAttention
from kernels.reference import max_error, random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import Attention, View, from_json, to_json

HOST = CATALOGUE["x86-avx2"]
ATTENTION = BlockedAttention()
SPLIT, TURNED = (0, 2, 1, 3), (0, 2, 3, 1)


def softmax(scores, empty):
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    return np.where(np.isneginf(scores.max(-1, keepdims=True)), empty, weights)


def error_of(heads, sizes, mask=None, perms=(SPLIT, TURNED, SPLIT, SPLIT), target=HOST, threads=1, **said):
    """The largest error of an attention of ``heads`` (batch, heads, heads that share keys) and ``sizes``
    (rows, count, depth, width); ``mask`` is an array of four axes. ``perms`` as in ``test_matmul``."""
    rng = np.random.default_rng()
    batch, number, group = heads
    rows, count, depth, width = sizes
    shapes = [
        (batch, number * group, rows, depth),
        (batch, number, depth, count),
        (batch, number, count, width),
    ]
    queries, keys, values = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    wide = [np.repeat(each, group, 1).astype(np.float64) for each in (keys, values)]
    scores = said.get("scale", 1.0) * (queries.astype(np.float64) @ wide[0])
    scores = scores if mask is None else scores + mask
    if said.get("causal") is not None:
        hidden = np.arange(count) > np.arange(rows)[:, None] + said["causal"]
        scores = np.where(hidden, -np.inf, scores)
    expected = softmax(scores, 0.0 if said.get("zeros") else np.nan) @ wide[1]
    whole = [queries, keys, values, np.full(expected.shape, np.nan, np.float32)]
    lie = [
        guarded(np.ascontiguousarray(a.transpose(np.argsort(p)))) for a, p in zip(whole, perms, strict=True)
    ]
    views = [view(array.shape, perm, 2) for array, perm in zip(whole, perms, strict=True)]
    extents = (batch, number, group)
    for at, grouped in enumerate((True, False, False, True)):
        first, step = views[at].batch
        views[at] = replace(views[at], batch=(first, step * group, step) if grouped else (first, step, 0))
    lies = None
    if mask is not None:
        lies = view(mask.shape, (0, 1, 2, 3), 2)
        row, column = (0 if mask.shape[axis] == 1 else (lies.row, lies.column)[axis - 2] for axis in (2, 3))
        first, step = lies.batch
        lies = replace(lies, batch=(first, step * group, step), row=row, column=column)
    attention = Attention(extents, *sizes, *views, mask=lies, **said)
    assert attention.why_not() is None
    arguments = [each.reshape(-1) for each in [*lie[:3], *([] if mask is None else [guarded(mask)])]]
    workload = attention.canonical()
    assert from_json(to_json(workload)) == workload
    config = ATTENTION.recommend(workload, target, threads=threads)
    result = run(workload, config, arguments, target, threads, lie[3].reshape(-1), ATTENTION)
    assert np.allclose(result, reference(workload, arguments), 1e-4, 1e-4, equal_nan=True)
    difference = np.abs(lie[3].transpose(perms[3]) - expected)
    assert np.array_equal(np.isnan(expected), np.isnan(difference))
    return np.nanmax(difference) / np.nanmax(np.abs(expected)), ATTENTION.plan(
        workload, config, target, threads
    )


def normal(*shape):
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize(
    ("heads", "sizes"),
    [
        ((2, 3, 1), (37, 37, 16, 24)),
        ((1, 2, 1), (5, 130, 33, 7)),
        ((1, 1, 1), (97, 31, 5, 64)),
        ((1, 2, 1), (64, 64, 32, 32)),
        ((1, 2, 1), (1, 131, 64, 64)),
        ((2, 2, 3), (1, 67, 16, 40)),
        ((1, 2, 3), (19, 23, 16, 8)),
        ((1, 1, 1), (3, 1, 1, 1)),
        ((1, 1, 2), (2, 3, 3, 3)),
    ],
)
def test_attention_of_any_sizes(bits, heads, sizes):
    rows, count = sizes[:2]
    masks = [None, normal(1, 1, rows, count), normal(heads[0], 1, 1, count), normal(1, 1, rows, 1)]
    for threads, mask in enumerate(masks[: 4 if bits == 256 else 2], start=1):
        error, _ = error_of(heads, sizes, mask, target=WIDTHS[bits], threads=threads, scale=0.3)
        assert error < 1e-5, threads


@pytest.mark.parametrize("sizes", [(37, 37, 8, 16), (50, 61, 8, 20), (40, 33, 8, 8), (1, 9, 4, 4)])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_that_see_earlier_keys_alone(sizes, masked):
    rows, count = sizes[:2]
    mask = normal(1, 1, rows, count) if masked else None
    for causal in (0, 5, count - 2):
        error, _ = error_of((2, 2, 2), sizes, mask, causal=causal)
        assert error < 1e-5, causal


@pytest.mark.parametrize("zeros", [True, False])
def test_rows_that_see_nothing(zeros):
    mask = np.where(np.random.default_rng().random((1, 1, 9, 21)) < 0.5, -np.inf, 0).astype(np.float32)
    mask[0, 0, 4] = -np.inf
    error, _ = error_of((1, 2, 1), (9, 21, 8, 8), mask, zeros=zeros)
    assert error < 1e-5


def test_scores_so_large_that_their_exponentials_overflow():
    mask = normal(1, 1, 8, 40) * 100 + 500
    error, _ = error_of((1, 1, 1), (8, 40, 8, 8), mask)
    assert error < 1e-4


def test_heads_of_one_row_that_share_keys_are_rows():
    error, plan = error_of((2, 4, 8), (1, 200, 16, 16), threads=2)
    assert error < 1e-5
    assert (plan.workload.rows, plan.shared, plan.parts) == (8, 1, 2)


def test_threads_without_a_batch_share_blocks_of_rows():
    error, plan = error_of((1, 1, 1), (301, 90, 32, 32), threads=3)
    assert error < 1e-5
    assert plan.splits == 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", [(37, 45, 16, 24), (1, 67, 33, 7)])
def test_every_point_of_the_space_is_right(sizes, threads):
    rows, count, depth, width = sizes
    lie = {name: View.of((2, *shape)) for name, shape in (("queries", (rows, depth)), ("out", (rows, width)))}
    lie |= {"keys": View.of((2, count, depth)).turned, "values": View.of((2, count, width))}
    workload = Attention((2,), *sizes, **lie, mask=View((0,), count, 1), scale=0.25)
    inputs = [guarded(array) for array in random_inputs(workload, np.random.default_rng())]
    expected = reference(workload, inputs)
    for config in some_configs(ATTENTION, workload, HOST, threads, 5):
        out = guarded(np.full(workload.out_shape, np.nan, np.float32))
        result = run(workload, config, inputs, HOST, threads, out, ATTENTION)
        assert max_error(result, expected) < 1e-5, config


def test_a_candidate_has_the_exponentials_of_a_model():
    _, plan = error_of((1, 1, 1), (8, 40, 8, 8))
    config = ATTENTION.recommend(plan.workload, HOST)
    function = ATTENTION.build(plan.workload, config, HOST, 1, "candidate")
    assert b"expf" not in compile_object(function, HOST)
