"""A calibration finds the figures that a simulated board was given."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from kernels.target import CATALOGUE
from worker.calibrate.bench import Turn
from worker.calibrate.calibrate import calibrate
from worker.calibrate.levels import capacity, levels
from worker.calibrate.pipe_kernels import CHAIN, wide_of
from worker.calibrate.pipes import _width
from worker.fleet.drivers.sim_figures import with_figures
from worker.fleet.drivers.simulated import SimulatedBoard

TARGET = CATALOGUE["power10"]
OWN = {
    "hz": 1_000_000_000,
    "l1_bytes": 24 << 10,
    "l1_ways": 3,
    "l2_bytes": 512 << 10,
    "l2_ways": 8,
    "l2_cycles": 25,
    "l2_stream_cycles": 6,
    "l3_bytes": 4 << 20,
    "l3_ways": 16,
    "l3_cycles": 60,
    "l3_stream_cycles": 9,
    "memory_cycles": 300,
    "memory_stream_cycles": 30,
    "in_flight": 10,
    "vector": 4,
    "load": 2,
    "width": 4,
}


@pytest.mark.xdist_group("simulated")
def test_figures_of_ones_own_are_found_again(nursery, builder, simulated_dir, tmp_path) -> None:
    wanted = with_figures("rpi4-sim", OWN)
    with SimulatedBoard("rpi4-sim", figures=OWN, id="own-sim", state_dir=simulated_dir) as board:
        found = calibrate(nursery, board, CATALOGUE[board.target], store=builder.store, lock_dir=tmp_path)
    values = {each.name: each.value for each in found}
    assert {name: values[name] for name in OWN} == {
        name: pytest.approx(getattr(wanted, name), rel=0.05) for name in OWN
    }
    for name in ("l1_bytes", "l2_bytes", "l3_bytes", "line_bytes", "in_flight"):
        assert values[name] == getattr(wanted, name)
    assert all(
        each.whole == getattr(wanted, each.name) for each in found if each.name in OWN and each.name != "hz"
    )


def curve(size: int) -> float:
    """Two caches of 48 and 448 KB, and a memory."""
    return 4.0 if size <= 48 << 10 else 14.0 if size <= 448 << 10 else 200.0


def test_caches_are_read_from_a_curve() -> None:
    sizes = [part << power for power in range(12, 24) for part in (2, 3)]
    found = levels([(size, curve(size)) for size in sizes], 0.08)
    assert [level.step for level in found] == [4.0, 14.0, 200.0]
    assert [capacity(level, beyond.step, curve) for level, beyond in pairwise(found)] == [
        48 << 10,
        448 << 10,
    ]
    assert found[-1].outside == 0


def test_a_flat_curve_has_one_level() -> None:
    assert len(levels([(1 << power, 4.0 + math.sin(power) / 20) for power in range(12, 24)], 0.25)) == 1


class OneIntegerPipe:
    """One pipe for integers, which takes what the compiler adds as well, and a width that nobody sees."""

    hz = 1.0
    simulated = True

    def turn(self, kernel: str, turns: int) -> Turn:
        mix = wide_of(TARGET)[kernel]
        added = 3 * mix.loads
        cycles = CHAIN * mix.integers + added
        return Turn(cycles, 0.0, mix.operations + added)


def test_what_the_compiler_adds_is_no_width() -> None:
    found = _width(OneIntegerPipe(), TARGET, (1.0, 4.0, 1.0, 4.0))
    assert found.value is None
    assert "limited by pipes" in found.how
