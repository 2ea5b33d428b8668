"""Chains on simulated boards: right on sizes that no block divides, at random points of the space."""

import random

import pytest

from kernels import registry
from kernels.emit.compile import compile_object
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, ConvChain, Epilogue, QConv2d, QConvChain
from worker.candidate import Candidate
from worker.measure.measure import MeasureOptions, measure

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

OPTIONS = MeasureOptions(cold=False, min_time_s=0.001, run_timeout_s=60.0)
BYTES = {"weight_range": (-127, 127), "scale": "small"}
SIGNED = {"data_dtype": "int8", "out_dtype": "int8"}


def qpair(first, **second):
    taken = {"data_dtype": first.out_dtype, "data_zero": first.out_zero}
    return QConvChain(first, QConv2d(first.n, first.out_h, first.out_w, first.out_c, **taken, **second))


CHAINS = [
    qpair(QConv2d(1, 9, 13, 128, 36, 1, 1, **BYTES), out_c=128, kh=1, kw=1, **BYTES),
    qpair(
        QConv2d(1, 7, 17, 5, 33, 3, 3, pad=(1, 1, 1, 1), data_zero=7, out_zero=3, **BYTES),
        **{"out_c": 7, "kh": 3, "kw": 3, "pad": (1, 0, 2, 1), "out_zero": 9, **BYTES},
    ),
    qpair(
        QConv2d(2, 11, 10, 32, 64, 3, 3, data_zero=-3, out_zero=5, **SIGNED, **BYTES),
        **{"out_c": 70, "kh": 1, "kw": 1, "out_dtype": "int8", "clamp": (-100, 90), **BYTES},
    ),
    qpair(
        QConv2d(1, 21, 14, 3, 40, 3, 2, (2, 3), (2, 0, 0, 3), (2, 1), weight_dtype="uint8", weight_zero=128),
        out_c=1,
        kh=2,
        kw=3,
        dilation=(3, 2),
        pad=(3, 2, 3, 2),
        stride=(1, 2),
        per_channel=False,
        scale="power",
    ),
]


@pytest.fixture
def outcomes(simulated_boards, nursery, builder, tmp_path):
    """What comes of the recommended config and of a random one that has some knobs."""

    def run(name, workload, **knobs):
        board, rng = simulated_boards[name], random.Random()
        target = CATALOGUE[board.target]
        (space,) = registry.search_space(workload, target).spaces
        drawn = space.sample(rng)
        while not knobs.items() <= dict(drawn.knobs).items():
            drawn = space.sample(rng)
        configs = [registry.kernel(space.kernel).recommend(workload, target), drawn]
        batch = [builder.build(Candidate(workload, config, target)) for config in configs]
        return dict(zip(configs, measure(nursery, board, batch, OPTIONS, lock_dir=tmp_path), strict=True))

    return run


@pytest.mark.parametrize("workload", CHAINS, ids=str)
def test_bytes_are_exact(outcomes, workload):
    for config, outcome in outcomes("hexagon-sim", workload).items():
        assert (outcome.error, outcome.max_error) == (None, 0), (config, outcome.message)


def test_floats_on_arm(outcomes):
    relu = Epilogue(bias=True, clamp=(0.0, 6.0))
    first = Conv2d(1, 24, 13, 11, 24, 3, 3, pad=(1, 1, 1, 1), groups=24, epilogue=relu)
    workload = ConvChain(first, Conv2d(1, 24, 13, 11, 40, 1, 1))
    for config, outcome in outcomes("rpi4-sim", workload).items():
        assert outcome.error is None, (config, outcome.message)


SEVEN_BITS = {"weight_range": (-64, 64), "scale": "small"}


def spread_first(n, size, channels, **more):
    """A depthwise convolution, then a pointwise one to five more channels."""
    first = QConv2d(n, *size, channels, channels, 3, 3, groups=channels, data_zero=3, **more)
    return qpair(first, out_c=channels + 5, kh=1, kw=1, **SEVEN_BITS)


SEPARABLE = [
    # Pointwise, then depthwise: runs of channels, strides that leave rows out, padding on one side.
    qpair(
        QConv2d(1, 13, 11, 16, 96, 1, 1, data_zero=128, **SEVEN_BITS),
        **{"out_c": 96, "kh": 3, "kw": 3, "stride": (2, 2), "pad": (0, 1, 1, 0), "groups": 96, **SEVEN_BITS},
    ),
    qpair(
        QConv2d(2, 9, 7, 5, 13, 1, 1, data_zero=-3, out_zero=5, clamp=(-90, 101), **SIGNED),
        out_c=13,
        kh=2,
        kw=3,
        stride=(4, 3),
        pad=(3, 2, 0, 1),
        groups=13,
        per_channel=False,
        scale="power",
    ),
    qpair(
        QConv2d(1, 8, 10, 24, 40, 1, 1, weight_dtype="uint8", weight_zero=100, out_zero=17),
        out_c=40,
        kh=3,
        kw=3,
        dilation=(2, 1),
        pad=(2, 1, 2, 1),
        groups=40,
    ),
    # Depthwise, then pointwise.
    qpair(
        QConv2d(1, 14, 15, 24, 24, 3, 3, (1, 1), (1, 1, 1, 1), groups=24, data_zero=7, out_zero=3, **BYTES),
        **{"out_c": 20, "kh": 1, "kw": 1, "out_zero": -9, "out_dtype": "int8", **SEVEN_BITS},
    ),
    qpair(
        QConv2d(2, 9, 6, 7, 7, 5, 3, (2, 1), (2, 0, 1, 1), (1, 2), groups=7, **SIGNED),
        out_c=3,
        kh=1,
        kw=1,
        weight_dtype="uint8",
    ),
]


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        *(("rpi4-sim", workload) for workload in SEPARABLE),
        *((name, workload) for name in ("rpi4-32-sim", "rpi5-sim") for workload in SEPARABLE[1::2]),
    ],
    ids=str,
)
def test_bytes_on_arm(outcomes, workload, name):
    for config, outcome in outcomes(name, workload).items():
        assert (outcome.error, outcome.max_error) == (None, 0), (config, outcome.message)


@pytest.mark.parametrize(
    ("strips", "workload"),
    [
        # Padding on one side, on the other, and on both by more than the filter needs.
        (2, spread_first(2, (11, 12), 40, stride=(2, 2), pad=(0, 0, 1, 1), **SEVEN_BITS)),
        (4, spread_first(1, (9, 12), 7, pad=(1, 1, 1, 1), out_zero=5, **BYTES)),
        (2, spread_first(1, (8, 15), 24, stride=(1, 3), dilation=(2, 1), pad=(3, 2, 0, 2), **SIGNED)),
    ],
    ids=str,
)
def test_strips_are_exact(outcomes, strips, workload):
    for config, outcome in outcomes("rpi4-sim", workload, strips=strips).items():
        assert (outcome.error, outcome.max_error) == (None, 0), (config, outcome.message)


def expand_first(n, size, channels, second, **more):
    """A pointwise convolution of 13 channels, then a depthwise one."""
    spread = {"out_c": channels, "kh": 3, "kw": 3, "groups": channels}
    return qpair(QConv2d(n, *size, 13, channels, 1, 1, **more), **spread, **second)


@pytest.mark.parametrize(
    ("chunk", "workload"),
    [
        # Scales of all channels and one a channel, in either convolution; padding on one side.
        (32, expand_first(2, (9, 7), 64, {"stride": (2, 1), "pad": (0, 1, 2, 0)}, per_channel=False)),
        (48, expand_first(1, (6, 11), 96, {"per_channel": False, **SEVEN_BITS}, data_zero=5, **SEVEN_BITS)),
    ],
    ids=str,
)
def test_runs_of_channels_are_exact(outcomes, chunk, workload):
    for config, outcome in outcomes("rpi4-sim", workload, chunk=chunk).items():
        assert (outcome.error, outcome.max_error) == (None, 0), (config, outcome.message)


@pytest.mark.parametrize("workload", [SEPARABLE[0], spread_first(1, (8, 12), 48, pad=(1, 1, 1, 1))], ids=str)
def test_copies_are_no_calls(workload):
    kernel, target = registry.kernel("qseparable"), CATALOGUE["rpi4"]
    function = kernel.build(workload, kernel.recommend(workload, target), target, 1, "main")
    code = compile_object(function, target)
    assert b"memset" not in code
    assert b"memcpy" not in code


def test_what_is_not_separable():
    reason = registry.why_not_tunable(CHAINS[0], CATALOGUE["rpi4"])
    assert "qseparable: as pointwise, then depthwise" in reason
    assert "has not one filter to each channel" in reason
