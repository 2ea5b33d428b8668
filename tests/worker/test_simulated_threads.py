"""Threads on simulated boards: bit-same times, cores that add up, memory and locks that are shared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels import registry
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.runtimes.emulated import emulate
from worker.candidate import Candidate
from worker.fleet.drivers.agent_build import SOURCES, STATIC
from worker.fleet.drivers.sim_core import TICKS
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.measure.measure import MeasureOptions, measure

pytestmark = pytest.mark.xdist_group("simulated")

BOARDS = ("rpi4-sim", "rpi4-32-sim")
"""One with a table of measured instructions, and one without."""
CONV = Conv2d(n=1, in_c=32, in_h=28, in_w=28, out_c=64, kh=3, kw=3, pad=(1, 1, 1, 1))


@pytest.fixture(scope="module", params=BOARDS)
def timed(request, simulated_dir, tmp_path_factory):
    """What the program says on a board: the ticks of its five pieces of work, by threads."""
    board = request.param
    folder = tmp_path_factory.mktemp("threads")
    options = ["-target", SIM_MODELS[board].triple, *STATIC, "-I", str(SOURCES)]
    source = str(Path(__file__).with_name("threads_guest.c"))
    program = str(folder / "guest")
    subprocess.run([sys.executable, "-P", "-m", "ziglang", "cc", *options, source, "-o", program], check=True)

    def run(threads):
        page = folder / "page"
        return list(
            map(int, emulate(board, folder, [program, str(page), str(threads)], page, simulated_dir).split())
        )

    return run


def test_threads_take_the_same_time_on_every_start(timed):
    assert len({tuple(timed(4)) for _ in range(3)}) == 1


def test_cores_share_memory_and_locks_and_nothing_else(timed):
    alone, four = timed(1), timed(4)
    compute, walk, change, turns, few = (one / other for one, other in zip(alone, four, strict=True))
    assert compute > 3
    assert walk < 0.8 * compute  # the memory of the board is less than four times what one core takes of it
    assert change < 0.8 * walk  # each line goes back, too
    assert turns < 1 / 3  # four times the work, which the lock lets one thread do at a time
    assert few < 0.9 * compute  # the second cache is the limit


def test_four_cores_that_change_arrays_in_place_take_what_a_pi_4_took(timed):
    """MP-MFLOPS on a Pi 4: cycles of a line that is read and written, of 1 MB and of 100 KB for each core."""
    _, _, change, _, few = timed(4)
    assert change / TICKS / (5 * (4 << 20) / 64) == pytest.approx(72.6, rel=0.2)
    assert few / TICKS / (40 * (400 << 10) / 64) == pytest.approx(5.3, rel=0.2)


@pytest.mark.parametrize("name", ["rpi4-sim", "rpi5-sim"])
def test_a_kernel_with_threads_takes_the_same_time_on_every_restart(
    simulated_boards, nursery, builder, tmp_path, name
):
    """On the second board L3 is another one while one core alone runs."""
    board = simulated_boards[name]

    def trial(threads):
        target = CATALOGUE[board.target]
        config = registry.kernel("sconv").recommend(CONV, target, threads=threads)
        built = builder.build(Candidate(CONV, config, target, threads))
        options = MeasureOptions(run_timeout_s=120)
        (outcome,) = measure(nursery, board, [built], options, lock_dir=tmp_path)
        assert outcome.ok, outcome
        return outcome.cost_s, outcome.counters

    first = {threads: trial(threads) for threads in (1, 2, 4)}
    board.restart()
    assert {threads: trial(threads) for threads in (4, 1, 2)} == first
    assert first[1][0] > 1.6 * first[2][0] > 2.4 * first[4][0]
