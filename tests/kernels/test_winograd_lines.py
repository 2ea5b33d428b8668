import random

import guarded
import pytest
from on_targets import ALL, AVX2, AVX512, WIDTHS, assembly_of

from kernels import registry
from kernels.float.winograd.transform import Transform
from kernels.float.winograd_lines.kernel import WinogradLines
from kernels.float.winograd_lines.lines import Lines
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.workload.base import Conv2d, Epilogue, Gemm

KERNEL = WinogradLines()


def row(
    in_c, length, out_c, taps=3, dilation=1, pad=(0, 0), stride=1, n=1, rows=1, epilogue=ALL, **more
) -> Conv2d:
    pads, apart = (0, pad[0], 0, pad[1]), (1, dilation)
    return Conv2d(n, in_c, rows, length, out_c, 1, taps, (1, stride), pads, apart, epilogue=epilogue, **more)


def column(in_c, height, width, out_c, taps=3, dilation=1, pad=(0, 0), stride=1) -> Conv2d:
    pads, apart = (pad[0], 0, pad[1], 0), (dilation, 1)
    return Conv2d(2, in_c, height, width, out_c, taps, 1, (stride, 1), pads, apart, epilogue=ALL)


def error_of(workload, config, threads=1, target=AVX2):
    return guarded.error_of(KERNEL, workload, config, target, threads)


def limit_of(workload, config):
    lines = Lines.of(workload)
    few = Transform(config.int("m"), lines.taps, lines.stride).finite_points <= 3
    return 1e-5 if few else KERNEL.tolerance


ODD = [
    row(3, 75, 5, epilogue=Epilogue(bias=True)),
    row(9, 101, 17, dilation=7, pad=(3, 2), n=2),
    row(1, 12, 1, 2, epilogue=Epilogue()),
    row(5, 300, 11, dilation=64, pad=(128, 0)),
    row(7, 33, 9, 7, pad=(3, 3), rows=5, n=2),
    row(6, 131, 10, 4, pad=(0, 5), stride=2),
    column(5, 17, 17, 9, 7, pad=(3, 3)),
    column(8, 30, 9, 8, dilation=2, pad=(2, 2)),
    column(4, 90, 1, 6, 5, pad=(1, 2), stride=2),
]


@pytest.mark.parametrize("workload", ODD, ids=str)
def test_computes_the_convolution_on_shapes_no_tile_divides(workload):
    space = list(KERNEL.space(workload, AVX2))
    assert KERNEL.recommend(workload, AVX2) in space
    for m in {point["m"] for point in space}:
        point = random.Random(m).choice([point for point in space if point["m"] == m])
        assert error_of(workload, point) < limit_of(workload, point), point


@pytest.mark.parametrize(
    "workload", [row(16, 70, 24, dilation=8, pad=(16, 0)), row(8, 60, 16, stride=2, n=2)], ids=str
)
@pytest.mark.parametrize("threads", [1, 3])
def test_any_layouts_and_threads_compute_the_same(workload, threads):
    pairs = KERNEL.layouts(workload, AVX2)
    assert len(pairs) == 9
    assert pairs[0] == PLAIN
    for at, pair in enumerate(pairs):
        points = list(KERNEL.space(workload, AVX2, pair, threads))
        point = random.Random(at).choice(points)
        assert error_of(workload, point, threads) < limit_of(workload, point), point


@pytest.mark.parametrize("target", WIDTHS, ids=lambda target: f"{target.name} {target.vector_bits}")
def test_any_vector_length_computes_the_same(target):
    for workload in (row(20, 210, 37, dilation=40), row(32, 70, 48, pad=(1, 1))):
        for pair in KERNEL.layouts(workload, target)[::4]:
            point = random.Random(4).choice(list(KERNEL.space(workload, target, pair)))
            assert error_of(workload, point, target=target) < limit_of(workload, point), point


@pytest.mark.parametrize(
    ("workload", "limit"), [(row(512, 200, 16), 5e-5), (row(512, 200, 16, 5, dilation=16), 5e-5)], ids=str
)
def test_error_over_many_channels_stays_well_below_the_tolerance(workload, limit):
    largest = max(KERNEL.space(workload, AVX2), key=lambda point: point.int("m"))
    assert error_of(workload, largest) < limit


@pytest.mark.parametrize(
    "target", [*WIDTHS, AVX512], ids=lambda target: f"{target.name} {target.vector_bits}"
)
def test_no_space_is_empty(target):
    for dilation in range(1, 220, 3):
        workload = row(16, 3 * dilation + 100, 16, dilation=dilation)
        for pair in KERNEL.layouts(workload, target)[:2]:
            assert KERNEL.recommend(workload, target, pair)


def test_is_the_analysis_pick_where_it_saves_most():
    workload = row(128, 7564, 128, dilation=32, epilogue=Epilogue(bias=True))
    for target in (AVX2, AVX512):
        assert registry.recommendations(workload, target)[0].kernel == KERNEL.name


def test_dilated_lines_are_transformed_in_whole_registers():
    workload = row(16, 300, 16, dilation=64)
    text = assembly_of(
        KERNEL, workload, Config.of(KERNEL.name, Layouts("nchw8c", "nchw8c"), m=3, tiles=32, vectors=2), AVX2
    )
    assert not any(text.count(f"\t{word}") for word in ("vunpck", "vperm", "vshuf", "vgather"))


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (Gemm(4, 4, 4), "conv2d"),
        (Conv2d(1, 4, 8, 8, 4, 1, 1), "one row or one column"),
        (Conv2d(1, 4, 8, 8, 4, 3, 3), "one row or one column"),
        (Conv2d(1, 4, 8, 8, 4, 1, 3, pad=(1, 1, 0, 1)), "padding across"),
        (row(4, 40, 4, groups=2), "groups"),
        (row(4, 40, 4, stride=3), "stride"),
        (row(4, 40, 4, stride=2, dilation=2), "dilation"),
        (row(4, 40, 4, dilation=19), "saves nothing"),
    ],
    ids=str,
)
def test_refuses_what_has_no_such_form(workload, reason):
    assert reason in str(KERNEL.why_not(workload, AVX2))
