import random
from dataclasses import replace

import guarded
import pytest
from on_targets import ALL, AVX2, AVX512, WIDTHS, assembly_of

from kernels.float.gemm.kernel import PackedGemm
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d, Epilogue, Gemm

KERNEL = PackedGemm()


def config(**knobs: int | str) -> Config:
    return Config.of("gemm", **{"chains": 1, "kc": 9999, "mc": 9999, "nc": 9999, **knobs})


def error_of(workload: Gemm, config: Config, threads: int = 1, target: Target = AVX2) -> float:
    return guarded.error_of(KERNEL, workload, config, target, threads)


@pytest.mark.parametrize(
    ("workload", "knobs"),
    [
        (Gemm(1, 1, 1), {"rows": 1, "vectors": 1}),
        (Gemm(1, 83, 61, epilogue=ALL), {"rows": 1, "vectors": 4, "chains": 2}),
        (Gemm(1, 10, 84, epilogue=Epilogue(bias=True)), {"rows": 1, "vectors": 2, "chains": 4}),
        (Gemm(7, 19, 100, epilogue=ALL), {"rows": 4, "vectors": 3, "kc": 33}),
        (Gemm(13, 5, 29, epilogue=Epilogue(residual=True)), {"rows": 6, "vectors": 2}),
        (
            Gemm(50, 97, 40, epilogue=Epilogue(clamp=(-1.0, 1.0))),
            {"rows": 6, "vectors": 2, "mc": 12, "nc": 32},
        ),
        (Gemm(50, 97, 41, epilogue=ALL), {"rows": 4, "vectors": 3, "kc": 16, "mc": 8, "nc": 48}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("threads", "split"),
    [(1, {})] + [(n, {"split": split}) for n in (2, 3, 4) for split in ("panels", "rows", "both")],
)
def test_computes_the_product_on_shapes_no_block_divides(workload, knobs, threads, split):
    assert error_of(workload, config(**knobs, **split), threads) < KERNEL.tolerance


@pytest.mark.parametrize(
    ("workload", "split"), [(Gemm(1, 4096, 256), "panels"), (Gemm(4096, 16, 256), "rows")], ids=str
)
def test_threads_share_out_what_there_is_more_of(workload, split):
    for threads in (2, 3, 4):
        space, pick = (
            KERNEL.space(workload, AVX2, threads=threads),
            KERNEL.recommend(workload, AVX2, threads=threads),
        )
        assert space.why_not(pick) is None
        assert pick["split"] == split
        assert KERNEL.predict(workload, pick, AVX2, threads) < KERNEL.predict(workload, pick, AVX2)


@pytest.mark.parametrize("shape", [(1, 1000, 300), (3, 40, 70), (23, 77, 130), (130, 33, 600), (2, 3, 5)])
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda target: target.name)
def test_every_space_is_small_and_holds_the_recommendation(shape, target):
    workload = Gemm(*shape)
    space = KERNEL.space(workload, target)
    assert space.why_not(KERNEL.recommend(workload, target)) is None
    assert 1 <= len(list(space)) <= 64


def test_random_points_of_the_space_are_correct():
    rng = random.Random(7)
    for workload in (Gemm(2, 70, 33, epilogue=ALL), Gemm(101, 59, 530, epilogue=ALL)):
        space = KERNEL.space(workload, AVX2)
        for point in rng.sample(list(space), 3):
            assert error_of(workload, point) < KERNEL.tolerance, point


def test_rows_whose_lines_share_a_place_in_the_first_cache_are_few():
    """Rows of 3072 floats lie whole pages apart, and 32 KB hold eight such lines; those of 768 do not."""
    target = replace(AVX512, l1_bytes=32 << 10)
    for k, many in ((768, True), (1024, False), (3072, False)):
        recommended = KERNEL.recommend(Gemm(64, 768, k), target)
        assert (recommended.int("rows") > 9) == many, recommended


@pytest.mark.parametrize(("target", "register"), [(AVX2, "%ymm"), (AVX512, "%zmm")])
def test_the_recommended_block_fills_the_registers_and_spills_none(target, register):
    workload = Gemm(504, 480, 256)
    lines = assembly_of(KERNEL, workload, KERNEL.recommend(workload, target), target).splitlines()
    assert sum("vfmadd" in line and register in line for line in lines) >= target.vector_registers // 2
    # A spilled accumulator would be stored and loaded in the loop; the entry code may store one vector.
    assert sum(register in line and "(%rsp)" in line for line in lines) <= 1


@pytest.mark.parametrize(
    ("m", "rows", "prefetches"), [(1, 1, False), (12, 12, True), (64, 13, True), (4096, 13, False)]
)
def test_the_next_panel_is_prefetched_where_few_tiles_would_wait_for_it(m, rows, prefetches):
    text = assembly_of(KERNEL, Gemm(m, 96, 64), config(rows=rows, vectors=2), AVX512)
    assert ("prefetcht0" in text) == prefetches


def test_what_is_prefetched_may_lie_beyond_the_weights():
    workload = Gemm(37, 70, 50, epilogue=ALL)
    for threads, split in ((1, {}), (3, {"split": "rows"})):
        tall = config(rows=8, vectors=3, mc=16, nc=48, kc=17, **split)
        assert error_of(workload, tall, threads) < KERNEL.tolerance


def test_of_equal_blocks_the_one_that_reads_panels_least_is_taken():
    pick = KERNEL.recommend(Gemm(12, 768, 768), AVX512)
    assert (pick["rows"], pick["vectors"]) == (12, 2)


def test_refuses_what_is_no_matrix_product():
    conv = Conv2d(1, 8, 8, 8, 8, 1, 1)
    assert KERNEL.why_not(Gemm(1, 2, 3), AVX2) is None
    assert KERNEL.why_not(conv, AVX2) == "computes gemm, not conv2d"


@pytest.mark.parametrize("target", WIDTHS, ids=lambda target: f"{target.vector_bits} bits")
@pytest.mark.parametrize("workload", [Gemm(7, 37, 45, epilogue=ALL), Gemm(1, 83, 61, epilogue=ALL)], ids=str)
def test_any_vector_length_computes_the_same(workload, target):
    for point in random.Random(5).sample(list(KERNEL.space(workload, target)), 2):
        assert error_of(workload, point, target=target) < KERNEL.tolerance, point
