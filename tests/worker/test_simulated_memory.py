"""What misses cost on simulated boards of AArch64: by what waits for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.runtimes.emulated import emulate
from worker.fleet.drivers.agent_build import SOURCES, STATIC
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.sim_prices import CORES

BOARDS = ("rpi4-sim", "rpi5-sim", "graviton3-sim")


@pytest.fixture(scope="module")
def build(simulated_dir, tmp_path_factory):
    """Builds a program from a file beside this one."""

    def built(name):
        program = tmp_path_factory.mktemp("memory") / "guest"
        options = ["-target", SIM_MODELS["rpi4-sim"].triple, *STATIC, "-O1", "-I", str(SOURCES)]
        command = [sys.executable, "-P", "-m", "ziglang", "cc", *options]
        subprocess.run([*command, str(Path(__file__).with_name(name)), "-o", str(program)], check=True)
        return program

    return built


@pytest.fixture(scope="module")
def guest(build):
    return build("memory_guest.c")


@pytest.mark.parametrize("board", BOARDS)
def test_misses_cost_what_waits_for_them(guest, simulated_dir, tmp_path, board):
    """A list pays each; loads that do not wait share one latency; a stream pays transfers."""
    page = tmp_path / "page"
    cycles = json.loads(emulate(board, tmp_path, [str(guest), str(page)], page, simulated_dir))
    figures = SIM_MODELS[board]
    assert cycles["list"] == pytest.approx(figures.memory_cycles + 4, rel=0.02)
    together = min(figures.in_flight, CORES[figures.core].window // 4)
    moved = figures.memory_line_cycles + figures.memory_row_cycles  # each lies in another row
    least = max(figures.memory_cycles / together, figures.memory_stream_cycles, moved)
    assert cycles["apart"] == pytest.approx(least, rel=0.35)
    assert cycles["stream"] == pytest.approx(figures.memory_stream_cycles, rel=0.35)
    beside = figures.l2_stream_cycles if figures.lines_ahead else figures.memory_stream_cycles
    assert cycles["beside"] == pytest.approx(16 + beside, rel=0.1)


def test_loads_anywhere_in_more_than_l3_take_what_a_pi_5_took(build, simulated_dir, tmp_path):
    """tinymembench on a Pi 5 of September 2023: cycles beyond a load from L1, at 2.4 GHz.

    If L3 had the lines of L2, too, half of 4 MB would be in memory. It has them when several cores run.
    """
    page = tmp_path / "page"
    cycles = json.loads(
        emulate("rpi5-sim", tmp_path, [str(build("lists_guest.c")), str(page)], page, simulated_dir)
    )
    took = {"1024": 9.9, "4096": 55.2, "8192": 87.8}
    assert {kb: cycles[kb] for kb in took} == {
        kb: pytest.approx(2.4 * ns, rel=0.08) for kb, ns in took.items()
    }
    assert cycles["several"] > 1.1 * cycles["4096"]


def test_copies_take_what_a_pi_5_took(build, simulated_dir, tmp_path):
    """tinymembench on a Pi 5 of September 2023: cycles of a line at 2.4 GHz."""
    page = tmp_path / "page"
    cycles = json.loads(
        emulate("rpi5-sim", tmp_path, [str(build("copies_guest.c")), str(page)], page, simulated_dir)
    )
    took = {"read": 11.3, "fill": 13.3, "copy": 29.1, "bursts": 102.8}
    assert cycles == {kind: pytest.approx(lines, rel=0.1) for kind, lines in took.items()}
