"""Loop nests: counts and working sets against walking through every turn of every loop."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from kernels import registry
from kernels.explain.loop_nest import Body, Branch, Loop, Nest, Straight, walk
from kernels.explain.loop_reader import read
from kernels.explain.nest_work import count, hot_path, working_set
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm, QConv2d, Workload

WORKLOADS: list[Workload] = [
    Conv2d(1, 6, 9, 9, 20, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(True, True, RELU)),
    Conv2d(2, 8, 11, 13, 12, 3, 3, stride=(2, 2), groups=4),
    Conv2d(1, 10, 8, 8, 24, 1, 1),
    Gemm(13, 70, 33),
]
CASES = [
    (workload, kernel.name, threads)
    for workload in WORKLOADS
    for kernel in registry.applicable(workload, CATALOGUE["x86-avx2"])
    for threads in (1, 3)
]


def generated(workload: Workload, name: str, threads: int) -> Nest:
    target, kernel = CATALOGUE["x86-avx2"], registry.kernel(name)
    space = kernel.space(workload, target, threads=threads)
    config = space.sample(random.Random(5)) or kernel.recommend(workload, target, threads=threads)
    return read(kernel.build(workload, config, target, threads, "main"))


def walked(body: Body, whole: list[Loop]) -> tuple[Counter[Straight], dict[Loop, dict[str, set[int]]]]:
    """How often each piece runs; of ``whole``, the elements that the first run of each loop touches."""
    runs: Counter[Straight] = Counter()
    touched: dict[Loop, dict[str, set[int]]] = {loop: defaultdict(set) for loop in whole}
    seen: set[Loop] = set()

    def go(body: Body, values: dict[int, int], open_: list[Loop]) -> None:
        for node in body:
            if isinstance(node, Straight):
                runs[node] += 1
                for access in node.accesses.values():
                    at = access.index.at(values)
                    for loop in open_:
                        touched[loop][access.buffer].update(range(at, at + access.lanes))
            elif isinstance(node, Branch):
                go(node.then if node.condition.at(values) else node.otherwise, values, open_)
            else:
                first = node in touched and node not in seen
                seen.add(node)
                start = node.start.at(values)
                for value in range(start, start + node.extent.at(values)):
                    inside = {**values, node.number: value}
                    go(node.body, inside, [*open_, node] if first else open_)

    go(body, {}, [])
    return runs, touched


@pytest.mark.parametrize(("workload", "kernel", "threads"), CASES, ids=str)
def test_counts_are_those_of_every_turn(workload: Workload, kernel: str, threads: int) -> None:
    nest = generated(workload, kernel, threads)
    work = count(nest)
    runs, _ = walked(nest.body, [])
    assert {piece: times for piece, times in work.runs.items() if times} == runs
    products = sum(work.products(node) for node in nest.body)
    if kernel == "winograd":
        assert products > 0
    else:
        # Edge tiles compute some elements twice, or lanes that nobody wants.
        assert workload.flops // 2 <= products <= workload.flops


@pytest.mark.parametrize(
    ("workload", "kernel"), [(WORKLOADS[1], "grouped"), (WORKLOADS[2], "sconv"), (WORKLOADS[3], "gemm")]
)
def test_working_sets_are_what_a_run_touches(workload: Workload, kernel: str) -> None:
    """In lines of one element; where no branch depends on a loop the estimate is exact."""
    nest = generated(workload, kernel, 1)
    hot = hot_path(nest, count(nest))
    assert hot is not None
    path, _ = hot
    _, touched = walked(nest.body, path)
    for loop in path:
        assert working_set(nest, loop, 4) == {name: 4 * len(seen) for name, seen in touched[loop].items()}


@pytest.mark.parametrize("target", ["x86-avx2", "x86-avx512", "rpi4"])
@pytest.mark.parametrize(
    "shape",
    [
        {"out_c": 32, "kh": 3, "kw": 3, "pad": (1, 1, 1, 1)},
        {"out_c": 64, "kh": 1, "kw": 1},
        {"out_c": 32, "kh": 3, "kw": 3, "pad": (1, 1, 1, 1), "groups": 32},
    ],
    ids=str,
)
def test_instructions_that_add_integer_products_count(target: str, shape: dict[str, Any]) -> None:
    factors = {"qwinograd": 36 / 16 / 9}
    conv = QConv2d(n=1, in_c=32, in_h=16, in_w=16, **shape)
    for config in registry.recommendations(conv, CATALOGUE[target]):
        kernel = registry.kernel(config.kernel)
        nest = read(kernel.build(conv, config, CATALOGUE[target], 1, "main"))
        work = count(nest)
        products = sum(work.products(node) for node in nest.body)
        if kernel.name == "qwinograd_neon":
            assert conv.flops // 9 < products < conv.flops // 2
        elif kernel.name == "qdepthwise_bytes":
            # vpmaddubsw takes one tap of 8 bits, and two windows of half a vector may be computed twice.
            assert conv.flops <= products <= 1.25 * conv.flops, config
        elif dict(config.knobs).get("multiply") in ("twos", "fours"):
            # What would saturate is multiplied apart.
            assert conv.flops // 2 < products <= conv.flops, config
        else:
            assert products == conv.flops // 2 * factors.get(kernel.name, 1), config
        weights = nest.buffers["weights"] // nest.widths["weights"]
        assert nest.widths["data"] == 1
        assert weights >= conv.out_c * conv.kh * conv.kw


@pytest.mark.parametrize(("block", "chain"), [("pairwise", 1), ("pairwise", 2), ("fours", 1)])
def test_products_that_are_added_in_pairs_count(block: str, chain: int) -> None:
    conv, target = QConv2d(1, 16, 16, 32, 64, 1, 1, weight_range=(-64, 64)), CATALOGUE["rpi4"]
    knobs = {"rows": 2, "columns": 4, "chain": chain, "slab": 1, "rows_from": "tiles"}
    config = Config.of("qgemm", block=block, requant="exact", **knobs)
    nest = read(registry.kernel("qgemm").build(conv, config, target, 1, "main"))
    assert sum(count(nest).products(node) for node in nest.body) == conv.flops // 2


def test_loops_whose_share_of_the_steps_is_in_memory_have_all_of_them_together() -> None:
    conv, target = (
        QConv2d(1, 14, 14, 64, 64, 1, 1, weight_range=(-64, 64), scale="small"),
        CATALOGUE["x86-avx2"],
    )
    kernel = registry.kernel("qdirect")
    (config, *_) = (each for each in kernel.space(conv, target) if each["multiply"] == "sixes")
    nest = read(kernel.build(conv, config, target, 1, "main"))
    products = sum(count(nest).products(node) for node in nest.body)
    # A step takes twelve channels, of 64.
    assert products == conv.flops // 2 * 72 // 64


def test_a_gemm_reads_as_its_plan() -> None:
    workload, target = Gemm(64, 96, 512), CATALOGUE["x86-avx2"]
    kernel = registry.kernel("gemm")
    config = kernel.recommend(workload, target)
    rows, vectors = config.int("rows"), config.int("vectors")
    nest = read(kernel.build(workload, config, target, 1, "main"))
    work = count(nest)
    hot = hot_path(nest, work)
    assert hot is not None
    path, piece = hot
    assert [work.turns[loop] for loop in path] == [{96 // (8 * vectors)}, {64 // rows}, {512}]
    assert piece.multiply_adds == {8: rows * vectors}
    assert nest.accumulators == rows * vectors * 8
    assert {loop.kind for loop in walk(nest.body) if isinstance(loop, Loop)} == {"serial"}
    line = 64
    assert working_set(nest, path[-1], line) == {
        "data": rows * 512 * 4,
        "weights": vectors * 8 * 512 * 4,
    }
