"""Jumps on simulated boards: each that is taken costs, and one that is guessed wrong costs more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.silicon.jumps import jumps
from bench.silicon.loops import Loop
from bench.silicon.places import elsewhere
from bench.silicon.programs import measured
from bench.silicon.table import rows
from worker.fleet.drivers.sim_prices import CORES
from worker.fleet.drivers.simulated import why_no_emulator

BOARD = "rpi4-sim"


def test_each_row_of_several_instructions_or_random_has_a_loop() -> None:
    names = [row.name for row in rows() if row.section == "Branch"]
    several = [name for name in names if any(sign in name for sign in ("->", "//", "-ret", "pc+8", "random"))]
    assert len(several) == 36
    assert all(jumps(name) for name in several)
    assert jumps("cbz (pc+4; taken)") is None
    assert jumps("br somewhere") is None


def test_jumps_cost_what_the_core_cannot_foresee(tmp_path: Path) -> None:
    problem = why_no_emulator(BOARD)
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    core = CORES["a72"]
    random = jumps("and -> cbz (pc+4; full random)")
    foreseen = Loop(("tbz x25, #0, .+8", "nop", "tbz x24, #2, .+8", "nop"), 2, (), 192)
    # Every second time: what the last jumps were tells it.
    turns = ("eor x0, x0, #1", "cbz x0, .+8", "nop", "add x1, x1, x24")
    in_turn = Loop(turns, 1, ("mov x0, xzr",), 24)
    over, back = Loop(("b .+8", "nop"), 1, (), 192), jumps("bl-ret")
    assert random
    assert back
    loops = [random, foreseen, in_turn, over, back]
    found = measured(loops, BOARD, tmp_path)
    wrong, right, other, jumped, called = (found[loop] or 0.0 for loop in loops)
    assert right < 3
    assert other < 4
    assert right + 0.35 * core.guess < wrong < right + 0.6 * core.guess
    assert jumped == pytest.approx(core.taken[0], rel=0.02)
    assert called == pytest.approx(core.taken[0] + core.taken[1], rel=0.02)


def test_rows_at_odd_places_have_another_address() -> None:
    section = "Scalar load"
    (loop,) = elsewhere(section, "ldr (imm; ofs = 0; cross-cache)")
    assert loop.setup[0] == "mov x22, #61"
    assert set(loop.lines) == {f"ldr x{number}, [x28, #0]" for number in range(24)}
    assert elsewhere(section, "ldr (imm; ofs = 0)") == ()
    assert elsewhere(section, "no such thing (unaligned; unaligned)") == ()
