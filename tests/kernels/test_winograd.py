import random
from fractions import Fraction

import guarded
import pytest
from on_targets import ALL, AVX2, AVX512, WIDTHS, assembly_of

from kernels.float.winograd.kernel import Winograd
from kernels.float.winograd.transform import Transform, matrices
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d, Epilogue, Gemm

KERNEL = Winograd()


def limit_of(workload, config):
    """Where tiles are only added and subtracted, rounding errors are those of summing."""
    longest = max(workload.kh, workload.kw)
    few = Transform(config.int("m"), longest, workload.stride[0]).finite_points <= 3
    return 1e-5 if few else KERNEL.tolerance


def conv(n, in_c, h, w, out_c, pad=(0, 0, 0, 0), epilogue=None, taps=3, stride=1, across=None) -> Conv2d:
    return Conv2d(
        n, in_c, h, w, out_c, taps, across or taps, (stride, stride), pad, epilogue=epilogue or Epilogue()
    )


def config(m: int, tiles: int, vectors: int, **more: str) -> Config:
    return Config.of("winograd", m=m, tiles=tiles, vectors=vectors, **more)


def error_of(workload: Conv2d, config: Config, threads: int = 1, target: Target = AVX2) -> float:
    return guarded.error_of(KERNEL, workload, config, target, threads)


@pytest.mark.parametrize(
    ("workload", "tiles", "vectors", "threads", "split"),
    [
        # Of a single value there may be next to nothing left, and errors are relative to the largest.
        (conv(1, 1, 5, 4, 1), 8, 1, 1, None),
        (conv(1, 3, 30, 37, 5, (1, 0, 2, 1), ALL), 28, 1, 1, None),
        (conv(2, 9, 7, 7, 17, (1, 1, 1, 1), ALL), 8, 2, 3, "points"),
        (conv(1, 16, 13, 14, 40, (1, 1, 1, 1), Epilogue(bias=True)), 16, 3, 2, "tiles"),
        (conv(2, 8, 3, 131, 8, (0, 3, 0, 5), Epilogue(clamp=(-1.0, 1.0))), 16, 1, 3, "tiles"),
        (conv(1, 2, 1, 1, 2, (9, 1, 1, 9), Epilogue(residual=True)), 8, 1, 1, None),
    ],
    ids=lambda value: str(value) if isinstance(value, Conv2d) else None,
)
@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_computes_the_convolution_on_shapes_no_tile_divides(workload, tiles, vectors, threads, split, m):
    more = {"split": split} if split else {}
    assert error_of(workload, config(m, tiles, vectors, **more), threads) < KERNEL.tolerance


LAYOUTS = ["nchw", "nchw>nchw8c", "nchw8c>nchw", "nchw8c", "nhwc"]


@pytest.mark.parametrize(
    "workload",
    [
        conv(2, 16, 17, 9, 24, (1, 0, 0, 1), ALL),
        conv(1, 8, 5, 75, 16, (0, 3, 0, 5), Epilogue(clamp=(-1.0, 1.0))),
        conv(1, 24, 1, 2, 8, (9, 1, 1, 9), Epilogue(residual=True)),
        conv(2, 16, 15, 14, 16, (1, 2, 0, 2), Epilogue(bias=True), taps=5, stride=2),
        conv(1, 16, 9, 30, 16, (1, 2, 0, 1), ALL, taps=2, across=3),
        conv(1, 16, 15, 14, 16, (2, 0, 1, 0), Epilogue(bias=True), taps=4, across=3, stride=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_any_layouts_compute_the_same(workload, layouts):
    data, _, out = layouts.partition(">")
    pair = Layouts(data, out or data)
    points = list(KERNEL.space(workload, AVX2, pair, 2))
    assert KERNEL.recommend(workload, AVX2, pair, 2) in points
    every = sorted({point.int("m") for point in points})
    for m in every[LAYOUTS.index(layouts) % 2 :: 2] or every:
        point = random.Random(m).choice([point for point in points if point["m"] == m])
        assert error_of(workload, point, 2) < limit_of(workload, point), point


def test_layouts_but_nchw_are_there_for_whole_vectors_of_channels_only():
    both = [str(pair) for pair in KERNEL.layouts(conv(1, 16, 9, 9, 8), AVX2)]
    assert sorted(both) == sorted(LAYOUTS)
    assert both[0] == str(PLAIN)
    assert set(map(str, KERNEL.layouts(conv(1, 3, 9, 9, 8), AVX2))) == {"nchw", "nchw>nchw8c"}
    assert set(map(str, KERNEL.layouts(conv(1, 8, 9, 9, 20), AVX2))) == {"nchw", "nchw8c>nchw"}


@pytest.mark.parametrize("shape", [(1, 64, 56, 56, 64), (1, 512, 7, 7, 512)])
def test_blocked_channels_need_no_shuffles(shape):
    workload = conv(*shape, pad=(1, 1, 1, 1))
    blocked = Layouts("nchw8c", "nchw8c")
    shuffled = {}
    for layouts in (PLAIN, blocked):
        point = KERNEL.recommend(workload, AVX2, layouts)
        text = assembly_of(KERNEL, workload, point, AVX2)
        shuffled[layouts] = sum(text.count(f"\t{word}") for word in ("vunpck", "vperm", "vshuf", "vinsert"))
    assert shuffled[blocked] == 0 < shuffled[PLAIN]


EVERY_TRANSFORM = [
    Transform(m, taps, stride)
    for taps in range(2, 8)
    for stride in (1, 2)
    for m in range(2, 7)
    if Transform(m, taps, stride).exists
]


@pytest.mark.parametrize("transform", EVERY_TRANSFORM, ids=lambda t: f"{t.m}-{t.taps}-{t.stride}")
def test_every_transform_is_exactly_the_convolution(transform):
    """In rational arithmetic: no rounding to hide behind."""
    rng = random.Random(transform.m)
    line = [Fraction(rng.randrange(-9, 10)) for _ in range(transform.tile)]
    taps = [Fraction(rng.randrange(-9, 10)) for _ in range(transform.taps)]

    def times(factor: float, value: Fraction) -> Fraction:
        return Fraction(factor).limit_denominator(1000) * value

    filters = [sum(g * tap for g, tap in zip(row, taps, strict=True)) for row in matrices(transform)[1]]
    products = [x * g for x, g in zip(transform.forward(line, times), filters, strict=True)]
    starts = range(0, transform.m * transform.stride, transform.stride)
    expected = [sum(line[at + k] * tap for k, tap in enumerate(taps)) for at in starts]
    assert transform.backward(products, times, lambda value: value) == expected


@pytest.mark.parametrize(("taps", "stride"), [(2, 1), (4, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2)])
def test_other_filters_and_a_stride_of_two_on_shapes_no_tile_divides(taps, stride):
    workload = conv(2, 9, 17, 22, 21, (1, taps // 2, 0, 2), ALL, taps, stride)
    for m in sorted({point["m"] for point in KERNEL.space(workload, AVX2)}):
        assert error_of(workload, config(m, 8, 2)) < KERNEL.tolerance
        assert error_of(workload, config(m, 28, 2, split="tiles"), 2) < KERNEL.tolerance


@pytest.mark.parametrize(
    ("taps", "stride", "m", "limit"),
    [(3, 1, 2, 1e-5), (3, 1, 4, 5e-5), (3, 1, 6, 6e-5), (3, 2, 3, 1e-5), (3, 2, 4, 5e-5), (5, 1, 4, 5e-5)],
)
def test_error_over_many_channels_stays_well_below_the_tolerance(taps, stride, m, limit):
    workload = conv(1, 512, 16, 16, 16, (1, 1, 1, 1), taps=taps, stride=stride)
    assert error_of(workload, config(m, 8, 2)) < limit


def test_random_points_of_the_space_are_correct():
    rng = random.Random(3)
    for workload in (conv(1, 24, 9, 90, 30, (1, 1, 1, 1), ALL), conv(1, 5, 21, 20, 64, (2, 0, 0, 1), ALL)):
        for point in rng.sample(list(KERNEL.space(workload, AVX2)), 3):
            assert error_of(workload, point) < KERNEL.tolerance, point


@pytest.mark.parametrize(
    "shape", [(1, 64, 56, 56, 64), (1, 3, 300, 301, 8), (4, 512, 7, 7, 512), (1, 1, 3, 3, 1)]
)
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda target: target.name)
def test_every_space_is_small_and_holds_the_recommendation(shape, target):
    workload = conv(*shape, pad=(1, 1, 1, 1))
    space = KERNEL.space(workload, target)
    assert space.why_not(KERNEL.recommend(workload, target)) is None
    assert 1 <= len(list(space)) <= 60


def test_recommends_large_tiles_for_large_planes_and_small_ones_where_large_are_mostly_padding():
    assert KERNEL.recommend(conv(1, 64, 56, 56, 64, (1, 1, 1, 1)), AVX2)["m"] >= 4
    assert KERNEL.recommend(conv(1, 256, 2, 2, 256, (1, 1, 1, 1)), AVX2)["m"] == 2


@pytest.mark.parametrize(("target", "register"), [(AVX2, "%ymm"), (AVX512, "%zmm")])
def test_multiplies_in_whole_registers(target, register):
    workload = conv(1, 32, 28, 28, 64, (1, 1, 1, 1))
    lines = assembly_of(KERNEL, workload, KERNEL.recommend(workload, target), target).splitlines()
    assert sum("vfmadd231ps" in line and register in line for line in lines) >= target.vector_registers // 2


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (Gemm(4, 4, 4), "conv2d"),
        (Conv2d(1, 4, 8, 8, 4, 1, 1), "saves nothing"),
        (Conv2d(1, 4, 8, 8, 4, 1, 7), "1x7 filters"),
        (Conv2d(1, 4, 8, 8, 4, 3, 3, stride=(1, 2)), "stride"),
        (Conv2d(1, 4, 9, 9, 4, 3, 3, stride=(3, 3)), "stride 3"),
        (Conv2d(1, 4, 8, 8, 4, 3, 3, dilation=(2, 2)), "dilation"),
        (Conv2d(1, 4, 8, 8, 4, 3, 3, groups=2), "groups"),
    ],
    ids=str,
)
def test_refuses_what_has_no_winograd_form(workload, reason):
    assert reason in str(KERNEL.why_not(workload, AVX2))


@pytest.mark.parametrize("target", WIDTHS, ids=lambda target: f"{target.vector_bits} bits")
@pytest.mark.parametrize(
    "workload", [conv(1, 20, 9, 40, 37, (1, 1, 1, 1), ALL), conv(2, 3, 7, 7, 5, (1, 0, 1, 2), ALL)], ids=str
)
def test_any_vector_length_computes_the_same(workload, target):
    for point in random.Random(5).sample(list(KERNEL.space(workload, target)), 2):
        assert error_of(workload, point, target=target) < KERNEL.tolerance, point


@pytest.mark.parametrize("target", WIDTHS, ids=lambda target: f"{target.vector_bits} bits")
def test_any_vector_length_has_its_blocked_layout(target):
    workload, blocked = conv(1, 32, 9, 40, 48, (1, 1, 1, 1), ALL), f"nchw{target.lanes()}c"
    for pair in (Layouts(blocked, blocked), Layouts("nchw", blocked)):
        assert pair in KERNEL.layouts(workload, target)
        for point in random.Random(5).sample(list(KERNEL.space(workload, target, pair)), 2):
            assert error_of(workload, point, target=target) < KERNEL.tolerance, point


def test_threads_share_points_where_there_is_but_one_block():
    assert KERNEL.recommend(conv(1, 512, 7, 7, 512, (1, 1, 1, 1)), AVX2, threads=4)["split"] == "points"
    assert "split" not in KERNEL.space(conv(1, 512, 7, 7, 512, (1, 1, 1, 1)), AVX2).knobs


@pytest.mark.parametrize(
    ("taps", "stride", "small"), [(3, 1, {2}), (2, 1, {2, 3}), (3, 2, {2, 3}), (5, 1, set())]
)
def test_few_points_only_add_and_subtract_and_no_config_is_exact(taps, stride, small):
    workload = conv(1, 64, 24, 24, 16, (1, 1, 1, 1), taps=taps, stride=stride)
    points = list(KERNEL.space(workload, AVX2))
    assert all("infinity" in KERNEL.why_inexact(workload, point) for point in points)
    assert not list(KERNEL.exact_part(workload, KERNEL.space(workload, AVX2)))
    for m in {point["m"] for point in points}:
        b, _, a = matrices(Transform(m, taps, stride))
        assert ({abs(factor) for row in (*b, *a) for factor in row} <= {0, 1}) == (m in small), m
