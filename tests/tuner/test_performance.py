"""What is kept of models' times, and how others are compared with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.layout import NHWC
from kernels.operators.pool import Pool, build_pool
from kernels.target import CATALOGUE
from tuner.performance.assembly import assembly_of, readable
from tuner.performance.baseline import Baseline
from tuner.performance.changes import changes
from tuner.performance.timed import Part, Timed

CONV = Part("conv", "k1", ("conv", "relu"), {"kernel": "fconv", "block": "4x2"}, 1, 1e-3, "c1")
DENSE = Part("dense", "k2", ("dense",), {"kernel": "gemm"}, 2, 5e-4, "c2")
POOL = Part("pool 1x8", "pool 1x8", (), None, 1, 1e-5, "c3")
BEFORE = Timed((CONV, DENSE, POOL))


def kinds(*parts: Part, allowed: float = 0.005) -> tuple[dict[str, str], bool]:
    """What changed by the part's name, and whether the model counts as slower."""
    found = changes(BEFORE, Timed(parts), allowed)
    names = {(each.after or each.before).name: each.kind for each in found.each}  # type: ignore[union-attr]
    return names, found.slower


def test_the_same_times_and_code_are_no_change() -> None:
    assert kinds(POOL, DENSE, CONV) == ({}, False)


@pytest.mark.parametrize(
    ("share", "kind", "slower"),
    [(1.0051, "slower", True), (1.0049, "a little slower", False), (0.9, "faster", False)],
)
def test_a_layer_is_slower_beyond_what_is_allowed(share: float, kind: str, slower: bool) -> None:
    # By so little that the whole model hides it.
    pool = replace(POOL, seconds=POOL.seconds * share, code="c9")
    assert kinds(CONV, DENSE, pool) == ({"pool 1x8": kind}, slower)


def test_other_code_of_the_same_time_is_told_and_allowed() -> None:
    assert kinds(CONV, replace(DENSE, code="c9"), POOL) == ({"dense": "same time"}, False)


def test_the_same_code_elsewhere_is_judged_by_the_whole() -> None:
    assert kinds(CONV, DENSE, replace(POOL, seconds=1.1e-5)) == ({"pool 1x8": "same code"}, False)
    assert kinds(CONV, DENSE, replace(POOL, seconds=2e-5)) == ({"pool 1x8": "same code"}, True)
    assert kinds(CONV, DENSE, replace(POOL, seconds=2e-5, calls=2)) == ({"pool 1x8": "slower"}, True)


def test_what_is_new_or_gone_is_judged_by_the_whole() -> None:
    copy = replace(POOL, name="copy", key="copy", seconds=1e-6)
    assert kinds(CONV, DENSE, copy) == ({"copy": "new", "pool 1x8": "removed"}, False)
    assert kinds(CONV, DENSE, POOL, replace(copy, seconds=1e-4)) == ({"copy": "new"}, True)


def test_another_fusion_of_the_same_nodes_replaces_what_there_was() -> None:
    fused = replace(CONV, name="conv +add", key="k9", nodes=("conv", "relu", "add"), seconds=1.002e-3)
    assert kinds(fused, DENSE, POOL) == ({"conv +add": "replaced"}, False)


def test_of_one_workload_those_of_one_node_are_compared() -> None:
    other = replace(CONV, nodes=("conv2", "relu2"), config={"kernel": "sconv"}, seconds=2e-3)
    found = changes(Timed((CONV, other)), Timed((replace(other, seconds=3e-3, code="c9"), CONV)), 0.005)
    (change,) = found.each
    assert change.before == other
    assert found.growth == pytest.approx(1 / 3)


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = Baseline("rpi4-sim", "simulated:x", {"qemu": "7"}, {"m": BEFORE}, {"c1": "ret\n", "old": "nop"})
    path = tmp_path / "b.json"
    made.write(path)
    first = path.read_bytes()
    read = Baseline.read(path)
    assert read == replace(made, assembly={"c1": "ret\n"})
    read.write(path)
    assert path.read_bytes() == first
    assert json.loads(first)["models"]["m"]["seconds"] == BEFORE.seconds


@pytest.mark.parametrize("text", ["", "[]", '{"form": 2}', '{"form": 1}'])
def test_a_damaged_baseline_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(ValueError, match=r"b\.json is no baseline, or a damaged one"):
        Baseline.read(tmp_path / "b.json")


@pytest.mark.parametrize("target", ["rpi4", "power10", "rpi4-32", "riscv-k1", "hexagon-v66", "x86-avx2"])
def test_assembly_is_that_of_the_function_alone(target: str) -> None:
    pool = Pool("max", (1, 8, 6, 6), (3, 3), (2, 2), (2, 2), (0, 0))
    function = build_pool(pool, NHWC, CATALOGUE[target], 1, "pool")
    text = assembly_of("pool", function, CATALOGUE[target])
    assert "pool_compute_:" in text
    assert len(text.splitlines()) > 20
    assert not {word for word in (".cfi_", ".debug", "Mismatched") if word in text}


def test_assembly_without_that_function_stays() -> None:
    assert readable("a:\n\tret\n", "b") == "a:\n\tret\n"
