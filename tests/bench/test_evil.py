"""A lab with boards that lie: what they said of themselves, and false failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.evil.lab import Lab, table
from bench.evil.modes import MODES
from bench.soak.world import World

LIES = {
    "a peak of 1e6 TFLOP/s and more": "it said that a call took",
    "false crashes": "it said of a trial that others repeated: crash",
}


@pytest.mark.timeout(900)
def test_a_board_that_lies_is_parked_and_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        lab = Lab(world, [mode for mode in MODES if mode.words in LIES], busy=True)
        answers = [lab.answer(number) for number in range(len(LIES))]
    finally:
        world.close()
    for each in answers:
        assert LIES[each.words] in each.parked, each
        assert each.faults == (), each
    assert table(answers).count("| nothing |") == len(LIES)
