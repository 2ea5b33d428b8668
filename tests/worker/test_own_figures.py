"""Simulated boards with figures of one's own: what may be said, and that their clock has another name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker.fleet.drivers.sim_figures import figures_of, with_figures
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import SimulatedBoard
from worker.fleet.drivers.spec import Site
from worker.fleet.fleet_file import FleetError, read_fleet

BOARD = '[[board]]\nid = "mine"\nkind = "simulated"\nmodel = "{}"\n[board.figures]\n'


def read(folder: Path, figures: str, model: str = "rpi4-sim"):
    path = folder / "fleet.toml"
    path.write_text(BOARD.format(model) + figures)
    return read_fleet(path).boards[0]


def test_a_board_of_ones_own_has_a_clock_of_its_own(tmp_path: Path) -> None:
    usual = SimulatedBoard("rpi4-sim", state_dir=tmp_path).clock
    clocks = {usual}
    for figures in ("memory_cycles = 300", "width = 2", "vector = 1", "l2_bytes = 524288", "hz = 1000000000"):
        board = read(tmp_path, figures)
        clocks.add(board.driver(Site(tmp_path, [0], [0], None)).clock)
    assert len(clocks) == 6
    assert all(clock.startswith("simulated:rpi4-sim:") for clock in clocks)
    assert read(tmp_path, "").driver(Site(tmp_path, [0], [0], None)).clock == usual


@pytest.mark.parametrize("model", sorted(SIM_MODELS))
def test_every_figure_can_be_said_as_it_is(model: str) -> None:
    base = SIM_MODELS[model]
    said = {name: value for name in figures_of(model) if (value := getattr(base, name))}
    assert with_figures(model, said) == base


def test_fewer_pipes_make_instructions_take_longer() -> None:
    usual, one = (with_figures("rpi4-sim", figures) for figures in ({}, {"vector": 1, "width": 1}))
    before, after = (
        {tuple(words[1:8]): words[8 : words.index(":")] for words in lines if ":" in words}
        for lines in ([*map(str.split, each.prices.splitlines())] for each in (usual, one))
    )
    assert len(before) > 1000
    for key, price in before.items():
        old, new = map(int, price), [*map(int, after[key])]
        # Of the resources, the first is the front end, and the last three the pipes of vectors.
        front, *others = old
        wanted = [3 * front, *others[:-3], *(2 * ticks for ticks in others[-3:])]
        assert new == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        (
            "l4_bytes = 1",
            "figures: rpi4-sim has no figure 'l4_bytes'; it has hz, width, line_bytes, l1_bytes",
        ),
        ("divide_cycles = 9", "rpi4-sim has no figure 'divide_cycles'"),
        ("l2_cycles = 0", "l2_cycles is a whole number from 1 to 100000, not 0"),
        ("l2_cycles = 1.5", "not 1.5"),
        ("l2_cycles = true", "not True"),
        (f"hz = {10**30}", "hz is a whole number from 1000000 to 100000000000"),
        ("line_bytes = 48", "line_bytes is a power of two, not 48"),
        (
            "l1_bytes = 40000",
            "l1_bytes is l1_ways times line_bytes times a power of two, not 40000 with 2 ways",
        ),
        ("l2_bytes = 32768", "l2_bytes is more than that of the cache before it, not 32768"),
        ("l3_bytes = 4194304", "a third cache has .*; add l3_ways, l3_cycles, l3_stream_cycles"),
        ("l3_cycles = 40", "there is no third cache for l3_cycles; add l3_bytes"),
        ("l3_exclusive = 1", "there is no third cache for l3_exclusive; add l3_bytes"),
        ("hz = 'fast'", "not 'fast'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, figures: str, message: str) -> None:
    with pytest.raises(FleetError, match=rf"fleet\.toml: board 1 \(mine\): .*{message}"):
        read(tmp_path, figures)


def test_a_third_cache_comes_and_goes(tmp_path: Path) -> None:
    assert with_figures("rpi5-sim", {"l3_bytes": 0}).l3_cycles == 0
    assert with_figures("rpi5-sim", {"l3_bytes": 0}).parts == ("ahead",)
    own = {"l3_bytes": 4 << 20}
    assert with_figures("rpi5-sim", own).parts == ("ahead",)
    assert with_figures("rpi5-sim", own | {"l3_exclusive": 1}).parts == ("ahead", "exclusive")
    with pytest.raises(ValueError, match=re.escape("l3_bytes is a whole number from 1024")):
        with_figures("rpi5-sim", {"l3_bytes": -1})
