"""How many trials a job has had."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.spec import Trial


class Tally:
    """Trials by task and number, and whether each failed; one that is measured again was counted before."""

    def __init__(self) -> None:
        self._failed: dict[tuple[int, int], bool] = {}

    def add(self, trials: Iterable[Trial]) -> None:
        """Count trials that were saved."""
        for trial in trials:
            self._failed.setdefault((trial.task_id, trial.number), trial.record.error is not None)

    @property
    def trials(self) -> int:
        """All of them."""
        return len(self._failed)

    @property
    def failed(self) -> int:
        """Those that failed when they were measured first, as the rows of tasks count them, too."""
        return sum(self._failed.values())
