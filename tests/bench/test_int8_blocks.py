"""Blocks read from assembly: what each instruction takes, and that the loop is found."""

import pytest

from bench.int8_best_blocks import SIZES, configs, layer
from bench.int8_blocks import Loop, loops
from kernels.target import CATALOGUE

ARM32 = """
.LBB0_1:
\tvld1.64\t{d16, d17}, [r1]!   @ a vector
\tvldr\td18, [r2]
\tvmlal.s16\tq8, d16, d18[0]
\tvpadal.s16\tq9, q10
\tvst1.64\t{d16, d17}, [sp]
\tsubs\tr3, r3, #1
\tbne\t.LBB0_1
\tbx\tlr
"""
AARCH64 = """
.LBB0_1:
\tldp\tq0, q1, [x1], #32
\tsmull\tv2.8h, v0.8b, v1.8b
\tsmlal2\tv2.8h, v0.16b, v1.16b
\tsadalp\tv3.4s, v2.8h
\tsubs\tx3, x3, #1
\tb.ne\t.LBB0_1
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ARM32, Loop(instructions=7, products=1, spills=1, cycles=7 / 3)),
        (AARCH64, Loop(instructions=6, products=2, spills=0, cycles=2.5)),
    ],
)
def test_loops_are_charged_for_their_busiest_pipe(text, expected):
    (found,) = loops(text)
    assert found == expected


def test_pairs_of_vectors_take_two_loads():
    assert Loop.of(["ldp q0, q1, [x1]"] * 4).cycles == 8
    assert Loop.of(["ldp d0, d1, [x1]"] * 4).cycles == 4


@pytest.mark.parametrize(("target", "pairwise", "lane"), [("rpi4", 49, 64), ("rpi4-32", 29, 60)])
def test_every_block_that_fits_the_registers_is_measured(target, pairwise, lane):
    found = {(c["block"], c["rows"], c["columns"]) for c in configs(layer(*SIZES[0]), CATALOGUE[target])}
    assert [sum(kind == key[0] for key in found) for kind in ("pairwise", "lane")] == [pairwise, lane]


def test_loads_of_several_registers_take_a_slot_for_each():
    assert Loop.of(["vldmia r1, {d16, d17}"] * 4).cycles == 8
    assert Loop.of(["vld1.64 {d16, d17}, [r1]"] * 4).cycles == 4
