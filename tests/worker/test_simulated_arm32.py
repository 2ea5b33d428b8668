"""Quantized kernels on the simulated board of 32-bit Arm: exact, in blocks that its registers hold."""

import random

import pytest
from test_simulated_quantized import DEPTHWISE, GROUPED, OPTIONS, SHAPES, SYMMETRIC, WINOGRAD

from kernels import registry
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d
from worker.candidate import Candidate
from worker.measure.measure import measure

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

TARGET = CATALOGUE["rpi4-32"]
DRAWN = 2


@pytest.fixture
def outcomes(simulated_boards, nursery, builder, tmp_path):
    """What came of the configs, measured on the board; all were exact."""

    def run(workload, configs):
        batch = [builder.build(Candidate(workload, config, TARGET)) for config in configs]
        found = measure(nursery, simulated_boards["rpi4-32-sim"], batch, OPTIONS, lock_dir=tmp_path)
        wrong = [
            (str(config), outcome.message, outcome.max_error)
            for config, outcome in zip(configs, found, strict=True)
            if outcome.error is not None or outcome.max_error != 0
        ]
        assert not wrong
        return found

    return run


def block(kind, rows, columns, chain=1):
    return Config.of(
        "qgemm",
        block=kind,
        rows=rows,
        columns=columns,
        chain=chain,
        rows_from="tiles",
        slab=2,
        requant="high",
    )


@pytest.mark.parametrize(
    "workload",
    [*SHAPES[:2], SHAPES[3], *DEPTHWISE[:2], DEPTHWISE[5], *GROUPED[:2], WINOGRAD[1], WINOGRAD[7]],
    ids=str,
)
def test_quantized_kernels_are_exact(outcomes, workload):
    rng = random.Random(7)
    for space in registry.search_space(workload, TARGET).spaces:
        recommended = registry.kernel(space.kernel).recommend(workload, TARGET)
        configs = {recommended, *(space.sample(rng) for _ in range(DRAWN))}
        outcomes(workload, sorted(configs, key=str))


def test_blocks_are_exact_as_far_as_there_are_registers(outcomes):
    """Edges in windows and in filters of every size."""
    workload = QConv2d(1, 3, 5, 10, 15, 2, 2, pad=(1, 1, 0, 0), scale="small", **SYMMETRIC)
    space = registry.kernel("qgemm").space(workload, TARGET)
    sizes = [(rows, columns) for rows in range(1, 9) for columns in range(1, 9)]
    fitting = {
        kind: [size for size in sizes if space.why_not(block(kind, *size, chain)) is None]
        for kind, chain in (("pairwise", 2), ("lane", 1))
    }
    assert set(sizes) - set(fitting["lane"]) == {(8, 5), (8, 6), (8, 7), (8, 8)}
    assert all(rows * columns < 15 for rows, columns in fitting["pairwise"])
    assert len(fitting["pairwise"]) == 29
    drawn = random.Random(1).sample(fitting["pairwise"], 6)
    configs = [block("pairwise", *size, chain) for size in drawn for chain in (1, 2)]
    configs += [block("lane", *size) for size in [(4, 8), (8, 4), (7, 7), (1, 1), (5, 3), (6, 8)]]
    outcomes(workload, configs)


def test_the_best_block_differs_by_target(outcomes, simulated_boards, nursery, builder, tmp_path):
    """Seed 001. What is best with 32 registers needs too many here; the clock charges for the spills."""
    conv = QConv2d(1, 14, 14, 96, 192, 1, 1, scale="small", **{**SYMMETRIC, "data_zero": 0, "out_zero": 0})
    space = registry.kernel("qgemm").space(conv, TARGET)
    assert space.why_not(block("lane", 8, 8)) is not None
    wide = [block("lane", 7, 8), block("lane", 4, 8)]
    here = outcomes(conv, wide)
    batch = [builder.build(Candidate(conv, config, CATALOGUE["rpi4"])) for config in wide]
    there = measure(nursery, simulated_boards["rpi4-sim"], batch, OPTIONS, lock_dir=tmp_path)
    assert here[0].cost_s > 1.05 * here[1].cost_s
    assert there[0].cost_s < there[1].cost_s
