"""Quantized candidates through building and measuring on a board: right ones, wrong ones, refused ones."""

import dataclasses

import pytest

from kernels import registry
from kernels.numerics import Numerics
from kernels.workload.base import Epilogue, NarrowGemm, QConv2d
from worker.candidate import Candidate
from worker.measure.measure import MeasureOptions, measure
from worker.outcome import ErrorKind

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
CONV = QConv2d(
    1, 9, 9, 10, 20, 3, 3, pad=(1, 1, 1, 1), data_zero=9, out_zero=4, weight_range=(-64, 64), scale="small"
)


@pytest.fixture
def run(nursery, board, tmp_path):
    return lambda built: measure(nursery, board, built, OPTIONS, lock_dir=tmp_path)


@pytest.mark.parametrize(
    "conv",
    [
        CONV,
        dataclasses.replace(CONV, data_dtype="int8", out_dtype="int8", per_channel=False, scale="any"),
        dataclasses.replace(CONV, out_dtype="int32", out_zero=0, scale="any", weight_range=None),
    ],
    ids=str,
)
def test_every_family_is_exact_on_the_board(run, builder, host, conv):
    configs = registry.recommendations(conv, host, Numerics.EXACT)
    assert configs
    outcomes = run([builder.build(Candidate(conv, config, host)) for config in configs])
    assert [(outcome.error, outcome.message) for outcome in outcomes] == [(None, "")] * len(outcomes)
    assert [outcome.max_error for outcome in outcomes] == [0] * len(outcomes)
    assert all(outcome.cost_s > 0 for outcome in outcomes)


@pytest.mark.parametrize(
    "workload",
    [
        QConv2d(1, 1, 9, 40, 20, 1, 1, out_dtype="float32"),
        NarrowGemm(3, 20, 40, 4, 16, zeros=True, epilogue=Epilogue(bias=True, residual=True)),
        NarrowGemm(2, 20, 40, 16),
    ],
    ids=str,
)
def test_results_of_floats_are_right_on_the_board(run, builder, host, workload):
    configs = registry.recommendations(workload, host, Numerics.EXACT)
    outcomes = run([builder.build(Candidate(workload, config, host)) for config in configs])
    assert outcomes
    for outcome in outcomes:
        assert (outcome.error, outcome.message) == (None, "")
        assert 0 <= outcome.max_error < 1e-5
        assert outcome.cost_s > 0


def test_relaxed_configs_may_be_one_off_and_exact_jobs_have_none(run, builder, host):
    conv = dataclasses.replace(CONV, scale="any")
    config = next(c for c in registry.search_space(conv, host, Numerics.RELAXED) if c["requant"] == "int32")
    assert config not in set(registry.search_space(conv, host, Numerics.EXACT))
    assert registry.numerics_of(conv, config) == Numerics.RELAXED
    (outcome,) = run([builder.build(Candidate(conv, config, host))])
    assert outcome.error is None
    assert outcome.max_error <= 1


def test_a_config_that_the_workload_does_not_prove_is_not_built(builder, host):
    proven = next(
        (c for c in registry.search_space(CONV, host) if dict(c.knobs).get("multiply") == "bytes"), None
    )
    if proven is None:
        pytest.skip("this machine needs no byte pairs")
    outcome = builder.build(Candidate(dataclasses.replace(CONV, weight_range=None), proven, host))
    assert outcome.error == ErrorKind.CONSTRAINTS
    assert "multiply=bytes" in outcome.message
