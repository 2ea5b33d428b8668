"""A target with measured figures: what becomes of each figure, and boards that take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import target as targets
from kernels.target import CATALOGUE
from worker.calibrate.figure import Figure
from worker.calibrate.target import with_figures
from worker.fleet.drivers.spec import Site
from worker.fleet.fleet_file import FleetError, read_fleet

BASE = CATALOGUE["rpi5"]
MEASURED = {
    "hz": 1.6e9 + 0.4,
    "load": 2.0,
    "width": 3.98,
    "product latency": 4.0,
    "products": 1.98,
    "l1_bytes": 32768,
    "l2_bytes": 131072,
    "line_bytes": 64,
    "l2_cycles": 12.4,
    "memory_cycles": 300.2,
    "l1 write": 12.8,
    "l2_stream_cycles": 0.0,
    "memory_stream_cycles": 20.0,
}
FLEET = """
targets = ["mine.toml"]
[[board]]
id = "slow"
kind = "simulated"
model = "{}"
target = "{}"
"""


def made(values: dict[str, float | None], base=BASE):
    return with_figures(base, [Figure(name, value, "", "made") for name, value in values.items()], "mine")


def test_each_figure_becomes_a_fact_of_the_target() -> None:
    target = made(MEASURED)
    assert (target.name, target.hz, target.l1_bytes, target.l2_bytes) == (
        "mine",
        1_600_000_000,
        32768,
        131072,
    )
    assert (target.l2_cycles, target.dram_cycles) == (12, 300)
    assert (target.fmas_per_cycle, target.fma_latency, target.loads_per_cycle) == (1.98, 4.0, 2.0)
    assert target.issue_width == 3.98
    # 12.8 GB/s are 8 bytes a cycle: half a vector.
    assert target.stores_per_cycle == 0.5
    assert target.misses_in_flight == pytest.approx(15.0, rel=1e-2)
    assert target.dram_stream_cycles == 20.0
    # Too little to measure is not unknown, which 0 would say.
    assert 0 < target.l2_stream_cycles <= 0.01
    # No list found a third cache.
    assert (target.l3_bytes, target.l3_cycles) == (0, 0)
    assert targets.same_code(target, BASE)
    assert targets.from_json(targets.to_json(target)) == target


def test_what_was_not_told_is_kept() -> None:
    assert made({}) == targets.from_json({**targets.to_json(BASE), "name": "mine"})
    untold = dict.fromkeys(MEASURED)
    assert made({**untold, "products": 1.0}).fmas_per_cycle == 1.0
    assert made({**untold, "products": 1.0}).l3_bytes == BASE.l3_bytes
    # Speeds alone make no other kind of machine: its records still hold.
    assert made({"products": 1.0, "width": 2.0, "hz": 1e9, "memory_stream_cycles": 40.0}).key == BASE.key
    assert made({"l1_bytes": 16384}).key != BASE.key


def fleet(folder: Path, model: str, target: str) -> Path:
    lines = [f"{name} = {value!r}" for name, value in targets.to_json(made(MEASURED)).items()]
    (folder / "mine.toml").write_text("\n".join(["[[target]]", *lines]))
    path = folder / "fleet.toml"
    path.write_text(FLEET.format(model, target))
    return path


def test_a_simulated_board_takes_a_target_of_its_instructions_alone(tmp_path: Path) -> None:
    (board,) = read_fleet(fleet(tmp_path, "rpi5-sim", "mine")).boards
    driver = board.driver(Site(tmp_path, [0], [0], None))
    assert driver.target == "mine"
    for model, target, message in (
        ("rpi4-sim", "mine", "'mine' has other instructions or registers than rpi4"),
        ("rpi5-sim", "rpi4", "'rpi4' has other instructions"),
        ("rpi5-sim", "yours", "target: 'yours' is unknown; take one of .*mine"),
    ):
        with pytest.raises(FleetError, match=message):
            read_fleet(fleet(tmp_path, model, target))
