"""What copying activations between layouts costs: as measured on a board, or else as predicted."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.operators.relayout import is_free, predict_relayout
from kernels.target import Target
from tuner.log.relayouts import Relayouts


@dataclass(frozen=True)
class Prices:
    """What each conversion of a build costs. What is predicted is scaled by ``scale``: how many times as long
    as predicted other things took."""

    target: Target
    threads: int
    measured: Relayouts | None = None
    scale: float = 1.0

    def of(self, shape: tuple[int, ...], source: str, to: str) -> tuple[float, bool]:
        """(seconds, whether that is from a measurement)."""
        if is_free(shape, source, to):
            return 0.0, False
        seconds = self.measured.seconds(shape, source, to) if self.measured else None
        if seconds is not None:
            return seconds, True
        return self.scale * predict_relayout(shape, source, to, self.target, self.threads), False
