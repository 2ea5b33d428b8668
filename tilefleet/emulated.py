"""The emulator that runs what is built for another machine, where no board does."""

from __future__ import annotations

from kernels.target import CATALOGUE, Target
from tilefleet.errors import TilefleetError
from tilefleet.server_check import NotChecked
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import why_no_emulator

EMULATED_S = 300.0
"""How long a build waits for an emulator that nobody asked for by --board."""


def emulator_of(target: Target) -> str:
    """The simulated board that runs code for ``target``; raises NotChecked where there is none."""
    known = CATALOGUE.get(target.name)
    names = [name for name, model in SIM_MODELS.items() if model.target == target.name]
    if not names or known is None or known.key != target.key:
        raise NotChecked("there is no emulator of that target; --board names a board")
    problem = why_no_emulator(names[0])
    if problem:
        raise NotChecked(f"{problem}; --board names a board")
    return names[0]


def gave_up(name: str, error: TilefleetError) -> NotChecked:
    """Why an emulator that came to no answer is no check."""
    return NotChecked(f"{error}; --board {name} waits longer")
