"""The instructions of the micro-kernels, read from the generated assembly."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from on_targets import assembly_of

from kernels import registry
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

RPI4, ARM32, RPI5, GRAVITON = (CATALOGUE[name] for name in ("rpi4", "rpi4-32", "rpi5", "graviton3"))
SIGNED = QConv2d(1, 12, 12, 64, 48, 3, 3, data_dtype="int8", weight_range=(-127, 127), scale="small")
UNSIGNED = replace(SIGNED, data_dtype="uint8", weight_dtype="uint8", weight_range=None)
HALF = replace(UNSIGNED, weight_range=(0, 128))
KERNEL = registry.kernel("qgemm")


def hot_loops(conv, target, block, rows, columns, chain=1, source="tiles"):
    """How often each mnemonic occurs in each innermost loop, most products first, and ``spills``."""
    knobs = {"rows": rows, "columns": columns, "chain": chain, "rows_from": source, "slab": 2}
    config = Config.of("qgemm", block=block, requant="high", **knobs)
    assert KERNEL.space(conv, target).why_not(config) is None
    loops, label, lines = [], None, []
    for line in assembly_of(KERNEL, conv, config, target).splitlines():
        if start := re.match(r"(\.LBB\w+):", line):
            label, lines = start[1], []
        elif re.match(r"\s+[a-z]", line):
            lines.append(line.split())
            if label and re.match(rf"\s+\S+\s+(\S+,\s*)?{re.escape(label)}$", line):
                loops.append(lines)
    counts = [
        Counter([w[0] for w in loop] + ["spills"] * sum("sp" in " ".join(w) for w in loop)) for loop in loops
    ]
    names = re.compile(r"[su]mull|[su]mlal|[su]adalp|[su]dot|[su]mmla|vml|vmull|vpadal")
    return sorted(counts, key=lambda c: -sum(n for name, n in c.items() if names.match(name)))


def hot_loop(*wanted, **more):
    """The one with most products."""
    return hot_loops(*wanted, **more)[0]


@pytest.mark.parametrize(
    ("conv", "target", "block", "expected"),
    [
        (SIGNED, RPI4, ("pairwise", 4, 4), {"smull": 32, "sadalp": 32}),
        (SIGNED, RPI4, ("pairwise", 4, 4, 2), {"smull": 16, "smlal": 16, "sadalp": 16}),
        (UNSIGNED, RPI4, ("pairwise", 4, 4), {"umull": 32, "uadalp": 32}),
        (HALF, RPI4, ("pairwise", 4, 4, 2), {"umull": 16, "umlal": 16, "uadalp": 16}),
        (SIGNED, RPI4, ("lane", 8, 8), {"smlal": 128}),
        (SIGNED, RPI4, ("lane", 4, 8), {"smlal": 64}),
        (SIGNED, RPI5, ("dot", 8, 12), {"sdot": 24}),
        (UNSIGNED, RPI5, ("dot", 12, 4), {"udot": 12}),
        (SIGNED, GRAVITON, ("matrix", 8, 8), {"smmla": 16}),
        (UNSIGNED, GRAVITON, ("matrix", 8, 12), {"ummla": 24}),
        (SIGNED, ARM32, ("pairwise", 2, 2, 2), {"vmull.s8": 4, "vmlal.s8": 4, "vpadal.s16": 4}),
        (SIGNED, ARM32, ("pairwise", 3, 3, 2), {"vmull.s8": 9, "vmlal.s8": 9, "vpadal.s16": 9}),
        (UNSIGNED, ARM32, ("pairwise", 2, 6), {"vmull.u8": 24, "vpadal.u16": 24}),
        (SIGNED, ARM32, ("lane", 2, 8), {"vmlal.s16": 32}),
        (SIGNED, ARM32, ("lane", 4, 8), {"vmlal.s16": 64}),
        (SIGNED, ARM32, ("lane", 7, 4), {"vmlal.s16": 56}),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "name", None),
)
def test_blocks_are_the_instructions_wanted_and_do_not_spill(conv, target, block, expected):
    counts = hot_loop(conv, target, *block)
    assert {name: counts[name] for name in expected} == expected
    assert counts["spills"] == 0
    # Loads and the loop are all that is besides.
    assert counts.total() <= 2 * sum(expected.values()) + 8


@pytest.mark.parametrize(("rows", "columns"), [(2, 8), (3, 4), (7, 2)])
def test_fours_multiply_three_times_in_four_without_widening(rows, columns):
    pairs, fours = hot_loops(SIGNED, RPI4, "fours", rows, columns)[:2]
    sums = rows * columns
    for counts, expected in ((pairs, (2, 2, 2)), (fours, (1, 3, 1))):
        assert [counts[name] / sums for name in ("smull", "smlal", "sadalp")] == list(expected)
        assert counts["spills"] == 0


def test_dot_products_take_their_rows_by_lane():
    """Four rows of a vector: a load for four of them, and no copies."""
    counts = hot_loop(SIGNED, RPI5, "dot", 8, 12)
    assert counts["ldp"] + counts["ldr"] + counts["ldur"] <= 5
    assert not counts["dup"]


def test_32_bit_arm_has_no_registers_for_the_blocks_of_64_bit_arm():
    """Seed 001: 8x8 is for AArch64. Of those on the 16 registers of Arm32 the recommended fits."""
    assert hot_loop(SIGNED, RPI4, "lane", 8, 8)["spills"] == 0
    wide = Config.of(
        "qgemm", block="lane", rows=8, columns=8, chain=1, rows_from="tiles", slab=2, requant="high"
    )
    assert "spill" in KERNEL.space(SIGNED, ARM32).why_not(wide)
    assert hot_loop(SIGNED, ARM32, "lane", 6, 8)["spills"] > 0
    best, wide = (KERNEL.recommend(SIGNED, target) for target in (ARM32, RPI4))
    assert (best["rows"], best["columns"]) != (wide["rows"], wide["columns"])
    knobs = (str(best["block"]), *(best.int(name) for name in ("rows", "columns", "chain")))
    assert hot_loop(SIGNED, ARM32, *knobs)["spills"] == 0


def test_sums_are_scaled_by_two_instructions_and_saturated_by_narrowing():
    config = KERNEL.recommend(SIGNED, RPI4)
    text = assembly_of(KERNEL, SIGNED, config, RPI4)
    assert {"sqdmulh", "srshl", "sqxtn", "sqxtn2"} <= set(re.findall(r"^\s+(\w+)", text, re.MULTILINE))
