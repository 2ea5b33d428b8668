"""Every kernel family on every simulated board: right on shapes that no tile divides, with vector code."""

import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.target import CATALOGUE
from kernels.workload.base import RELU, Attention, Conv2d, ConvChain, Epilogue, Gemm, MatMul, NarrowGemm, View
from worker.candidate import Candidate
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.measure.measure import MeasureOptions, measure

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

ALL = Epilogue(bias=True, residual=True, clamp=(-0.5, 1.5))
PLAIN, BIAS = Epilogue(), Epilogue(bias=True, clamp=RELU)
HEADS = View((5 * 64, 16), 64, 1)
SHAPES = [
    Conv2d(1, 1, 5, 7, 3, 3, 3, pad=(1, 1, 1, 1), epilogue=BIAS),  # one channel, few windows
    Conv2d(1, 13, 9, 11, 21, 3, 3, pad=(1, 1, 1, 1), epilogue=ALL),  # sizes that no tile divides
    Conv2d(2, 9, 13, 13, 11, 3, 3, pad=(2, 0, 0, 1), epilogue=PLAIN),  # padding on some sides, two images
    Conv2d(1, 5, 15, 14, 19, 3, 5, stride=(2, 3), pad=(0, 2, 1, 0), epilogue=BIAS),
    Conv2d(1, 6, 12, 17, 9, 3, 3, pad=(2, 2, 2, 2), dilation=(2, 3), epilogue=BIAS),
    Conv2d(1, 9, 1, 70, 13, 1, 3, pad=(0, 12, 0, 1), dilation=(1, 6), epilogue=ALL),  # along lines
    Conv2d(1, 160, 7, 7, 18, 1, 1, epilogue=ALL),  # pointwise, in sets of channels
    Conv2d(1, 36, 9, 10, 26, 3, 2, pad=(1, 0, 1, 1), epilogue=BIAS),
    Conv2d(1, 12, 9, 16, 22, 1, 1, stride=(2, 2), epilogue=PLAIN),
    Conv2d(1, 10, 11, 13, 10, 3, 3, pad=(1, 1, 1, 1), groups=10, epilogue=ALL),  # depthwise
    Conv2d(1, 6, 13, 9, 15, 3, 3, stride=(2, 2), pad=(1, 1, 0, 0), groups=3, epilogue=BIAS),
    Gemm(7, 29, 33, epilogue=ALL),
    Gemm(1, 37, 90, epilogue=BIAS),  # one row: streams its weights
    Gemm(30, 9, 21, epilogue=PLAIN),
    Gemm(101, 523, 50, epilogue=ALL),  # several blocks of k, rows and columns
    MatMul((3,), 5, 16, 7, View((35,), 7, 1), View((112,), 1, 7), View((80,), 16, 1)),
    ConvChain(
        Conv2d(1, 10, 11, 13, 10, 3, 3, pad=(1, 1, 1, 1), groups=10, epilogue=BIAS),
        Conv2d(1, 10, 11, 13, 18, 1, 1, epilogue=ALL),
    ),
    Attention((2, 4), 5, 5, 16, 16, HEADS, HEADS.turned, HEADS, HEADS, View((0, 0), 5, 1), scale=0.25),
]
VECTOR_CODE = {  # a board of each instruction set that has vectors of floats
    "rpi4-sim": r"\bfmla\s+v\d+\.4s",
    "rpi4-32-sim": r"\bvfma\.f32\s+q\d+",
    "riscv-k1-sim": r"\bvfm(?:acc|add)\.v[vf]\b",
    "power10-sim": r"\bxvm(?:add|sub)[am]sp\b|\bxvf32gerpp\b",
}
OPTIONS = MeasureOptions(cold=False, min_time_s=0.001, run_timeout_s=60.0)


def candidates(workload, target, met):
    """Configs of every family that applies; ``met`` counts the shapes that each family has had.

    The first shape of a family has the recommended config and a drawn one, the others have one of these in
    turn: what a family makes of odd shapes is proven on this machine, here that each board's code is right.
    """
    chosen = []
    for kernel in registry.applicable(workload, target):
        rng, turn = random.Random(f"{workload.key}{target.name}"), met[kernel.name]
        met[kernel.name] += 1
        layouts = kernel.layouts(workload, target)[0]
        if turn % 2 == 0:
            chosen.append(kernel.recommend(workload, target, layouts))
        if turn % 2 or not turn:
            chosen.append(kernel.space(workload, target, layouts).sample(rng))
    return [Candidate(workload, config, target) for config in dict.fromkeys(chosen)]


@pytest.mark.parametrize("model", sorted([*VECTOR_CODE, "hexagon-sim"]))
def test_every_family_is_right(simulated_boards, nursery, builder, tmp_path, model):
    board, target = simulated_boards[model], CATALOGUE[SIM_MODELS[model].target]
    wrong, families = [], Counter()
    for workload in SHAPES:
        with ThreadPoolExecutor(2) as pool:
            batch = list(pool.map(builder.build, candidates(workload, target, families)))
        for built, outcome in zip(
            batch, measure(nursery, board, batch, OPTIONS, lock_dir=tmp_path), strict=True
        ):
            config = built.candidate.config
            if outcome.error is not None or outcome.max_error > registry.kernel(config.kernel).tolerance:
                wrong.append((str(workload), str(config), outcome.error, outcome.message))
    assert not wrong
    expected = {
        "sconv",
        "fconv",
        "winograd",
        "winograd_lines",
        "depthwise",
        "depthwise_rows",
        "grouped",
        "gemm",
        "matmul",
        "attention",
        "chain",
        "separable",
    }
    matrix = {"sconv_mma", "gemm_mma", "winograd_mma"} if target.matrix else set()
    lanes = {"fconv_lanes"} if target.isa.name == "aarch64" else set()
    assert set(families) == expected | matrix | lanes


def test_rounded_data_meet_quanta_as_bytes_on_arm(simulated_boards, nursery, builder, tmp_path):
    """By dot products where quanta are of 4 bits, as floats of those of 8."""
    board, target = simulated_boards["rpi5-sim"], CATALOGUE["rpi5"]
    for bits in (4, 8):
        work = NarrowGemm(5, 21, 100, bits, 24, zeros=bits == 8, rounded=True)
        kernel = registry.kernel("narrow")
        config = kernel.recommend(work, target)
        module = compile_module(kernel.build(work, config, target, 1, "main"), target)
        assert ("sdot" in module.inspect_source("asm")) == (bits == 4)
        built = builder.build(Candidate(work, config, target))
        (outcome,) = measure(nursery, board, [built], OPTIONS, lock_dir=tmp_path)
        assert (outcome.error, outcome.message) == (None, "")
        assert outcome.max_error < 1e-5


@pytest.mark.parametrize("model", sorted(VECTOR_CODE))
def test_every_family_uses_the_vector_unit(model):
    target = CATALOGUE[SIM_MODELS[model].target]
    deep = [Conv2d(1, 64, 20, 20, 64, 3, 3), Gemm(64, 64, 64), Conv2d(1, 8, 20, 20, 8, 3, 3, groups=8)]
    for workload in deep:
        for kernel in registry.applicable(workload, target):
            config = kernel.recommend(workload, target)
            module = compile_module(kernel.build(workload, config, target, 1, "main"), target)
            multiply_adds = re.findall(VECTOR_CODE[model], module.inspect_source("asm"))
            assert len(multiply_adds) >= 8, (kernel.name, str(config))


@pytest.mark.parametrize(
    ("work", "family"),
    [
        (Conv2d(1, 32, 14, 14, 64, 3, 3, pad=(1, 1, 1, 1), epilogue=BIAS), "sconv"),
        (Gemm(64, 256, 192, epilogue=BIAS), "gemm"),
        (Conv2d(1, 64, 20, 20, 96, 3, 3, pad=(1, 1, 1, 1), epilogue=BIAS), "winograd"),
    ],
)
def test_the_matrix_unit_beats_the_vector_unit(simulated_boards, nursery, builder, tmp_path, work, family):
    """The clock charges an outer product of 4x4 as one instruction of two pipes."""
    target = CATALOGUE[SIM_MODELS["power10-sim"].target]
    chosen = [registry.kernel(name).recommend(work, target) for name in (family, f"{family}_mma")]
    batch = [builder.build(Candidate(work, config, target)) for config in chosen]
    vector, matrix = measure(nursery, simulated_boards["power10-sim"], batch, OPTIONS, lock_dir=tmp_path)
    assert vector.error is None
    assert matrix.error is None
    assert matrix.cost_s < 0.8 * vector.cost_s
    peak = 2 * 16 * 2 * SIM_MODELS["power10-sim"].hz  # two outer products of 16 multiply-adds a cycle
    # Winograd needs four of nine multiplications at the least.
    assert work.flops / matrix.cost_s < (peak * 9 / 4 if family == "winograd" else peak)


@pytest.mark.parametrize(
    "conv",
    [
        Conv2d(1, 40, 9, 12, 10, 3, 3, pad=(1, 1, 1, 1), epilogue=ALL),  # rows that halves of pairs cross
        Conv2d(2, 40, 10, 16, 13, 3, 3, pad=(0, 1, 2, 1), epilogue=BIAS),  # rows of whole pairs
        Conv2d(1, 300, 11, 13, 18, 1, 1, epilogue=PLAIN),  # pointwise, a tile at the end of three vectors
    ],
    ids=str,
)
def test_sums_of_the_matrix_unit_wait_for_the_next_channels(
    conv, simulated_boards, nursery, builder, tmp_path
):
    """As whole accumulators, in the order of either loop nest, for every block."""
    target, kernel = CATALOGUE["power10"], registry.kernel("sconv_mma")
    several = [each for each in kernel.space(conv, target) if int(each["channels"]) < conv.in_c]
    kinds = {(each["block"], each["order"], each["pack"]): each for each in several}
    assert {(block, order) for block, order, pack in kinds if pack} >= {("4x8", "is"), ("4x8", "ws")}
    batch = [builder.build(Candidate(conv, config, target)) for config in kinds.values()]
    for config, outcome in zip(
        kinds,
        measure(nursery, simulated_boards["power10-sim"], batch, OPTIONS, lock_dir=tmp_path),
        strict=True,
    ):
        assert (outcome.error, outcome.message) == (None, ""), config
        assert outcome.max_error < 1e-5, config
