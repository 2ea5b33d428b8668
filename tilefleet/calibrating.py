"""``tilefleet calibrate``: a board's figures, measured on it, and as a fleet file says them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels import target as targets
from kernels.target import Target
from tilefleet.errors import TilefleetError
from tilefleet.one_board import started_board
from worker.build.artifacts import ArtifactStore
from worker.calibrate.calibrate import calibrate
from worker.calibrate.figure import Figure
from worker.calibrate.target import with_figures as with_measured
from worker.children.nursery import ChildError
from worker.fleet.drivers.base import Driver
from worker.fleet.drivers.sim_figures import figures_of, with_figures
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import SimulatedBoard

_HOST_S = 60.0


@dataclass(frozen=True)
class Calibration:
    """What was found of a board. ``model`` is the simulated board that may have its figures, "" for none."""

    board: str
    target: str
    clock: str
    model: str
    figures: Sequence[Figure]
    base: Target

    def target_toml(self, name: str) -> str:
        """A ``[[target]]`` of a fleet file called ``name``: the board's target with what was found.

        Raises TilefleetError where that is no target.
        """
        try:
            target = with_measured(self.base, self.figures, name)
        except ValueError as error:
            raise TilefleetError(f"board {self.board} gives no target: {error}") from None
        lines = [f"# measured on {self.board} ({self.target}), clock {self.clock}", "[[target]]"]
        # What JSON says of words, numbers and lists of words is TOML.
        lines += [f"{field} = {json.dumps(value)}" for field, value in targets.to_json(target).items()]
        return "".join(f"{line}\n" for line in lines)

    def toml(self) -> str:
        """``[board.figures]`` of a fleet file; comments say what was not told, or has no place there."""
        accepted = figures_of(self.model) if self.model else [each.name for each in self.figures]
        lines, given = [], {}
        for each in self.figures:
            if each.value is None:
                lines.append(f"# {each.name}: {each.how}")
            elif each.whole is not None and each.name in accepted:
                lines.append(f"{each.name} = {each.whole}")
                given[each.name] = each.whole
            elif each.whole is not None:
                lines.append(
                    f"# {each.name} = {each.whole}: {self.model} takes it from its table, or has none"
                )
        head = [f"# {self.board} ({self.target}), clock {self.clock}"]
        if self.model:
            head.append(f'# for a board of kind "simulated" with model = "{self.model}"')
            try:
                with_figures(self.model, given)
            except ValueError as error:
                head.append(f"# to be mended: {error}")
        return "".join(f"{line}\n" for line in [*head, "[board.figures]", *lines])


def calibrated(name: str, file: Path | None) -> Calibration:
    """The figures of the board called ``name``, of the fleet ``file`` or one that this machine can start.

    Raises TilefleetError.
    """
    with started_board(name, file, None) as board, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        try:
            target = board.target or targets.from_json(
                board.nursery.call("worker.measure.host:host_target_in_child", None, timeout_s=_HOST_S)
            )
            store = ArtifactStore(Path(folder))
            found = calibrate(board.nursery, board.driver, target, store=store, lock_dir=Path(folder))
        except ChildError as error:
            raise TilefleetError(f"board {name} could not be calibrated: {error}") from None
        model = _model_of(board.driver, target)
        return Calibration(name, target.name, board.driver.clock, model, found, target)


def _model_of(driver: Driver, target: Target) -> str:
    """The simulated board of a target, or the one that a board is."""
    if isinstance(driver, SimulatedBoard):
        return driver.model
    return next((name for name, model in SIM_MODELS.items() if model.target == target.name), "")
