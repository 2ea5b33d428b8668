"""Quantized kernels on a simulated board: exact with every block, on shapes that no tile divides."""

import random
from dataclasses import replace

import pytest

from bench.unfused_sim import unfused_cycles
from kernels import registry
from kernels.int8.arm.operands import signedness
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d
from worker.candidate import Candidate
from worker.measure.measure import MeasureOptions, measure

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

SYMMETRIC = {
    "data_dtype": "int8",
    "out_dtype": "int8",
    "weight_range": (-127, 127),
    "data_zero": 4,
    "out_zero": -3,
}
SHAPES = [
    QConv2d(1, 7, 9, 5, 13, 3, 3, (2, 1), (1, 0, 2, 1), (1, 2), weight_range=(-127, 127), clamp=(20, 200)),
    QConv2d(2, 5, 5, 32, 19, 1, 1, scale="small", **SYMMETRIC),  # windows in place, two images
    QConv2d(1, 6, 6, 16, 9, 3, 3, pad=(0, 2, 1, 0), weight_dtype="uint8", data_zero=128, out_zero=7),
    QConv2d(1, 6, 6, 1, 1, 3, 2, pad=(1, 1, 1, 1), weight_dtype="uint8", weight_zero=77),  # one channel
    QConv2d(1, 4, 6, 24, 10, 3, 3, pad=(1, 1, 1, 1), per_channel=False, scale="power", **SYMMETRIC),
    QConv2d(1, 5, 4, 8, 7, 3, 1, out_dtype="int32", data_dtype="uint8"),
]
DEPTHWISE = [
    QConv2d(1, 9, 7, 19, 19, 3, 3, (2, 2), (0, 1, 1, 0), groups=19, weight_range=(-127, 127), data_zero=9),
    QConv2d(1, 7, 9, 24, 24, 3, 3, pad=(1, 1, 1, 1), groups=24, scale="small", **SYMMETRIC),
    QConv2d(1, 9, 9, 11, 11, 3, 3, (1, 1), (2, 0, 0, 3), (2, 1), groups=11, **SYMMETRIC),
    QConv2d(2, 6, 5, 3, 3, 3, 3, pad=(1, 1, 1, 1), groups=3, weight_dtype="uint8", weight_zero=99),
    QConv2d(1, 5, 5, 1, 1, 3, 3, groups=1, **SYMMETRIC),
    QConv2d(1, 8, 8, 32, 32, 5, 5, pad=(2, 2, 2, 2), groups=32, out_dtype="int32"),
    QConv2d(1, 11, 6, 16, 16, 3, 3, (1, 2), groups=16, data_dtype="int8"),  # no padding
]
FLAT = [
    # Rows of bytes that no vector divides, runs shorter than a vector, planes of columns, both signs.
    QConv2d(1, 7, 7, 160, 160, 3, 3, pad=(1, 1, 1, 1), groups=160, weight_range=(-127, 127), data_zero=9),
    QConv2d(2, 9, 13, 24, 24, 3, 3, (2, 2), (0, 1, 1, 0), groups=24, clamp=(-90, 101), **SYMMETRIC),
    QConv2d(
        *(1, 13, 17, 21, 21, 5, 3, (1, 2), (2, 2, 0, 3), (2, 1), 21),
        weight_dtype="uint8",
        weight_zero=128,
        data_zero=200,
        per_channel=False,
        scale="power",
    ),
    QConv2d(1, 12, 52, 8, 8, 3, 3, (1, 3), (1, 1, 1, 1), (1, 2), 8, weight_range=(-64, 64)),
    QConv2d(1, 6, 9, 128, 128, 3, 3, groups=128, out_dtype="int32"),
    QConv2d(1, 8, 16, 40, 40, 2, 7, (3, 1), (1, 6, 2, 6), groups=40, scale="small", **SYMMETRIC),
    QConv2d(1, 3, 3, 48, 48, 3, 3, pad=(1, 1, 1, 1), groups=48, scale="small", clamp=(3, 250), out_zero=17),
]
WINOGRAD = [
    QConv2d(1, 9, 7, 5, 13, 3, 3, pad=(0, 2, 1, 0), weight_range=(-127, 127), clamp=(20, 200), data_zero=9),
    QConv2d(2, 7, 11, 24, 20, 1, 7, pad=(0, 3, 0, 3), scale="small", **SYMMETRIC),
    QConv2d(1, 13, 6, 17, 9, 7, 1, pad=(3, 0, 3, 0), **SYMMETRIC),
    QConv2d(1, 9, 9, 8, 33, 5, 5, pad=(2, 2, 2, 2), scale="power", **SYMMETRIC),
    QConv2d(1, 6, 5, 40, 12, 3, 1, pad=(1, 0, 1, 0), weight_dtype="uint8", weight_zero=128, data_zero=128),
    QConv2d(1, 12, 12, 64, 64, 3, 3, data_dtype="uint8", out_dtype="int32"),
    QConv2d(1, 5, 20, 16, 3, 2, 4, pad=(1, 1, 0, 2), **SYMMETRIC),
    QConv2d(1, 4, 9, 820, 4, 3, 3, weight_range=(-127, 127), data_zero=255),  # sums wrap
]
GROUPED = [
    QConv2d(1, 9, 7, 32, 32, 3, 3, pad=(1, 1, 1, 1), groups=8, weight_range=(-127, 127), data_zero=9),
    QConv2d(2, 7, 6, 21, 14, 3, 2, (2, 1), (1, 0, 2, 1), (1, 2), groups=7, clamp=(20, 200)),  # 3 -> 2
    QConv2d(1, 5, 13, 52, 60, 1, 3, pad=(0, 1, 0, 1), groups=2, scale="small", **SYMMETRIC),  # 26 -> 30
    QConv2d(1, 6, 5, 6, 18, 3, 3, pad=(2, 2, 2, 2), groups=6, weight_dtype="uint8", weight_zero=99),  # 1 -> 3
    QConv2d(1, 4, 15, 48, 16, 1, 1, groups=4, out_dtype="int32"),
]
DYNAMIC = [
    QConv2d(1, 1, 9, 37, 13, 1, 1, out_dtype="float32"),
    QConv2d(1, 1, 6, 64, 19, 1, 1, data_dtype="int8", out_dtype="float32", weight_range=(-127, 127)),
]
DEEP = QConv2d(1, 3, 5, 136, 29, 1, 1, scale="small", **SYMMETRIC)
SPILLING = "qdepthwise_hvx(requant=exact, rows=7, tall=2, touch=0, wide=1)"
"""Has an address on the stack that LLVM would store and load in one packet, which QEMU does wrong."""
ROUNDING = 1e-6
OPTIONS = MeasureOptions(cold=False, min_time_s=0.001, run_timeout_s=60.0)
EVERY_SIZE = [(rows, columns) for rows in range(1, 9) for columns in range(1, 9)]


@pytest.fixture
def wrong(nursery, builder, tmp_path):
    """Which configs, measured on a board, fail or are off by anything."""

    def run(board, workload, configs):
        batch = [builder.build(Candidate(workload, config, CATALOGUE[board.target])) for config in configs]
        outcomes = measure(nursery, board, batch, OPTIONS, lock_dir=tmp_path)
        assert len(outcomes) == len(configs)
        found = zip(configs, outcomes, strict=True)
        most = ROUNDING if workload.is_dynamic else 0
        return [(str(c), o.message, o.max_error) for c, o in found if o.error or not o.max_error <= most]

    return run


@pytest.mark.parametrize("workload", [*SHAPES, *DEPTHWISE, *GROUPED, *WINOGRAD, *DYNAMIC], ids=str)
def test_quantized_kernels_are_exact(simulated_boards, wrong, workload):
    board, rng = simulated_boards["rpi4-sim"], random.Random(workload.key)
    for space in registry.search_space(workload, CATALOGUE["rpi4"]).spaces:
        recommended = registry.kernel(space.kernel).recommend(workload, CATALOGUE["rpi4"])
        configs = {recommended, *(space.sample(rng) for _ in range(2))}
        assert wrong(board, workload, sorted(configs, key=str)) == []


@pytest.mark.parametrize("workload", [*SHAPES, *DEPTHWISE, *GROUPED], ids=str)
def test_power10_is_exact(simulated_boards, wrong, workload):
    board, target, rng = simulated_boards["power10-sim"], CATALOGUE["power10"], random.Random(workload.key)
    for space in registry.search_space(workload, target).spaces:
        configs = {registry.kernel(space.kernel).recommend(workload, target), space.sample(rng)}
        assert wrong(board, workload, sorted(configs, key=str)) == []


@pytest.mark.parametrize(
    "workload", [SHAPES[1], SHAPES[2], SHAPES[4], DEPTHWISE[1], DEPTHWISE[3], GROUPED[2]], ids=str
)
def test_hexagon_is_exact(simulated_boards, wrong, workload):
    board, target = simulated_boards["hexagon-sim"], CATALOGUE["hexagon-v66"]
    assert wrong(board, workload, registry.recommendations(workload, target)[:1]) == []


@pytest.mark.parametrize("workload", FLAT, ids=str)
def test_depthwise_along_rows_of_bytes_is_exact(simulated_boards, wrong, workload):
    """On Hexagon, at random points of the space."""
    board, target, rng = (
        simulated_boards["hexagon-sim"],
        CATALOGUE["hexagon-v66"],
        random.Random(workload.key),
    )
    kernel = registry.kernel("qdepthwise_hvx")
    points = [kernel.recommend(workload, target)]
    exact = list(kernel.exact_part(workload, kernel.space(workload, target)))
    spilling = [config for config in exact if str(config) == SPILLING] if workload == FLAT[0] else []
    assert len(spilling) == (workload == FLAT[0])
    assert wrong(board, workload, points + rng.sample(exact, 2) + spilling) == []


@pytest.mark.parametrize(("block", "chain"), [("pairwise", 2), ("lane", 1)])
def test_blocks_of_every_size_are_exact(simulated_boards, wrong, block, chain):
    """Seed 001's 64 micro-kernels, with edges in windows and in filters. Some need too many registers.

    Either block takes the sizes that the other leaves, like the two colours of a chessboard, so that both
    come with every number of rows and of columns.
    """
    workload = QConv2d(1, 3, 5, 10, 15, 2, 2, pad=(1, 1, 0, 0), scale="small", **SYMMETRIC)
    space = registry.kernel("qgemm").space(workload, CATALOGUE["rpi4"])
    configs = [
        Config.of(
            "qgemm", block=block, chain=chain, rows=m, columns=n, rows_from="tiles", slab=2, requant="high"
        )
        for m, n in EVERY_SIZE
    ]
    fitting = [config for config in configs if space.why_not(config) is None]
    assert len(fitting) == (64 if block == "lane" else 49)
    mine = [c for c in fitting if (c.int("rows") + c.int("columns") + chain) % 2]
    assert wrong(simulated_boards["rpi4-sim"], workload, mine) == []


@pytest.mark.parametrize("workload", [SHAPES[0], SHAPES[1], SHAPES[4], DEEP, DYNAMIC[1]], ids=str)
def test_products_added_by_fours_are_exact(simulated_boards, wrong, workload):
    """Filters whose weights are at the ends of their range are added by twos, the others by fours."""
    space = registry.search_space(workload, CATALOGUE["rpi4"]).of("qgemm")
    points = [config for config in space if config["block"] == "fours"]
    drawn = [
        random.Random(1).choice([config for config in points if config["rows_from"] == source])
        for source in dict.fromkeys(config["rows_from"] for config in points)
    ]
    assert wrong(simulated_boards["rpi4-sim"], workload, drawn) == []


@pytest.mark.parametrize(
    "workload",
    [
        QConv2d(1, 3, 11, 1048, 35, 1, 1, scale="small", **SYMMETRIC),
        QConv2d(2, 7, 5, 117, 38, 3, 3, (2, 1), (1, 0, 2, 1), scale="small", **SYMMETRIC),
    ],
    ids=str,
)
def test_every_order_of_loops_is_exact(simulated_boards, wrong, workload):
    space = registry.search_space(workload, CATALOGUE["rpi4"]).of("qgemm")
    rng, configs = random.Random(workload.key), []
    for order, split in (("windows", 2), ("windows", 4), ("filters", 1), ("filters", 2), ("filters", 4)):
        found = [c for c in space if (c["order"], c["split"]) == (order, split) and c.int("rows") > 1]
        block = rng.choice(["fours", "pairwise", "lane"])
        configs.append(rng.choice([config for config in found if config["block"] == block]))
    assert wrong(simulated_boards["rpi4-sim"], workload, configs) == []


@pytest.mark.parametrize("block", ["dot", "matrix", "pairwise", "lane"])
@pytest.mark.parametrize(
    ("workload", "sizes"),
    [
        (
            QConv2d(
                1, 5, 5, 12, 27, 2, 3, pad=(1, 0, 0, 1), weight_range=(-127, 127), data_zero=9, out_zero=4
            ),
            [(8, 12), (3, 5), (2, 1)],
        ),
        (
            QConv2d(1, 4, 7, 16, 14, 1, 1, data_dtype="uint8", weight_dtype="uint8", data_zero=3),
            [(12, 4), (7, 8), (5, 2)],
        ),
    ],
    ids=str,
)
def test_newer_instructions_are_exact(simulated_boards, wrong, workload, sizes, block):
    space = registry.search_space(workload, CATALOGUE["graviton3"]).of("qgemm")
    points = [config for config in space if config["block"] == block]
    chosen = [c for c in points if (c.int("rows"), c.int("columns")) in sizes and c["slab"] == 3]
    assert len(chosen) >= 2
    assert wrong(simulated_boards["graviton3-sim"], workload, chosen) == []


@pytest.mark.parametrize("workload", GROUPED, ids=str)
def test_groups_by_dot_products_are_exact(simulated_boards, wrong, workload):
    space = registry.search_space(workload, CATALOGUE["graviton3"]).of("qgrouped_neon")
    points = [config for config in space if config["multiply"] == "dot"]
    fits = signedness(workload) is not None
    assert bool(points) == fits
    board = simulated_boards["rpi5-sim"]
    assert not fits or wrong(board, workload, random.Random(7).sample(points, 4)) == []


@pytest.mark.parametrize("kernel", ["qgemm", "qwinograd_neon"])
def test_scaling_after_all_sums_is_exact_too_and_takes_longer(
    simulated_boards, nursery, builder, tmp_path, kernel
):
    # Weights so small that four products always fit 16 bits: else it is for those drawn to say how many do.
    conv = QConv2d(1, 10, 12, 32, 40, 3, 3, pad=(1, 1, 1, 1), scale="small", **SYMMETRIC)
    conv = replace(conv, weight_range=(-63, 63))
    board, target = simulated_boards["rpi4-sim"], CATALOGUE["rpi4"]
    config = registry.kernel(kernel).recommend(conv, target)
    batch = [builder.build(Candidate(conv, config, target))]
    (fused,) = measure(nursery, board, batch, OPTIONS, lock_dir=tmp_path)
    unfused = unfused_cycles(conv, config, target, board, tmp_path)
    assert unfused is not None
    # Sums by fours are scaled as fast afterwards where all stay in L1, as those of so small a layer do.
    least = 0.95 if dict(config.knobs).get("block") == "fours" else 1.0
    assert unfused > least * fused.counters["cycles"]


def test_integers_take_the_same_cycles_each_time(simulated_boards, nursery, builder, tmp_path):
    """How often a scaled sum lies so near a half that it is looked at again depends on the data."""
    board, target = simulated_boards["rpi4-sim"], CATALOGUE["rpi4"]
    workload = QConv2d(1, 14, 14, 96, 96, 1, 1, **SYMMETRIC)
    kernel = registry.kernel("qgemm")
    best = kernel.recommend(workload, target)
    configs = [
        replace(best, knobs=tuple({**dict(best.knobs), "requant": way}.items()))
        for way in kernel.space(workload, target).knobs["requant"]
    ]
    batch = [builder.build(Candidate(workload, config, target)) for config in configs]
    found = [measure(nursery, board, batch, OPTIONS, lock_dir=tmp_path) for _ in range(3)]
    assert not any(outcome.error for outcomes in found for outcome in outcomes)
    times = [[(outcome.cost_s, outcome.counters) for outcome in outcomes] for outcomes in found]
    assert times[0] == times[1] == times[2]
