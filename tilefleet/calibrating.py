"""``tilefleet calibrate``: a board's figures, measured on it, and as a fleet file says them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels import target as targets
from tilefleet.errors import TilefleetError
from tilefleet.one_board import started_board
from worker.build.artifacts import ArtifactStore
from worker.calibrate.calibrate import calibrate
from worker.calibrate.figure import Figure
from worker.children.nursery import ChildError

_HOST_S = 60.0


@dataclass(frozen=True)
class Calibration:
    """What was found of a board."""

    board: str
    target: str
    clock: str
    figures: Sequence[Figure]

    def toml(self) -> str:
        """``[board.figures]`` of a fleet file; what was not told is a comment with the reason."""
        lines = [f"# {self.board} ({self.target}), clock {self.clock}", "[board.figures]"]
        for figure in self.figures:
            if figure.whole is not None:
                lines.append(f"{figure.name} = {figure.whole}")
            elif figure.value is None:
                lines.append(f"# {figure.name}: {figure.how}")
        return "".join(f"{line}\n" for line in lines)


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
        return Calibration(name, target.name, board.driver.clock, found)
