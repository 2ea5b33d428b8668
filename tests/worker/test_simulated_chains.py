"""Chains on simulated boards: right on sizes that no block divides, at random points of the space."""

import random

import pytest

from kernels import registry
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
    """What comes of the recommended config and of a random one."""

    def run(name, workload):
        board, rng = simulated_boards[name], random.Random()
        target = CATALOGUE[board.target]
        (space,) = registry.search_space(workload, target).spaces
        configs = [registry.kernel(space.kernel).recommend(workload, target), space.sample(rng)]
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
