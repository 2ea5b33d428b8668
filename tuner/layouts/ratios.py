"""What measurements say of predictions: measured over predicted seconds, by family of kernels."""

from __future__ import annotations

import math
import statistics


class Ratios:
    """How far the predictions of each family were off on one machine.

    Predictions order configs of one kernel well, and kernels less so: whatever is wrong with a kernel's
    (say, in NHWC) is much alike in all layers.
    """

    def __init__(self) -> None:
        self._logs: dict[str, list[float]] = {}

    def learn(self, family: str, measured_s: float, predicted_s: float) -> None:
        """Take in one measurement of a config of ``family``."""
        self._logs.setdefault(family, []).append(math.log(measured_s / predicted_s))

    def known(self, family: str) -> int:
        """How many measurements there are of ``family``."""
        return len(self._logs.get(family, ()))

    def of(self, family: str) -> float:
        """The median of the family, or of all where it has none; 1 where nothing was measured."""
        return _median(self._logs.get(family, [])) or self.overall

    @property
    def overall(self) -> float:
        """The median of all; 1 where nothing was measured."""
        return _median([log for logs in self._logs.values() for log in logs]) or 1.0


def _median(logs: list[float]) -> float | None:
    return math.exp(statistics.median(logs)) if logs else None
